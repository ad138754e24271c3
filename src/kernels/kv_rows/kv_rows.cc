#include "kernels/kv_rows/kv_rows.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(TakeKvRows, KvRowsArgs)
GRAFT_OP(AddKvRows, KvRowsArgs)

namespace {

void CheckKvRows(const KvRowsArgs& args, const Stream& stream) {
  CHECK(args.rows != nullptr && args.cos != nullptr && args.sin != nullptr);
  CHECK(args.keys_values != nullptr);
  CHECK(args.num_kv_heads > 0 && args.head_dim > 0);
  CHECK(args.rotary_dim > 0 && args.rotary_dim <= args.head_dim && args.rotary_dim % 2 == 0);
  CHECK_GE(args.stride, args.key_column + int64_t{2} * args.num_kv_heads * args.head_dim);
  CHECK(args.dtype == DType::kF32 || (args.dtype == DType::kBF16 && !stream.device.is_cpu()));
}

}  // namespace

void TakeKvRows(const KvRowsArgs& args, Stream& stream) {
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CheckKvRows(args, stream);
  TakeKvRowsOnDevice(args, stream);
}

void AddKvRows(const KvRowsArgs& args, Stream& stream) {
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CheckKvRows(args, stream);
  AddKvRowsOnDevice(args, stream);
}

}  // namespace graft
