// Whether this binary computes on a card. Any thread; only built with the CUDA backend.
#pragma once

#include <string>

namespace graft {

// Why it does not, for an operator; "" where it does. Asks the driver for a kernel that is compiled
// for the architectures that all kernels are compiled for. Makes a context on this device where it
// has none, and on no other: the calling thread goes on with the device that it has, or with none.
std::string WhyNoCudaImage(int device);

}  // namespace graft
