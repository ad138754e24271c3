#include "kernels/silu_mul/silu_mul.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(SiluMul, SiluMulArgs)

namespace {

void CheckArgs(const SiluMulArgs& args) {
  CHECK_GE(args.num_tokens, 0);
  CHECK_GT(args.n, 0);
  if (args.num_tokens == 0) return;
  CHECK(args.gate_up != nullptr && args.out != nullptr);
}

}  // namespace

void SiluMul(const SiluMulArgs& args, Stream& stream) {
  CheckArgs(args);
  SiluMulOnDevice(args, stream);
}

}  // namespace graft
