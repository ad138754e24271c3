#include "kernels/rms_norm/rms_norm.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(RmsNorm, RmsNormArgs)
GRAFT_OP(SumSquares, SumSquaresArgs)

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
  if (args.squares != nullptr) {
    CHECK(args.num_heads == 1 && args.out_dtype == DType::kF32 && !args.accumulate &&
          args.copy == nullptr)
        << "a part of a vector is normed by itself, in fp32";
    CHECK_GE(args.n_whole, args.n);
    CHECK_GE(args.squares_stride, 1);
  }
}

// The copy's type and stride, where the caller left them to the op.
void CompleteCopy(RmsNormArgs* args, const Stream& stream) {
  if (args->copy == nullptr) return;
  CHECK(args->copy != args->x && args->copy != args->out) << "the copy is a third array";
  if (!args->copy_dtype.has_value()) args->copy_dtype = args->out_dtype;
  if (args->copy_stride == 0) args->copy_stride = args->num_heads * args->n;
  CHECK_GE(args->copy_stride, args->num_heads * args->n);
  CHECK(args->out_dtype == DType::kF32 || *args->copy_dtype == args->out_dtype)
      << "a copy of another type than out stands beside fp32";
  CHECK(!stream.device.is_cpu() || *args->copy_dtype == DType::kF32) << "copies here are fp32";
}

}  // namespace

void RmsNorm(const RmsNormArgs& args, Stream& stream) {
  CheckArgs(args);
  RmsNormArgs complete = args;
  CompleteCopy(&complete, stream);
  RmsNormOnDevice(complete, stream);
}

void SumSquares(const SumSquaresArgs& args, Stream& stream) {
  CHECK(args.num_tokens >= 0 && args.n >= 0);
  if (args.num_tokens == 0) return;
  CHECK(args.sums != nullptr && args.sums_stride >= 1);
  CHECK(args.n == 0 || args.x != nullptr);
  CHECK_GE(args.x_stride, args.n);
  SumSquaresOnDevice(args, stream);
}

}  // namespace graft
