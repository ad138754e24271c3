#include "tensor/cuda_image.h"

#include <cuda_runtime.h>

#include <thread>

namespace graft {
namespace {

__global__ void ProbeKernel() {}

std::string Probe(int device) {
  cudaError_t error = cudaSetDevice(device);
  cudaFuncAttributes attributes;
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, ProbeKernel);
  cudaGetLastError();  // a missing image is no error of a later call
  if (error == cudaSuccess) return "";
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    return "this binary has no code that runs there";
  }
  return cudaGetErrorString(error);
}

}  // namespace

// The thread is there for its current device: a caller that has used none yet would otherwise be
// set back to the first device, which makes a context on that one, too.
std::string WhyNoCudaImage(int device) {
  std::string why;
  std::thread([&] { why = Probe(device); }).join();
  return why;
}

}  // namespace graft
