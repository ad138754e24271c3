// The kernel for rows that need more than the largest logit (sampling_draw_cuda.cu).
#pragma once

#include "kernels/sampling/sampling_device.h"
#include "tensor/stream.h"

namespace graft {

void LaunchDrawKernel(const DrawRowsArgs& args, Stream& stream);

}  // namespace graft
