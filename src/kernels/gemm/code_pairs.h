// From codes to the numbers that a GPU multiplies: two bf16 numbers in a word of 32 bits, the first
// in the low half. A number is its code's value times the scale, in fp32, rounded once to bf16: the
// bits of NumberOfCode in bf16. The host computes the same, so that tests can try all of it.
// Functions without state; any thread.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

#if defined(__CUDACC__)
#define GRAFT_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define GRAFT_HOST_DEVICE inline
#endif

namespace graft::codes {

#if !defined(__CUDA_ARCH__)
inline float LowOf(uint32_t pair) {
  return ToFloat(Bfloat16{static_cast<uint16_t>(pair & 0xffffu)});
}
inline float HighOf(uint32_t pair) { return ToFloat(Bfloat16{static_cast<uint16_t>(pair >> 16)}); }
inline uint32_t PairOf(float low, float high) {
  return FromFloat<Bfloat16>(low).bits | static_cast<uint32_t>(FromFloat<Bfloat16>(high).bits)
                                             << 16;
}
#endif

// a b + c of both numbers, each rounded once. On the host a b + c must be exact in a double.
GRAFT_HOST_DEVICE uint32_t FmaPairs(uint32_t a, uint32_t b, uint32_t c) {
#if defined(__CUDA_ARCH__)
  uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
#else
  const auto fma = [](float x, float y, float z) {
    return static_cast<float>(static_cast<double>(x) * static_cast<double>(y) +
                              static_cast<double>(z));
  };
  return PairOf(fma(LowOf(a), LowOf(b), LowOf(c)), fma(HighOf(a), HighOf(b), HighOf(c)));
#endif
}

inline constexpr uint32_t kOnes = 0x3f803f80;        // 1, 1
inline constexpr uint32_t kMinusZeros = 0x80008000;  // -0, -0: what is added to a product alone

// (word & mask) | bits, as one instruction: by itself the compiler takes two of a constant each.
GRAFT_HOST_DEVICE uint32_t Placed(uint32_t word, uint32_t mask, uint32_t bits) {
#if defined(__CUDA_ARCH__)
  uint32_t placed;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(placed) : "r"(word), "r"(mask), "r"(bits));
  return placed;
#else
  return (word & mask) | bits;
#endif
}

// (word & mask) ^ bits.
GRAFT_HOST_DEVICE uint32_t Flipped(uint32_t word, uint32_t mask, uint32_t bits) {
#if defined(__CUDA_ARCH__)
  uint32_t flipped;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(flipped) : "r"(word), "r"(mask), "r"(bits));
  return flipped;
#else
  return (word & mask) ^ bits;
#endif
}

// The number in both halves. number: bf16 in the low half.
GRAFT_HOST_DEVICE uint32_t Both(uint32_t number) { return number | number << 16; }

// Codes of 4 bits: pair `i` of a word's four is at bits 4 i and 16 + 4 i. 128 + code as bf16: the
// code lies where a bit of the mantissa is worth 1.
GRAFT_HOST_DEVICE uint32_t RaisedPair4(uint32_t word, int i) {
  return Placed(word >> 4 * i, 0x000f000fu, 0x43004300u);
}
// What is added to that: -(128 + zero).
GRAFT_HOST_DEVICE uint32_t MinusRaised4(uint32_t zero) { return Both(0xc300u | zero); }
inline constexpr uint32_t kMinusMiddle4 = 0xc308c308;  // of the zero point 8

// The pair's codes less their zero points, exactly.
GRAFT_HOST_DEVICE uint32_t ValuePair4(uint32_t word, int i, uint32_t minus) {
  return FmaPairs(RaisedPair4(word, i), kOnes, minus);
}

// Codes of 8 bits: pair `i` of a word's two is at bits 8 i and 16 + 8 i. Code - 128, exactly: 128 +
// the code's seven low bits, less 256 or, where its highest bit is set, 128.
GRAFT_HOST_DEVICE uint32_t SignedPair8(uint32_t word, int i) {
  const uint32_t codes = word >> 8 * i;
  return FmaPairs(Placed(codes, 0x007f007fu, 0x43004300u), kOnes,
                  Flipped(codes, 0x00800080u, 0xc380c380u));
}
// bf16 of 128 - zero, which is added to that. zero: below 256.
GRAFT_HOST_DEVICE uint32_t MinusSigned8(float zero) {
#if defined(__CUDA_ARCH__)
  uint32_t pair;
  const float value = 128.0f - zero;
  asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(pair) : "f"(value));
  return pair;
#else
  return PairOf(128.0f - zero, 128.0f - zero);
#endif
}
GRAFT_HOST_DEVICE uint32_t ValuePair8(uint32_t word, int i, uint32_t minus) {
  return FmaPairs(SignedPair8(word, i), kOnes, minus);
}

// Times a scale that bf16 holds, in both halves of `scale`.
GRAFT_HOST_DEVICE uint32_t ScaledPair(uint32_t values, uint32_t scale) {
  return FmaPairs(values, scale, kMinusZeros);
}

// Two products in fp32, rounded to bf16.
GRAFT_HOST_DEVICE uint32_t RoundedPair(float low, float high) {
#if defined(__CUDA_ARCH__)
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return PairOf(low, high);
#endif
}
GRAFT_HOST_DEVICE float FloatOfBits(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}
// Times any fp32 scale.
GRAFT_HOST_DEVICE uint32_t ScaledPair(uint32_t values, float scale) {
  return RoundedPair(FloatOfBits(values << 16) * scale, FloatOfBits(values & 0xffff0000u) * scale);
}

}  // namespace graft::codes
