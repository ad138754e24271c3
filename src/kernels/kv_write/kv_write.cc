#include "kernels/kv_write/kv_write.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(KvWrite, KvWriteArgs)

namespace {

void CheckArgs(const KvWriteArgs& args, const Stream& stream) {
  const KvLayout& layout = args.layout;
  CHECK_GE(args.num_rows, 0);
  CHECK(layout.num_kv_heads > 0 && layout.head_dim > 0 && layout.page_tokens > 0);
  CHECK(args.layer >= 0 && args.layer < layout.num_layers)
      << "layer " << args.layer << " of " << layout.num_layers;
  if (args.num_rows == 0) return;
  CHECK(args.pool != nullptr && args.k != nullptr && args.v != nullptr);
  CHECK(args.row_page != nullptr && args.row_slot != nullptr);
  CHECK_GE(args.row_stride, int64_t{layout.num_kv_heads} * layout.head_dim);
  if (!stream.device.is_cpu()) return;
  for (int32_t row = 0; row < args.num_rows; ++row) {
    if (args.row_page[row] < 0) continue;
    CHECK(args.row_slot[row] >= 0 && args.row_slot[row] < layout.page_tokens)
        << "row " << row << " wants slot " << args.row_slot[row] << " of a page of "
        << layout.page_tokens;
  }
}

}  // namespace

void KvWrite(const KvWriteArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  KvWriteOnDevice(args, stream);
}

}  // namespace graft
