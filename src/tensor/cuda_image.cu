#include "tensor/cuda_image.h"

#include "tensor/cuda_check.h"

namespace graft {
namespace {

__global__ void ProbeKernel() {}

}  // namespace

bool HasCudaImage(int device) {
  int current = 0;
  CUDA_CHECK(cudaGetDevice(&current));
  CUDA_CHECK(cudaSetDevice(device));
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, ProbeKernel);
  cudaGetLastError();  // a missing image is no error of a later call
  CUDA_CHECK(cudaSetDevice(current));
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    return false;
  }
  CUDA_CHECK(error);
  return true;
}

}  // namespace graft
