#include "kernels/token_loss/token_loss.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(TokenLoss, TokenLossArgs)

void TokenLoss(const TokenLossArgs& args, Stream& stream) {
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CHECK(args.vocab_size > 0 && args.num_choices > 0);
  CHECK_LE(args.num_choices, kTokenChoicesMax);
  CHECK_GE(args.logit_cap, 0.0f);
  CHECK(args.logits != nullptr && args.ids != nullptr && args.probabilities != nullptr &&
        args.weights != nullptr && args.losses != nullptr);
  if (stream.device.is_cpu()) {
    CHECK(args.d_logits == nullptr) << "on the CPU logits become their gradients in place";
    for (int64_t i = 0; i < args.num_rows * args.num_choices; ++i) {
      CHECK(args.ids[i] >= kTokenRest && args.ids[i] < args.vocab_size) << args.ids[i];
    }
  } else {
    CHECK(args.d_logits != nullptr || args.d_dtype == DType::kF32);
  }
  TokenLossOnDevice(args, stream);
}

}  // namespace graft
