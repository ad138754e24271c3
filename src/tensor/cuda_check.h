// For files that speak CUDA: errors end the process, with the call and where it stood. Include from
// .cu files and those .cc that are built only with the backend.
#pragma once

#include <cuda_runtime_api.h>

#include "base/check.h"
#include "tensor/stream.h"

#define CUDA_CHECK(call)                                                                 \
  do {                                                                                   \
    const cudaError_t cuda_error = (call);                                               \
    CHECK(cuda_error == cudaSuccess) << #call << ": " << cudaGetErrorString(cuda_error); \
  } while (false)

namespace graft {

inline cudaStream_t CudaStreamOf(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.cuda_stream);
}

}  // namespace graft
