// Descriptions of arrays in global memory by which Hopper's copy engine finds boxes of them
// (cuTensorMapEncodeTiled). For the host's part of .cu files; any thread.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "base/check.h"
#include "tensor/cuda_check.h"

namespace graft {

// An array of `count` dimensions, innermost first, and the box that one copy brings.
struct TensorMapShape {
  cuuint32_t count = 0;
  cuuint64_t sizes[4] = {};
  cuuint64_t strides[3] = {};  // bytes between neighbours in all dimensions but the innermost
  cuuint32_t box[4] = {};
};

// The driver is asked for this function at run time, so that the program also starts on a machine
// without a driver.
inline auto* TensorMapEncoder() {
  static auto* const encoder = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result;
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                cudaEnableDefault, &result));
    CHECK(result == cudaDriverEntryPointSuccess) << "the driver has no tensor maps";
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
  }();
  return encoder;
}

inline CUtensorMap EncodeTensorMap(CUtensorMapDataType type, const void* data,
                                   const TensorMapShape& shape, CUtensorMapSwizzle swizzle,
                                   CUtensorMapL2promotion promotion) {
  CUtensorMap map;
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const CUresult error = TensorMapEncoder()(
      &map, type, shape.count, const_cast<void*>(data), shape.sizes, shape.strides, shape.box,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CHECK(error == CUDA_SUCCESS) << "cuTensorMapEncodeTiled: " << static_cast<int>(error);
  return map;
}

}  // namespace graft
