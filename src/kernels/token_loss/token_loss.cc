#include "kernels/token_loss/token_loss.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_CPU_OP(TokenLoss, TokenLossArgs)

void TokenLoss(const TokenLossArgs& args, Stream& stream) {
  CHECK(stream.device.is_cpu()) << "no kernel for " << stream.device.ToString();
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CHECK(args.vocab_size > 0 && args.num_choices > 0);
  CHECK(args.logits != nullptr && args.ids != nullptr && args.probabilities != nullptr &&
        args.weights != nullptr && args.losses != nullptr);
  for (int64_t i = 0; i < args.num_rows * args.num_choices; ++i) {
    CHECK(args.ids[i] >= 0 && args.ids[i] < args.vocab_size) << args.ids[i];
  }
  TokenLossCpu(args, stream);
}

}  // namespace graft
