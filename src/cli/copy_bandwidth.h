// The bandwidth that floors are reckoned with on a GPU. Main thread.
#pragma once

#include "tensor/stream.h"

namespace graft {

// GB/s of a large copy within the device's memory, bytes read and bytes written; the median of
// some.
double MeasureCopyGbytesPerSecond(const Stream& stream);

}  // namespace graft
