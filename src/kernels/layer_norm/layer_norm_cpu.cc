#include "kernels/layer_norm/layer_norm.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// Calls function(vector, how many of its lanes count) over the row.
template <typename Function>
inline void ForVectorsOfRow(const float* x, int64_t n, const Function& function) {
  constexpr int kLanes = Vec::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) function(Vec::Load(x + i), i, kLanes);
  if (i < n) {
    const int left = static_cast<int>(n - i);
    function(Vec::LoadPartial(x + i, left), i, left);
  }
}

// Four sums side by side: one would wait for itself at every addition.
template <typename Term>
inline float SumOfTerms(const float* x, int64_t n, const Term& term) {
  constexpr int kLanes = Vec::kLanes;
  Vec sums[4] = {Vec::Zero(), Vec::Zero(), Vec::Zero(), Vec::Zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) sums[j] = term(Vec::Load(x + i + j * kLanes), sums[j]);
  }
  for (; i + kLanes <= n; i += kLanes) sums[0] = term(Vec::Load(x + i), sums[0]);
  float sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])).Sum();
  for (; i < n; ++i) {  // lanes beyond the row would count as zeros, so far as the mean is
    float lanes[kLanes] = {};
    term(Vec::LoadPartial(x + i, 1), Vec::Zero()).Store(lanes);
    sum += lanes[0];
  }
  return sum;
}

template <typename T>
void LayerNormRow(const LayerNormArgs& args, const float* x, T* out, T* copy) {
  const int64_t n = args.n;
  const auto count = static_cast<float>(n);
  const Vec mean =
      Vec::Set(SumOfTerms(x, n, [](Vec value, Vec sum) { return sum + value; }) / count);
  const auto square = [mean](Vec value, Vec sum) {
    const Vec distance = value - mean;
    return Fma(distance, distance, sum);
  };
  const float variance = SumOfTerms(x, n, square) / count;
  const Vec inverse = Vec::Set(1.0f / __builtin_sqrtf(variance + args.epsilon));
  ForVectorsOfRow(x, n, [&](Vec value, int64_t i, int lanes) {
    const bool whole = lanes == Vec::kLanes;
    const auto load = [&](const float* from) {
      return whole ? Vec::Load(from + i) : Vec::LoadPartial(from + i, lanes);
    };
    const auto store = [&](Vec values, T* to) {
      whole ? values.Store(to + i) : values.StorePartial(to + i, lanes);
    };
    if (copy != nullptr) store(value, copy);
    store(Fma((value - mean) * inverse, load(args.weight), load(args.bias)), out);
  });
}

template <typename T>
void LayerNormRows(const LayerNormArgs& args, Stream& stream) {
  const int64_t bytes_per_row = args.n * (sizeof(float) + sizeof(T));
  ParallelRows(args.num_rows, bytes_per_row, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* const copy = args.copy == nullptr ? nullptr : static_cast<T*>(args.copy) + row * args.n;
      LayerNormRow(args, args.x + row * args.n, static_cast<T*>(args.out) + row * args.n, copy);
    }
  });
}

}  // namespace

void LayerNorm(const LayerNormArgs& args, Stream& stream) {
  switch (args.out_dtype) {
    case DType::kF32:
      return LayerNormRows<float>(args, stream);
    case DType::kBF16:
      return LayerNormRows<Bfloat16>(args, stream);
    case DType::kF16:
      return LayerNormRows<Float16>(args, stream);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
