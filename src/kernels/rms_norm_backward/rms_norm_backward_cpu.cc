#include "kernels/rms_norm_backward/rms_norm_backward.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// d_x += r (d_out w - x r^2 mean(d_out w x)), where r is 1 / sqrt(mean(x^2) + epsilon).
void RmsNormBackwardRow(const RmsNormBackwardArgs& args, int64_t row) {
  constexpr int kLanes = Vec::kLanes;
  const float* x = static_cast<const float*>(args.x) + row * args.n;
  const float* d_out = static_cast<const float*>(args.d_out) + row * args.n;
  float* d_x = args.d_x + row * args.n;
  Vec squares = Vec::Zero();
  Vec products = Vec::Zero();
  for (int64_t i = 0; i < args.n; i += kLanes) {
    const int lanes = args.n - i < kLanes ? static_cast<int>(args.n - i) : kLanes;
    const Vec v = Vec::LoadPartial(x + i, lanes);
    const Vec d = Vec::LoadPartial(d_out + i, lanes) * Vec::LoadPartial(args.weight + i, lanes);
    squares = Fma(v, v, squares);
    products = Fma(d, v, products);
  }
  const auto n = static_cast<float>(args.n);
  const float r = 1.0f / __builtin_sqrtf(squares.Sum() / n + args.epsilon);
  const Vec along = Vec::Set(-r * r * r * products.Sum() / n);
  for (int64_t i = 0; i < args.n; i += kLanes) {
    const int lanes = args.n - i < kLanes ? static_cast<int>(args.n - i) : kLanes;
    const Vec d = Vec::LoadPartial(d_out + i, lanes) * Vec::LoadPartial(args.weight + i, lanes);
    const Vec change = Fma(along, Vec::LoadPartial(x + i, lanes), d * Vec::Set(r));
    (Vec::LoadPartial(d_x + i, lanes) + change).StorePartial(d_x + i, lanes);
  }
}

}  // namespace

void RmsNormBackward(const RmsNormBackwardArgs& args, Stream& stream) {
  ParallelRows(args.num_rows, args.n * 16, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) RmsNormBackwardRow(args, row);
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
