#include "kernels/layer_norm_backward/layer_norm_backward.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// Calls function(column, how many lanes count) over a row.
template <typename Function>
inline void ForColumns(int64_t n, const Function& function) {
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    function(i, n - i < Vec::kLanes ? static_cast<int>(n - i) : Vec::kLanes);
  }
}

// Lanes behind a row become 0, which they are not once the mean is taken from them.
inline Vec Only(Vec x, int lanes) {
  if (lanes == Vec::kLanes) return x;
  float kept[Vec::kLanes];
  x.Store(kept);
  return Vec::LoadPartial(kept, lanes);
}

struct BackwardSums {
  float mean = 0.0f;   // of x
  float r = 0.0f;      // 1 / sqrt(variance + epsilon)
  float level = 0.0f;  // the mean of d_out weight
  float along = 0.0f;  // that of d_out weight y, times r
};

BackwardSums SumsOf(const LayerNormBackwardArgs& args, const float* x, const float* d_out) {
  const auto n = static_cast<float>(args.n);
  Vec sum = Vec::Zero();
  ForColumns(args.n, [&](int64_t i, int lanes) { sum = sum + Vec::LoadPartial(x + i, lanes); });
  BackwardSums sums;
  sums.mean = sum.Sum() / n;
  const Vec mean = Vec::Set(sums.mean);
  Vec squares = Vec::Zero(), gradients = Vec::Zero(), products = Vec::Zero();
  ForColumns(args.n, [&](int64_t i, int lanes) {
    const Vec distance = Only(Vec::LoadPartial(x + i, lanes) - mean, lanes);
    const Vec d = Vec::LoadPartial(d_out + i, lanes) * Vec::LoadPartial(args.weight + i, lanes);
    squares = Fma(distance, distance, squares);
    gradients = gradients + d;
    products = Fma(distance, d, products);
  });
  sums.r = 1.0f / __builtin_sqrtf(squares.Sum() / n + args.epsilon);
  sums.level = gradients.Sum() / n;
  sums.along = products.Sum() / n * sums.r * sums.r;
  return sums;
}

void BackwardRow(const LayerNormBackwardArgs& args, int64_t row) {
  const float* const x = static_cast<const float*>(args.x) + row * args.n;
  const float* const d_out = static_cast<const float*>(args.d_out) + row * args.n;
  const int64_t to = (args.rows == nullptr ? row : args.rows[row]) * args.n;
  float* const d_x = args.d_x + to;
  float* const copy = args.d_x_copy == nullptr ? nullptr : static_cast<float*>(args.d_x_copy) + to;
  const BackwardSums sums = SumsOf(args, x, d_out);
  const Vec mean = Vec::Set(sums.mean), level = Vec::Set(sums.level);
  const Vec against = Vec::Set(-sums.along), r = Vec::Set(sums.r);
  const Vec scale = Vec::Set(args.copy_scale);
  ForColumns(args.n, [&](int64_t i, int lanes) {
    const Vec d = Vec::LoadPartial(d_out + i, lanes) * Vec::LoadPartial(args.weight + i, lanes);
    const Vec change = Fma(against, Vec::LoadPartial(x + i, lanes) - mean, d - level);
    const Vec sum = Fma(r, change, Vec::LoadPartial(d_x + i, lanes));
    sum.StorePartial(d_x + i, lanes);
    if (copy != nullptr) (sum * scale).StorePartial(copy + i, lanes);
  });
}

}  // namespace

void LayerNormBackward(const LayerNormBackwardArgs& args, Stream& stream) {
  ParallelRows(args.num_rows, args.n * 16, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) BackwardRow(args, row);
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
