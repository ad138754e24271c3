#include "kernels/rope/rope.h"

#include <algorithm>

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// Products are rounded before they are subtracted or added in one instruction (Fma), in full
// vectors and in the tail alike. kBack: by the negated sines.
template <bool kBack>
void RotateHalves(const float* cos, const float* sin, int32_t half, float* x, float* y) {
  constexpr int kLanes = Vec::kLanes;
  const Vec minus_one = Vec::Set(-1.0f);
  int32_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Vec c = Vec::Load(cos + i);
    const Vec s = kBack ? Vec::Load(sin + i) * minus_one : Vec::Load(sin + i);
    const Vec low = Vec::Load(x + i);
    const Vec high = Vec::Load(y + i);
    Fma(low, c, high * s * minus_one).Store(x + i);
    Fma(high, c, low * s).Store(y + i);
  }
  if (i < half) {
    const int left = half - i;
    const Vec c = Vec::LoadPartial(cos + i, left);
    const Vec of_sin = Vec::LoadPartial(sin + i, left);
    const Vec s = kBack ? of_sin * minus_one : of_sin;
    const Vec low = Vec::LoadPartial(x + i, left);
    const Vec high = Vec::LoadPartial(y + i, left);
    Fma(low, c, high * s * minus_one).StorePartial(x + i, left);
    Fma(high, c, low * s).StorePartial(y + i, left);
  }
}

// Neighbours are taken apart for it, so that each gets the bits that halves get.
template <bool kBack>
void RotateNeighbours(const float* cos, const float* sin, int32_t half, float* x) {
  constexpr int32_t kPairs = 64;
  float even[kPairs], odd[kPairs];
  for (int32_t begin = 0; begin < half; begin += kPairs) {
    const int32_t count = std::min(kPairs, half - begin);
    float* const pairs = x + int64_t{2} * begin;
    for (int32_t i = 0; i < count; ++i) {
      even[i] = pairs[2 * i];
      odd[i] = pairs[2 * i + 1];
    }
    RotateHalves<kBack>(cos + begin, sin + begin, count, even, odd);
    for (int32_t i = 0; i < count; ++i) {
      pairs[2 * i] = even[i];
      pairs[2 * i + 1] = odd[i];
    }
  }
}

template <bool kBack>
void RotateRows(const RopeArgs& args, Stream& stream) {
  const int32_t half = args.rotary_dim / 2;
  const int64_t bytes_per_row = int64_t{2} * args.num_heads * args.head_dim * sizeof(float);
  ParallelRows(args.num_tokens, bytes_per_row, stream, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const int64_t table_row = int64_t{args.positions[token]} * half;
      float* x = args.x + token * args.x_stride;
      for (int32_t head = 0; head < args.num_heads; ++head) {
        float* const from = x + int64_t{head} * args.head_dim;
        const float* const cos = args.cos + table_row;
        const float* const sin = args.sin + table_row;
        if (args.interleaved) {
          RotateNeighbours<kBack>(cos, sin, half, from);
        } else {
          RotateHalves<kBack>(cos, sin, half, from, from + half);
        }
      }
    }
  });
}

}  // namespace

void Rope(const RopeArgs& args, Stream& stream) {
  if (args.back) return RotateRows<true>(args, stream);
  RotateRows<false>(args, stream);
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
