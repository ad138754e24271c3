#include "kernels/gated_activation/gated_activation.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(GatedActivation, GatedActivationArgs)

namespace {

void CheckArgs(const GatedActivationArgs& args) {
  CHECK_GE(args.num_tokens, 0);
  CHECK_GT(args.n, 0);
  CHECK(args.activation == Activation::kSilu || args.activation == Activation::kGeluTanh);
  if (args.num_tokens == 0) return;
  CHECK(args.gate_up != nullptr && args.out != nullptr);
}

}  // namespace

void GatedActivation(const GatedActivationArgs& args, Stream& stream) {
  CheckArgs(args);
  GatedActivationOnDevice(args, stream);
}

}  // namespace graft
