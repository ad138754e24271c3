#include "kernels/virtual_kv/virtual_kv.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(VirtualKv, VirtualKvArgs)

namespace {

void CheckArgs(const VirtualKvArgs& args, const Stream& stream) {
  const KvLayout& layout = args.layout;
  CHECK_GE(args.num_runs, 0);
  CHECK(layout.num_layers > 0 && layout.num_kv_heads > 0 && layout.head_dim > 0 &&
        layout.page_tokens > 0);
  if (args.num_runs == 0) return;
  CHECK(args.pool != nullptr && args.table != nullptr && args.runs != nullptr &&
        args.pages != nullptr);
  if (stream.device.is_cpu()) CheckVirtualRuns(args);
}

}  // namespace

void VirtualKv(const VirtualKvArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  VirtualKvOnDevice(args, stream);
}

}  // namespace graft
