#include "kernels/rms_norm_backward/rms_norm_backward.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/rms_norm/rms_norm.h"

namespace graft {

GRAFT_OP(RmsNormBackward, RmsNormBackwardArgs)

namespace {

void CompleteStrides(RmsNormBackwardArgs* args) {
  const int64_t row = args->num_heads * args->n;
  for (int64_t* stride : {&args->x_stride, &args->d_out_stride, &args->d_x_stride}) {
    if (*stride == 0) *stride = row;
    CHECK_GE(*stride, row) << "rows lie over each other";
  }
}

void NormAgain(const RmsNormBackwardArgs& args, Stream& stream) {
  RmsNorm({.x = static_cast<const float*>(args.x),
           .x_stride = args.x_stride,
           .weight = args.weight,
           .out = args.normed,
           .out_stride = args.num_heads * args.n,
           .num_tokens = args.num_rows,
           .num_heads = args.num_heads,
           .n = args.n,
           .epsilon = args.epsilon},
          stream);
}

void CheckArgs(const RmsNormBackwardArgs& args) {
  CHECK(args.x != nullptr && args.weight != nullptr);
  if (args.d_out == nullptr) {
    CHECK(args.normed != nullptr) << "nothing to compute";
    return;
  }
  CHECK(args.d_x != nullptr || args.d_x_copy != nullptr) << "no place for the gradient";
  CHECK(args.d_x != args.d_out) << "a gradient in place is written to d_x_copy";
  if (args.d_x_copy != args.d_out) return;
  CHECK(args.d_x == nullptr && args.rows == nullptr && args.d_dtype == args.x_dtype &&
        args.d_x_stride == args.d_out_stride)
      << "in place elements keep their size and place";
}

}  // namespace

void RmsNormBackward(const RmsNormBackwardArgs& args, Stream& stream) {
  CHECK(!stream.device.is_cpu() || (args.x_dtype == DType::kF32 && args.d_dtype == DType::kF32))
      << "on the CPU all is fp32";
  CHECK(args.d_dtype == DType::kF32 || args.d_dtype == args.x_dtype);
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CHECK_GT(args.n, 0);
  CHECK_GT(args.num_heads, 0);
  RmsNormBackwardArgs complete = args;
  CompleteStrides(&complete);
  CheckArgs(complete);
  if (!stream.device.is_cpu()) return RmsNormBackwardOnDevice(complete, stream);
  if (args.normed != nullptr) NormAgain(complete, stream);
  if (args.d_out != nullptr) RmsNormBackwardOnDevice(complete, stream);
}

}  // namespace graft
