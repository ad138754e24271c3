#include "kernels/rms_norm/rms_norm.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(RmsNorm, RmsNormArgs)

namespace {

void CheckArgs(const RmsNormArgs& args) {
  CHECK_GE(args.num_tokens, 0);
  CHECK_GT(args.num_heads, 0);
  CHECK_GT(args.n, 0);
  CHECK_GE(args.epsilon, 0.0f);
  if (args.num_tokens == 0) return;
  CHECK(args.x != nullptr && args.weight != nullptr && args.out != nullptr);
  CHECK_GE(args.x_stride, args.num_heads * args.n);
  CHECK_GE(args.out_stride, args.num_heads * args.n);
  if (args.accumulate) {
    CHECK(args.out_dtype == DType::kF32) << "sums are fp32";
    CHECK(args.out != args.x) << "accumulate in place";
  }
  if (args.out == args.x) {
    CHECK(args.out_dtype == DType::kF32) << "in place the elements keep their size";
    CHECK_EQ(args.out_stride, args.x_stride);
  }
}

}  // namespace

void RmsNorm(const RmsNormArgs& args, Stream& stream) {
  CheckArgs(args);
  CHECK(args.copy == nullptr || (!stream.device.is_cpu() && !args.accumulate)) << "no copy here";
  RmsNormOnDevice(args, stream);
}

}  // namespace graft
