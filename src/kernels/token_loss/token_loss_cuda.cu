// A block per row, which reads it twice: for its maximum and sum, and for the gradients.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/token_loss/token_loss.h"

namespace graft {
namespace {

constexpr int kThreads = 512;
constexpr int kWidth = 4;
constexpr int kWarps = kThreads / kWarpThreads;

struct Max {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// A row's maximum, and its sum of e^(logit - maximum). The order depends on the vocabulary alone.
template <bool kVectors>
__device__ __forceinline__ void SumRow(const float* logits, int64_t n, float* maximum,
                                       double* total) {
  __shared__ float maxima[kWarps];
  __shared__ double sums[kWarps];
  float own_max = -INFINITY, own_sum = 0.0f;
  for (int64_t begin = int64_t{threadIdx.x} * kWidth; begin < n;
       begin += int64_t{kThreads} * kWidth) {
    float v[kWidth];
    LoadRun<kVectors>(logits + begin, n - begin, v);
    float largest = v[0];
#pragma unroll
    for (int i = 1; i < kWidth; ++i) {
      if (begin + i < n) largest = fmaxf(largest, v[i]);
    }
    if (largest > own_max) {
      own_sum *= expf(own_max - largest);
      own_max = largest;
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (begin + i < n) own_sum += expf(v[i] - own_max);
    }
  }
  *maximum = ReduceBlock(own_max, -INFINITY, maxima, Max{});
  const double part = own_max == -INFINITY
                          ? 0.0
                          : static_cast<double>(own_sum) *
                                exp(static_cast<double>(own_max) - static_cast<double>(*maximum));
  *total = ReduceBlock(part, 0.0, sums, Add{});
}

// The derivative of a capped logit by what was capped. Within a few last places of 1, also where
// almost nothing is left of it.
__device__ __forceinline__ float SlopeOfCap(float logit, float cap) {
  const float share = __fdiv_rn(logit, cap);
  return __fmul_rn(__fsub_rn(1.0f, share), __fadd_rn(1.0f, share));
}

template <typename T, bool kVectors, bool kCapped>
__global__ void __launch_bounds__(kThreads) TokenLossKernel(TokenLossArgs args) {
  __shared__ float chosen[kTokenChoicesMax];
  __shared__ double sums[4][kWarps];
  LetNextStart();
  WaitForPrevious();
  const int64_t row = blockIdx.x;
  const float* logits = args.logits + row * args.vocab_size;
  const int32_t* ids = args.ids + row * args.num_choices;
  const float* probabilities = args.probabilities + row * args.num_choices;
  float maximum;
  double sum;
  SumRow<kVectors>(logits, args.vocab_size, &maximum, &sum);
  double score = 0.0, probability = 0.0, rest = 0.0, others = 0.0;
  for (int k = static_cast<int>(threadIdx.x); k < args.num_choices; k += kThreads) {
    const auto p = static_cast<double>(probabilities[k]);
    probability += p;
    if (ids[k] == kTokenRest) {
      rest += p;
      continue;
    }
    chosen[k] = logits[ids[k]];
    score += p * (static_cast<double>(chosen[k]) - static_cast<double>(maximum));
    others -= static_cast<double>(expf(chosen[k] - maximum));
  }
  score = ReduceBlock(score, 0.0, sums[0], Add{});
  probability = ReduceBlock(probability, 0.0, sums[1], Add{});
  rest = ReduceBlock(rest, 0.0, sums[2], Add{});
  others = fmax(sum + ReduceBlock(others, 0.0, sums[3], Add{}), kRestShareMin * sum);
  if (rest > 0.0) score += rest * log(others);
  if (threadIdx.x == 0) args.losses[row] = probability * log(sum) - score;
  const float weight = __fmul_rn(args.weights[row], args.logit_scale);
  const auto factor = static_cast<float>(probability / sum * static_cast<double>(weight));
  // The factor of tokens that no choice names. Those that one names are written once more below.
  const auto rest_factor =
      static_cast<float>((probability / sum - rest / others) * static_cast<double>(weight));
  T* d = static_cast<T*>(args.d_logits) + row * args.vocab_size;
  for (int64_t begin = int64_t{threadIdx.x} * kWidth; begin < args.vocab_size;
       begin += int64_t{kThreads} * kWidth) {
    float v[kWidth];
    LoadRun<kVectors>(logits + begin, args.vocab_size - begin, v);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float gradient = __fmul_rn(rest_factor, expf(v[i] - maximum));
      v[i] = kCapped ? __fmul_rn(gradient, SlopeOfCap(v[i], args.logit_cap)) : gradient;
    }
    StoreRun<kVectors>(v, args.vocab_size - begin, d + begin);
  }
  __syncthreads();  // `chosen` is whole, and the choices are written once more
  for (int k = static_cast<int>(threadIdx.x); k < args.num_choices; k += kThreads) {
    if (ids[k] == kTokenRest) continue;
    float taught = 0.0f;  // of this token, should it be there twice
    for (int other = 0; other < args.num_choices; ++other) {
      if (ids[other] == ids[k]) taught += probabilities[other];
    }
    float gradient = factor * expf(chosen[k] - maximum) - weight * taught;
    if constexpr (kCapped) gradient *= SlopeOfCap(chosen[k], args.logit_cap);
    d[ids[k]] = NarrowElement<T>(gradient);
  }
}

}  // namespace

void TokenLossCuda(const TokenLossArgs& args, Stream& stream) {
  TokenLossArgs whole = args;
  if (whole.d_logits == nullptr) whole.d_logits = args.logits;
  const bool vectors = IsVectorAligned(args.logits) && IsVectorAligned(whole.d_logits) &&
                       args.vocab_size % (2 * kWidth) == 0;
  DispatchDType(args.d_dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      const auto kernel = args.logit_cap > 0.0f ? TokenLossKernel<T, kVectors, true>
                                                : TokenLossKernel<T, kVectors, false>;
      LaunchKernel(kernel, GridOf(args.num_rows), dim3(kThreads), 0, CudaStreamOf(stream), whole);
    });
  });
}

}  // namespace graft
