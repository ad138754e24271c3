// A vector of floats as wide as the copy being compiled allows (cpu_isa.h): 16, 8 or 1 lanes. Loads
// widen fp32, bf16 and fp16 to float; stores narrow with round-to-nearest-even; the partial forms
// touch the first n lanes only (0 <= n <= kLanes) and read the rest as zero. Include from op_cpu.cc
// files only.
#pragma once

#if defined(GRAFT_ISA_AVX512) || defined(GRAFT_ISA_AVX2)
#include <immintrin.h>
#endif

#include <cmath>
#include <cstdint>

#include "kernels/common/cpu_isa.h"
#include "tensor/dtype.h"

namespace graft::GRAFT_CPU_NAMESPACE {

#if defined(GRAFT_ISA_AVX512)

struct Vec {
  static constexpr int kLanes = 16;
  __m512 v;

  static Vec Zero() { return {_mm512_setzero_ps()}; }
  static Vec Set(float x) { return {_mm512_set1_ps(x)}; }
  static __mmask16 Mask(int n) { return static_cast<__mmask16>((1u << n) - 1u); }

  static Vec Load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec Load(const Bfloat16* p) {
    return Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Vec Load(const Float16* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Vec LoadPartial(const float* p, int n) { return {_mm512_maskz_loadu_ps(Mask(n), p)}; }
  static Vec LoadPartial(const Bfloat16* p, int n) {
    return Widen(_mm256_maskz_loadu_epi16(Mask(n), p));
  }
  static Vec LoadPartial(const Float16* p, int n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(Mask(n), p))};
  }
  void Store(float* p) const { _mm512_storeu_ps(p, v); }
  void Store(Bfloat16* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), Narrow()); }
  void Store(Float16* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  void StorePartial(float* p, int n) const { _mm512_mask_storeu_ps(p, Mask(n), v); }
  void StorePartial(Bfloat16* p, int n) const { _mm256_mask_storeu_epi16(p, Mask(n), Narrow()); }
  void StorePartial(Float16* p, int n) const {
    _mm256_mask_storeu_epi16(p, Mask(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }

  float Sum() const { return _mm512_reduce_add_ps(v); }
  float Max() const { return _mm512_reduce_max_ps(v); }

 private:
  static Vec Widen(__m256i bits) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  __m256i Narrow() const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
    rounded = _mm512_srli_epi32(rounded, 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, nan, quiet));
  }
};

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec Max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec Min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
// a * b + c, one rounding.
inline Vec Fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec Round(Vec a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// a * 2^b for integral b in [-126, 127].
inline Vec ScaleByPowerOf2(Vec a, Vec b) { return {_mm512_scalef_ps(a.v, b.v)}; }

// Two bf16 values per 32-bit lane: widened apart, low halves (even elements) and high halves.
inline void WidenPairs(const void* p, Vec& even, Vec& odd) {
  const __m512i pairs = _mm512_loadu_si512(p);
  even.v = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  odd.v = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-0x10000)));
}
// The inverse for results: from even and odd lanes to the first and the second half of neighbours.
inline void InterleavePairs(Vec& even, Vec& odd) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high =
      _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  const Vec first = {_mm512_permutex2var_ps(even.v, low, odd.v)};
  odd.v = _mm512_permutex2var_ps(even.v, high, odd.v);
  even = first;
}
// sum + a.even * b.even + a.odd * b.odd per lane of bf16 pairs, rounded twice, subnormals as zero.
// Only where CpuHasAvx512Bf16(). Assembly, because a function with a target attribute of its own
// would not be inlined into the copy's loops.
inline Vec DotBf16(__m512i a, __m512i b, Vec sum) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.v) : "v"(a), "v"(b));
  return sum;
}
// 32 floats to bf16, round-to-nearest-even, subnormals to zero. Only where CpuHasAvx512Bf16().
inline __m512i NarrowToBf16(Vec low, Vec high) {
  __m512i result;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(result) : "v"(low.v), "v"(high.v));
  return result;
}

#elif defined(GRAFT_ISA_AVX2)

struct Vec {
  static constexpr int kLanes = 8;
  __m256 v;

  static Vec Zero() { return {_mm256_setzero_ps()}; }
  static Vec Set(float x) { return {_mm256_set1_ps(x)}; }

  static Vec Load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Vec Load(const Bfloat16* p) {
    return Widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Vec Load(const Float16* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  template <typename T>
  static Vec LoadPartial(const T* p, int n) {
    T lanes[kLanes] = {};
    for (int i = 0; i < n; ++i) lanes[i] = p[i];
    return Load(lanes);
  }
  void Store(float* p) const { _mm256_storeu_ps(p, v); }
  void Store(Bfloat16* p) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), Narrow()); }
  void Store(Float16* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  template <typename T>
  void StorePartial(T* p, int n) const {
    T lanes[kLanes];
    Store(lanes);
    for (int i = 0; i < n; ++i) p[i] = lanes[i];
  }

  float Sum() const {
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
  }
  float Max() const {
    const __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 quarter = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(quarter, _mm_movehdup_ps(quarter)));
  }

 private:
  static Vec Widen(__m128i bits) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
  }
  __m128i Narrow() const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
    rounded = _mm256_srli_epi32(rounded, 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    rounded = _mm256_blendv_epi8(rounded, quiet, nan);
    const __m256i packed = _mm256_packus_epi32(rounded, rounded);
    return _mm_unpacklo_epi64(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1));
  }
};

inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
inline Vec Max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Vec Min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Vec Fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec Round(Vec a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline Vec ScaleByPowerOf2(Vec a, Vec b) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(b.v), _mm256_set1_epi32(127));
  return {_mm256_mul_ps(a.v, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)))};
}

inline void WidenPairs(const void* p, Vec& even, Vec& odd) {
  const __m256i pairs = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  even.v = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  odd.v = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000)));
}
inline void InterleavePairs(Vec& even, Vec& odd) {
  const __m256 low = _mm256_unpacklo_ps(even.v, odd.v);   // 0 1 2 3, 8 9 10 11
  const __m256 high = _mm256_unpackhi_ps(even.v, odd.v);  // 4 5 6 7, 12 13 14 15
  even.v = _mm256_permute2f128_ps(low, high, 0x20);
  odd.v = _mm256_permute2f128_ps(low, high, 0x31);
}

#else

struct Vec {
  static constexpr int kLanes = 1;
  float v;

  static Vec Zero() { return {0.0f}; }
  static Vec Set(float x) { return {x}; }
  template <typename T>
  static Vec Load(const T* p) {
    return {ToFloat(*p)};
  }
  template <typename T>
  static Vec LoadPartial(const T* p, int n) {
    return n > 0 ? Load(p) : Zero();
  }
  template <typename T>
  void Store(T* p) const {
    *p = FromFloat<T>(v);
  }
  template <typename T>
  void StorePartial(T* p, int n) const {
    if (n > 0) Store(p);
  }
  float Sum() const { return v; }
  float Max() const { return v; }
};

inline Vec operator+(Vec a, Vec b) { return {a.v + b.v}; }
inline Vec operator-(Vec a, Vec b) { return {a.v - b.v}; }
inline Vec operator*(Vec a, Vec b) { return {a.v * b.v}; }
inline Vec operator/(Vec a, Vec b) { return {a.v / b.v}; }
inline Vec Max(Vec a, Vec b) { return {a.v > b.v ? a.v : b.v}; }
inline Vec Min(Vec a, Vec b) { return {a.v < b.v ? a.v : b.v}; }
inline Vec Fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
inline Vec Round(Vec a) { return {__builtin_nearbyintf(a.v)}; }
inline Vec ScaleByPowerOf2(Vec a, Vec b) {
  return {a.v * __builtin_bit_cast(float, (static_cast<int32_t>(b.v) + 127) << 23)};
}

inline void WidenPairs(const void* p, Vec& even, Vec& odd) {
  even = Vec::Load(static_cast<const Bfloat16*>(p));
  odd = Vec::Load(static_cast<const Bfloat16*>(p) + 1);
}
inline void InterleavePairs(Vec&, Vec&) {}

#endif

// e^x within 2 ulp for x in [-87, 88]; clamped outside, so that it neither overflows nor underflows
// to less than 1e-38. NaN stays NaN: Min and Max return their second operand then.
inline Vec Exp(Vec x) {
  x = Max(Vec::Set(-87.0f), Min(Vec::Set(88.0f), x));
  const Vec n = Round(x * Vec::Set(1.44269504f));
  // x - n ln 2 in two steps: ln 2 does not fit one float.
  Vec r = Fma(n, Vec::Set(-0.693359375f), x);
  r = Fma(n, Vec::Set(2.12194440e-4f), r);
  Vec p = Vec::Set(1.9875691500e-4f);
  p = Fma(p, r, Vec::Set(1.3981999507e-3f));
  p = Fma(p, r, Vec::Set(8.3334519073e-3f));
  p = Fma(p, r, Vec::Set(4.1665795894e-2f));
  p = Fma(p, r, Vec::Set(1.6666665459e-1f));
  p = Fma(p, r, Vec::Set(5.0000001201e-1f));
  p = Fma(p, r * r, r + Vec::Set(1.0f));
  return ScaleByPowerOf2(p, n);
}

// e^x, and exactly zero for x <= -87, minus infinity among them: the weights of a softmax.
inline Vec ExpOrZero(Vec x) {
  const Vec exp = Exp(x);
#if defined(GRAFT_ISA_AVX512)
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, Vec::Set(-87.0f).v, _CMP_NLE_UQ), exp.v)};
#elif defined(GRAFT_ISA_AVX2)
  return {_mm256_and_ps(_mm256_cmp_ps(x.v, Vec::Set(-87.0f).v, _CMP_NLE_UQ), exp.v)};
#else
  return {x.v <= -87.0f ? 0.0f : exp.v};
#endif
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
