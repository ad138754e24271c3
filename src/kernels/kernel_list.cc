#include "kernels/kernel_list.h"

#include <fmt/core.h>

#include "tensor/device.h"

namespace graft {
namespace {

std::string NeedsText(const CardNeeds& needs) {
  std::string text = needs.hopper_code ? "Hopper" : "any card";
  if (needs.shared_bytes > 0) {
    text += fmt::format(", {} KiB of shared memory", needs.shared_bytes >> 10);
  }
  return text;
}

}  // namespace

KernelList ListKernels() {
  KernelList list;
  if constexpr (kHasCuda) {
    TellGemmKernels(&list);
    TellAttentionKernels(&list);
    TellAttentionBackwardKernels(&list);
    TellLoraKernels(&list);
  }
  return list;
}

std::string KernelListText(const KernelList& list, const DeviceTraits& traits) {
  std::string text =
      fmt::format("{:<20} {:<14} {:<4} {:<38} {}\n", "op", "kernel", "here", "needs", "takes");
  for (const KernelFacts& kernel : list) {
    const char* const here = traits.is_gpu() && kernel.needs.AreMetBy(traits) ? "yes" : "no";
    text += fmt::format("{:<20} {:<14} {:<4} {:<38} {}\n", kernel.op, kernel.name, here,
                        NeedsText(kernel.needs), kernel.takes);
  }
  return text;
}

}  // namespace graft
