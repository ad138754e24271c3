// The GPU kernels that ops choose from, as tables to print.
#pragma once

#include <string>

#include "kernels/common/kernel_table.h"
#include "tensor/device_traits.h"

namespace graft {

// The ops' rows, in the order in which they are tried. Empty where the binary has no CUDA code.
KernelList ListKernels();

// A line for each, with what it takes and needs, and whether a card with `traits` has that.
std::string KernelListText(const KernelList& list, const DeviceTraits& traits);

// Each op's own table, which stands beside its launches.
void TellAttentionBackwardKernels(KernelList* list);
void TellAttentionKernels(KernelList* list);
void TellGemmKernels(KernelList* list);
void TellLoraKernels(KernelList* list);

}  // namespace graft
