#include "kernels/virtual_gradient/virtual_gradient.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(VirtualGradient, VirtualGradientArgs)

void VirtualGradient(const VirtualGradientArgs& args, Stream& stream) {
  CHECK_GE(args.num_items, 0);
  if (args.num_items == 0) return;
  CHECK(args.items != nullptr && args.places != nullptr && args.x != nullptr);
  CHECK(args.n > 0 && args.num_tokens_max > 0 && args.gradient_offset >= 0);
  CHECK_GE(args.gradient_stride, args.gradient_offset + args.n);
  for (int32_t i = 0; stream.device.is_cpu() && i < args.num_items; ++i) {
    CHECK_LE(args.items[i].num_tokens, args.num_tokens_max) << "item " << i;
  }
  VirtualGradientOnDevice(args, stream);
}

}  // namespace graft
