#include "kernels/rms_norm/rms_norm.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// Four sums side by side: one would wait for itself at every addition.
float SumOfSquares(const float* x, int64_t n) {
  constexpr int kLanes = Vec::kLanes;
  Vec sums[4] = {Vec::Zero(), Vec::Zero(), Vec::Zero(), Vec::Zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) {
      const Vec v = Vec::Load(x + i + j * kLanes);
      sums[j] = Fma(v, v, sums[j]);
    }
  }
  for (; i < n; i += kLanes) {
    const int64_t left = n - i;
    const Vec v =
        left < kLanes ? Vec::LoadPartial(x + i, static_cast<int>(left)) : Vec::Load(x + i);
    sums[0] = Fma(v, v, sums[0]);
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])).Sum();
}

// kAdd: to what is there. `mean` is that of the squares.
template <bool kAdd, typename T>
void NormalizeVector(const float* x, const float* weight, float mean, float epsilon, int64_t n,
                     T* out) {
  constexpr int kLanes = Vec::kLanes;
  const Vec inverse = Vec::Set(1.0f / __builtin_sqrtf(mean + epsilon));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec normed = Vec::Load(x + i) * inverse * Vec::Load(weight + i);
    (kAdd ? Vec::Load(out + i) + normed : normed).Store(out + i);
  }
  if (i < n) {
    const int left = static_cast<int>(n - i);
    const Vec normed = Vec::LoadPartial(x + i, left) * inverse * Vec::LoadPartial(weight + i, left);
    (kAdd ? Vec::LoadPartial(out + i, left) + normed : normed).StorePartial(out + i, left);
  }
}

void CopyNormInput(const float* x, int64_t n, float* copy) {
  constexpr int kLanes = Vec::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Vec::Load(x + i).Store(copy + i);
  const int left = static_cast<int>(n - i);
  Vec::LoadPartial(x + i, left).StorePartial(copy + i, left);
}

template <typename T, bool kAdd = false>
void NormalizeRows(const RmsNormArgs& args, Stream& stream) {
  const int64_t bytes_per_row = args.num_heads * args.n * (sizeof(float) + sizeof(T));
  ParallelRows(args.num_tokens, bytes_per_row, stream, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const float* x = args.x + token * args.x_stride;
      T* out = static_cast<T*>(args.out) + token * args.out_stride;
      if (args.copy != nullptr) {
        CopyNormInput(x, args.num_heads * args.n,
                      static_cast<float*>(args.copy) + token * args.copy_stride);
      }
      for (int32_t head = 0; head < args.num_heads; ++head) {
        const float mean =
            args.squares == nullptr
                ? SumOfSquares(x + head * args.n, args.n) / static_cast<float>(args.n)
                : args.squares[token * args.squares_stride] / static_cast<float>(args.n_whole);
        NormalizeVector<kAdd>(x + head * args.n, args.weight, mean, args.epsilon, args.n,
                              out + head * args.n);
      }
    }
  });
}

}  // namespace

void RmsNorm(const RmsNormArgs& args, Stream& stream) {
  switch (args.out_dtype) {
    case DType::kF32:
      if (args.accumulate) return NormalizeRows<float, true>(args, stream);
      return NormalizeRows<float>(args, stream);
    case DType::kBF16:
      return NormalizeRows<Bfloat16>(args, stream);
    case DType::kF16:
      return NormalizeRows<Float16>(args, stream);
  }
}

void SumSquares(const SumSquaresArgs& args, Stream& stream) {
  const int64_t bytes_per_row = args.n * int64_t{sizeof(float)};
  ParallelRows(args.num_tokens, bytes_per_row, stream, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      args.sums[token * args.sums_stride] = SumOfSquares(args.x + token * args.x_stride, args.n);
    }
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
