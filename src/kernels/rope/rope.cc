#include "kernels/rope/rope.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(Rope, RopeArgs)

namespace {

void CheckArgs(const RopeArgs& args, const Stream& stream) {
  CHECK_GE(args.num_tokens, 0);
  CHECK_GT(args.num_heads, 0);
  CHECK_GT(args.head_dim, 0);
  CHECK(args.rotary_dim > 0 && args.rotary_dim <= args.head_dim)
      << "rotary_dim " << args.rotary_dim << " of " << args.head_dim;
  CHECK_EQ(args.rotary_dim % 2, 0) << "halves are rotated against each other";
  if (args.num_tokens == 0) return;
  CHECK(args.x != nullptr && args.positions != nullptr);
  CHECK(args.cos != nullptr && args.sin != nullptr);
  CHECK_GE(args.x_stride, int64_t{args.num_heads} * args.head_dim);
  if (!stream.device.is_cpu()) return;
  for (int64_t i = 0; i < args.num_tokens; ++i) CHECK_GE(args.positions[i], 0) << "row " << i;
}

}  // namespace

void Rope(const RopeArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  RopeOnDevice(args, stream);
}

}  // namespace graft
