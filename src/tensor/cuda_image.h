// Whether this binary has code for a card. Any thread; only built with the CUDA backend.
#pragma once

namespace graft {

// Asks the driver for a kernel that is compiled for the architectures that all kernels are compiled
// for. Makes a context on the device where it has none; leaves the calling thread's device as it
// is.
bool HasCudaImage(int device);

}  // namespace graft
