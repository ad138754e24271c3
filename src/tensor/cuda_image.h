// Whether this binary computes on a card. Any thread; only built with the CUDA backend.
#pragma once

#include <string>

namespace graft {

// Why this binary does not compute on the device, for an operator; "" if it does. Asks the driver
// for a kernel that is compiled for the same architectures as all kernels. Makes a context on this
// device if it has none, and on no other. The calling thread keeps its own device, or none.
std::string WhyNoCudaImage(int device);

}  // namespace graft
