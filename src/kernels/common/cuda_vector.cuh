// Moves runs of elements between memory and float registers: by 16-byte accesses where the operands
// lie on 16-byte borders, and element by element elsewhere and at a row's end. The choice never
// changes what is computed.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace graft {

__device__ __forceinline__ float WidenElement(float x) { return x; }
__device__ __forceinline__ float WidenElement(Bfloat16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
__device__ __forceinline__ float WidenElement(Float16 x) {
  return __half2float(__ushort_as_half(x.bits));
}

// Rounds to nearest, ties to even.
template <typename T>
__device__ __forceinline__ T NarrowElement(float x) {
  if constexpr (sizeof(T) == 4) {
    return x;
  } else if constexpr (DTypeOf<T>() == DType::kBF16) {
    return T{__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  } else {
    return T{__half_as_ushort(__float2half_rn(x))};
  }
}

// Up to kWidth (a multiple of 4) consecutive elements of a row. `count` of them belong to the row;
// the others are read as zero and not written. kVectors: p is on a border of 16 bytes (of 8 where
// the whole run has only 8), and count is either kWidth or at most zero.
template <bool kVectors, int kWidth, typename T>
__device__ __forceinline__ void LoadRun(const T* p, int64_t count, float (&out)[kWidth]) {
  if constexpr (kVectors) {
    constexpr int kBytes = kWidth * static_cast<int>(sizeof(T)) < 16 ? 8 : 16;
    constexpr int kStep = kBytes / static_cast<int>(sizeof(T));
    struct alignas(kBytes) Vector {
      T elements[kStep];
    };
#pragma unroll
    for (int i = 0; i < kWidth; i += kStep) {
      Vector vector = {};
      if (count > 0) vector = *reinterpret_cast<const Vector*>(p + i);
#pragma unroll
      for (int j = 0; j < kStep; ++j) out[i + j] = WidenElement(vector.elements[j]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) out[i] = i < count ? WidenElement(p[i]) : 0.0f;
  }
}

template <bool kVectors, int kWidth, typename T>
__device__ __forceinline__ void StoreRun(const float (&values)[kWidth], int64_t count, T* p) {
  if constexpr (kVectors) {
    constexpr int kBytes = kWidth * static_cast<int>(sizeof(T)) < 16 ? 8 : 16;
    constexpr int kStep = kBytes / static_cast<int>(sizeof(T));
    struct alignas(kBytes) Vector {
      T elements[kStep];
    };
    if (count <= 0) return;
#pragma unroll
    for (int i = 0; i < kWidth; i += kStep) {
      Vector vector;
#pragma unroll
      for (int j = 0; j < kStep; ++j) vector.elements[j] = NarrowElement<T>(values[i + j]);
      *reinterpret_cast<Vector*>(p + i) = vector;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (i < count) p[i] = NarrowElement<T>(values[i]);
    }
  }
}

// Whether a pointer, or a distance in bytes, is a multiple of 16.
inline bool IsVectorAligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }
inline bool IsVectorAligned(int64_t bytes) { return bytes % 16 == 0; }

// Calls function.template operator()<true>() or operator()<false>().
template <typename Function>
void DispatchVectors(bool vectors, const Function& function) {
  if (vectors) {
    function.template operator()<true>();
  } else {
    function.template operator()<false>();
  }
}

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace graft
