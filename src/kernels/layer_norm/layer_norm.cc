#include "kernels/layer_norm/layer_norm.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(LayerNorm, LayerNormArgs)

namespace {

void CheckArgs(const LayerNormArgs& args) {
  CHECK_GE(args.num_rows, 0);
  CHECK_GT(args.n, 0);
  CHECK_GE(args.epsilon, 0.0f);
  if (args.num_rows == 0) return;
  CHECK(args.x != nullptr && args.weight != nullptr && args.bias != nullptr && args.out != nullptr);
  CHECK(args.out != args.x || args.out_dtype == DType::kF32)
      << "in place the elements keep their size";
  CHECK(args.copy == nullptr || (args.copy != args.x && args.copy != args.out))
      << "the copy is a third array";
}

}  // namespace

void LayerNorm(const LayerNormArgs& args, Stream& stream) {
  CheckArgs(args);
  LayerNormOnDevice(args, stream);
}

}  // namespace graft
