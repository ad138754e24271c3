#include "kernels/adamw/adamw.h"

#include "base/check.h"
#include "kernels/adamw/adamw_work.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(AdamW, AdamWArgs)

int64_t AdamWScratchDoubles(const Device& device, int32_t num_items) {
  return device.is_cpu() ? 0 : int64_t{num_items} * kAdamWParts;
}

void AdamW(const AdamWArgs& args, Stream& stream) {
  CHECK_GE(args.num_items, 0);
  for (int32_t i = 0; i < args.num_items; ++i) {
    const AdamWItem& item = args.items[i];
    CHECK(item.n >= 0 && item.step >= 1);
    CHECK(item.parameters != nullptr && item.gradients != nullptr &&
          item.first_moments != nullptr && item.second_moments != nullptr && item.norm != nullptr);
  }
  if (args.num_items == 0) return;
  CHECK(stream.device.is_cpu() || args.scratch != nullptr);
  AdamWOnDevice(args, stream);
}

}  // namespace graft
