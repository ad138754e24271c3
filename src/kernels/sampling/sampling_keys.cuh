// Logits as integers that have the order which sampling needs, and weights as integers, so that the
// order of adding does not change a sum.
#pragma once

#include <cstdint>

namespace graft {

// A larger logit has a larger key. -0 and 0 have the same.
__device__ __forceinline__ uint32_t AscendingKey(float logit) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float LogitOfKey(uint32_t key) {
  return __uint_as_float((key >> 31) != 0 ? key & 0x7fffffffu : ~key);
}
inline constexpr uint32_t kMinusInfinityKey = 0x007fffffu;

// Orders by logit descending, then by id ascending: the better token has the larger key.
__device__ __forceinline__ uint64_t RankKey(float logit, uint32_t id) {
  return uint64_t{~AscendingKey(logit)} << 32 | id;
}
__device__ __forceinline__ int32_t RankedToken(uint64_t key) {
  return static_cast<int32_t>(static_cast<uint32_t>(key));
}
__device__ __forceinline__ float RankedLogit(uint64_t key) {
  return LogitOfKey(~static_cast<uint32_t>(key >> 32));
}
// Below every rank: the rank of a row that holds NaN or +Inf.
inline constexpr uint64_t kFlawedRank = 0;
// Whether a row's best rank names a token that can be drawn.
__device__ __forceinline__ bool IsDrawable(uint64_t best) {
  return best != kFlawedRank && ~static_cast<uint32_t>(best >> 32) > kMinusInfinityKey;
}

struct Least {
  __device__ __forceinline__ uint64_t operator()(uint64_t a, uint64_t b) const {
    return a < b ? a : b;
  }
};

// exp((logit - maximum) * inverse_temperature), and zero from exp(-87) down. The arithmetic is that
// of the CPU's vectors (kernels/common/simd.h, ExpOrZero), so that min_p cuts the same tokens.
struct Weigher {
  float maximum;
  float inverse_temperature;

  __device__ __forceinline__ float Weigh(float logit) const {
    const float exponent = __fmul_rn(__fsub_rn(logit, maximum), inverse_temperature);
    if (!(exponent > -87.0f)) return 0.0f;
    // Adding 1.5 * 2^23 puts the nearest integer into the low bits.
    constexpr float kRounder = 12582912.0f;
    const float shifted = __fadd_rn(__fmul_rn(exponent, 1.44269504f), kRounder);
    const float n = __fsub_rn(shifted, kRounder);
    float r = __fmaf_rn(n, -0.693359375f, exponent);
    r = __fmaf_rn(n, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = __fmaf_rn(p, r, 1.3981999507e-3f);
    p = __fmaf_rn(p, r, 8.3334519073e-3f);
    p = __fmaf_rn(p, r, 4.1665795894e-2f);
    p = __fmaf_rn(p, r, 1.6666665459e-1f);
    p = __fmaf_rn(p, r, 5.0000001201e-1f);
    p = __fmaf_rn(p, __fmul_rn(r, r), __fadd_rn(r, 1.0f));
    const int power = __float_as_int(shifted) - __float_as_int(kRounder);
    return __fmul_rn(p, __int_as_float((power + 127) << 23));
  }
};

// A weight in [0, 1] as an integer in steps of 2^-kWeightBits. 2^19 of them add up without
// overflow. Rounding loses less than one part in 2^25 of the row's total, which is at least 1.
inline constexpr int kWeightBits = 44;

__device__ __forceinline__ uint64_t FixedWeight(float weight) {
  const uint32_t bits = __float_as_uint(weight);
  // The mantissa goes to the top, down to bit 40, and then right by the exponent.
  const uint64_t mantissa = uint64_t{(bits << 8) | 0x80000000u} << 32;
  const uint32_t shift = 63 - kWeightBits + 127 - (bits >> 23);
  return shift < 64 ? mantissa >> shift : 0;
}

}  // namespace graft
