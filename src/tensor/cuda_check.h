// Checks of CUDA calls. A lack of memory is OutOfMemory; any other error ends the process and names
// the call and its place. Include this only from .cu files and from .cc files that are built only
// with the backend.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "tensor/stream.h"

#define CUDA_CHECK(call)                                                                 \
  do {                                                                                   \
    const cudaError_t cuda_error = (call);                                               \
    if (cuda_error == cudaErrorMemoryAllocation) ::graft::ThrowNoCudaMemory(#call);      \
    CHECK(cuda_error == cudaSuccess) << #call << ": " << cudaGetErrorString(cuda_error); \
  } while (false)

namespace graft {

// It spoils nothing: later calls are as if the call had not been.
[[noreturn]] inline void ThrowNoCudaMemory(const char* call) {
  cudaGetLastError();
  ThrowOutOfMemory(std::string("the GPU is out of memory: ") + call);
}

inline cudaStream_t CudaStreamOf(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.cuda_stream);
}

}  // namespace graft
