#include "kernels/adamw/adamw.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_CPU_OP(AdamW, AdamWArgs)

void AdamW(const AdamWArgs& args, Stream& stream) {
  CHECK(stream.device.is_cpu()) << "no kernel for " << stream.device.ToString();
  CHECK_GE(args.num_items, 0);
  for (int32_t i = 0; i < args.num_items; ++i) {
    const AdamWItem& item = args.items[i];
    CHECK(item.n >= 0 && item.step >= 1);
    CHECK(item.parameters != nullptr && item.gradients != nullptr &&
          item.first_moments != nullptr && item.second_moments != nullptr && item.norm != nullptr);
  }
  if (args.num_items > 0) AdamWCpu(args, stream);
}

}  // namespace graft
