// The one GEMM kernel, for every m: a tile of rows times a panel of columns in registers, each
// element of y summed by one accumulator over k in ascending order. Nothing about a row depends on
// how many rows there are or on how threads share the panels: that is the header's promise, by
// construction. docs/inside/kernels.md has the reasons and the figures.
#include <cstring>

#include "kernels/gemm/gemm_run.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// Rows of a tile: as many accumulators as leave registers for the operands.
#if defined(GRAFT_ISA_AVX512)
constexpr int kRowsF32 = 14;
constexpr int kRowsWiden = 12;
#elif defined(GRAFT_ISA_AVX2)
constexpr int kRowsF32 = 3;
constexpr int kRowsWiden = 2;
#else
constexpr int kRowsF32 = 2;
constexpr int kRowsWiden = 2;
#endif

// The ways to multiply kSteps steps of a panel by those of each row of x. kXBytes is the size of a
// step in the copy of x, kXRow the distance between rows, kStepK the values of k in a step. Copy
// fills up the last step with zeros.

struct F32Math {
  using Source = float;
  static constexpr int64_t kStepK = 1;
  static constexpr int64_t kSteps = 1;
  static constexpr int kRowsMax = kRowsF32;
  static constexpr int64_t kXBytes = 4;
  static constexpr int64_t kXRow = kGemmBlockSteps * kXBytes + 64;

  template <int kRows>
  static inline __attribute__((always_inline)) void Step(const char* x, const char* w,
                                                         Tile<kRows>& tile) {
    Vec column[kVecs];
    ForEachVec([&](auto v) {
      column[v] = Vec::Load(reinterpret_cast<const float*>(w) + v * Vec::kLanes);
    });
    Unroll<kRows>([&](auto r) {
      const Vec row = Vec::Set(*reinterpret_cast<const float*>(x + r * kXRow));
      ForEachVec([&](auto v) { tile.sum[r][v] = Fma(row, column[v], tile.sum[r][v]); });
    });
  }
  static void Copy(const float* x, int64_t k, char* out) {
    std::memcpy(out, x, static_cast<size_t>(k) * sizeof(float));
  }
};

// bf16 weights times fp32: even and odd k of a pair are widened and multiplied one after the other.
// For x in fp32, and for x in bf16 where there are no dot-product instructions.
template <typename T>
struct WidenMath {
  using Source = T;
  static constexpr int64_t kStepK = 2;
  static constexpr int64_t kSteps = 1;
  static constexpr int kRowsMax = kRowsWiden;
  static constexpr int64_t kXBytes = 8;
  static constexpr int64_t kXRow = kGemmBlockSteps * kXBytes + 64;

  template <int kRows>
  static inline __attribute__((always_inline)) void Step(const char* x, const char* w,
                                                         Tile<kRows>& tile) {
    Vec even[kVecs], odd[kVecs];
    ForEachVec([&](auto v) { WidenPairs(w + v * Vec::kLanes * 4, even[v], odd[v]); });
    Unroll<kRows>([&](auto r) {
      const float* row = reinterpret_cast<const float*>(x + r * kXRow);
      const Vec row_even = Vec::Set(row[0]);
      const Vec row_odd = Vec::Set(row[1]);
      ForEachVec([&](auto v) {
        tile.sum[r][v] = Fma(row_even, even[v], tile.sum[r][v]);
        tile.sum[r][v] = Fma(row_odd, odd[v], tile.sum[r][v]);
      });
    });
  }
  static void Copy(const T* x, int64_t k, char* out) {
    float* target = reinterpret_cast<float*>(out);
    int64_t i = 0;
    for (; i + Vec::kLanes <= k; i += Vec::kLanes) Vec::Load(x + i).Store(target + i);
    const int rest = static_cast<int>(k - i);
    if (rest > 0) Vec::LoadPartial(x + i, rest).StorePartial(target + i, rest);
    if (k % 2 != 0) target[k] = 0.0f;
  }
};

#if defined(GRAFT_ISA_AVX512)
// bf16 pairs by vdpbf16ps.
struct DotMath {
  using Source = Bfloat16;
  static constexpr int64_t kStepK = 2;
  static constexpr int64_t kSteps = 1;
  static constexpr int kRowsMax = kRowsF32;
  static constexpr int64_t kXBytes = 4;
  static constexpr int64_t kXRow = kGemmBlockSteps * kXBytes + 64;

  template <int kRows>
  static inline __attribute__((always_inline)) void Step(const char* x, const char* w,
                                                         Tile<kRows>& tile) {
    __m512i column[kVecs];
    ForEachVec([&](auto v) { column[v] = _mm512_loadu_si512(w + v * 64); });
    Unroll<kRows>([&](auto r) {
      const __m512i row = _mm512_set1_epi32(*reinterpret_cast<const int32_t*>(x + r * kXRow));
      ForEachVec([&](auto v) { tile.sum[r][v] = DotBf16(row, column[v], tile.sum[r][v]); });
    });
  }
  static void Copy(const Bfloat16* x, int64_t k, char* out) {
    std::memcpy(out, x, static_cast<size_t>(k) * sizeof(Bfloat16));
    if (k % 2 != 0) std::memset(out + k * 2, 0, 2);
  }
};

// x in fp32 by vdpbf16ps: every value rounded to bf16, and of each two pairs the rounding errors of
// the one where they are larger, as a third pair. Half the arithmetic that exact values add to
// DotMath's for three quarters of the squared error: at 8 rows it hides behind memory, exact values
// do not. A step's 4 bytes become 8: of two steps {pair, pair, errors, offset of their weights}.
struct RefinedDotMath {
  using Source = float;
  static constexpr int64_t kStepK = 2;
  static constexpr int64_t kSteps = 2;
  static constexpr int kRowsMax = kRowsWiden;
  static constexpr int64_t kXBytes = 8;
  static constexpr int64_t kXRow = kGemmBlockSteps * kXBytes + 64;

  template <int kRows>
  static inline __attribute__((always_inline)) void Step(const char* x, const char* w,
                                                         Tile<kRows>& tile) {
    __m512i first[kVecs], second[kVecs];
    ForEachVec([&](auto v) { first[v] = _mm512_loadu_si512(w + v * 64); });
    ForEachVec([&](auto v) { second[v] = _mm512_loadu_si512(w + kGemmStepBytes + v * 64); });
    Unroll<kRows>([&](auto r) {
      // One load and three shuffles: with a load for each the loads would bind, not the products.
      const __m512i steps =
          _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + r * kXRow)));
      const __m512i a = _mm512_shuffle_epi32(steps, static_cast<_MM_PERM_ENUM>(0x00));
      const __m512i b = _mm512_shuffle_epi32(steps, static_cast<_MM_PERM_ENUM>(0x55));
      const __m512i errors = _mm512_shuffle_epi32(steps, static_cast<_MM_PERM_ENUM>(0xaa));
      const char* refined = w + *reinterpret_cast<const int32_t*>(x + r * kXRow + 12);
      ForEachVec([&](auto v) { tile.sum[r][v] = DotBf16(a, first[v], tile.sum[r][v]); });
      ForEachVec([&](auto v) { tile.sum[r][v] = DotBf16(b, second[v], tile.sum[r][v]); });
      ForEachVec([&](auto v) {
        tile.sum[r][v] = DotBf16(errors, _mm512_loadu_si512(refined + v * 64), tile.sum[r][v]);
      });
    });
  }
  // The last step where their number is odd: the errors are its own.
  template <int kRows>
  static inline __attribute__((always_inline)) void LastStep(const char* x, const char* w,
                                                             Tile<kRows>& tile) {
    __m512i column[kVecs];
    ForEachVec([&](auto v) { column[v] = _mm512_loadu_si512(w + v * 64); });
    Unroll<kRows>([&](auto r) {
      const __m512i a = Broadcast(x + r * kXRow);
      const __m512i errors = Broadcast(x + r * kXRow + 8);
      ForEachVec([&](auto v) { tile.sum[r][v] = DotBf16(a, column[v], tile.sum[r][v]); });
      ForEachVec([&](auto v) { tile.sum[r][v] = DotBf16(errors, column[v], tile.sum[r][v]); });
    });
  }
  static void Copy(const float* x, int64_t k, char* out) {
    int64_t i = 0;
    for (; i + 32 <= k; i += 32, out += 128)
      CopySteps(Vec::Load(x + i), Vec::Load(x + i + 16), out);
    const int rest = static_cast<int>(k - i);
    if (rest == 0) return;
    const Vec low = rest < 16 ? Vec::LoadPartial(x + i, rest) : Vec::Load(x + i);
    const Vec high = rest > 16 ? Vec::LoadPartial(x + i + 16, rest - 16) : Vec::Zero();
    CopySteps(low, high, out);
  }

 private:
  static __m512i Broadcast(const char* pair) {
    return _mm512_set1_epi32(*reinterpret_cast<const int32_t*>(pair));
  }
  static Vec Widen(__m256i values) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(values), 16))};
  }
  // 16 steps, 128 bytes of `out`.
  static void CopySteps(Vec low, Vec high, char* out) {
    const __m512i pairs = NarrowToBf16(low, high);
    const __m512i errors = NarrowToBf16(low - Widen(_mm512_castsi512_si256(pairs)),
                                        high - Widen(_mm512_extracti64x4_epi64(pairs, 1)));
    // The larger magnitude of each pair; bf16 magnitudes order as integers.
    const __m512i sizes = _mm512_and_si512(errors, _mm512_set1_epi16(0x7fff));
    const __m512i larger = _mm512_max_epu16(sizes, _mm512_rol_epi32(sizes, 16));
    constexpr auto kSwap = static_cast<_MM_PERM_ENUM>(0xb1);  // the pairs of two steps
    const __mmask16 second = _mm512_cmpgt_epu32_mask(_mm512_shuffle_epi32(larger, kSwap), larger);
    const auto take_second = static_cast<__mmask16>(second & 0x5555);
    __m512i refined = _mm512_mask_shuffle_epi32(errors, take_second, errors, kSwap);
    refined = _mm512_mask_mov_epi32(
        refined, 0xaaaa,
        _mm512_maskz_set1_epi32(static_cast<__mmask16>(take_second << 1), kGemmStepBytes));
    const __m512i order = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    _mm512_storeu_si512(out, _mm512_permutex2var_epi64(pairs, order, refined));
    _mm512_storeu_si512(
        out + 64,
        _mm512_permutex2var_epi64(pairs, _mm512_add_epi64(order, _mm512_set1_epi64(4)), refined));
  }
};
#endif

template <typename Math, int kRows>
__attribute__((noinline)) void ComputeTile(const char* x, const char* w, int64_t num_steps,
                                           Prefetch prefetch, Tile<kRows>& out) {
  Tile<kRows> tile;
  Unroll<kRows>([&](auto r) { ForEachVec([&](auto v) { tile.sum[r][v] = Vec::Zero(); }); });
  const char* ahead = prefetch.begin;
  while (num_steps > 0) {
    const int64_t count = num_steps < kGemmBlockSteps ? num_steps : kGemmBlockSteps;
    int64_t s = 0;
    for (; s + Math::kSteps <= count; s += Math::kSteps) {
      Unroll<static_cast<int>(Math::kSteps)>([&](auto) {
        __builtin_prefetch(ahead, 0, 2);
        __builtin_prefetch(ahead + prefetch.step / 2, 0, 2);
        ahead += prefetch.step;
      });
      Math::template Step<kRows>(x + s * Math::kXBytes, w, tile);
      w += Math::kSteps * kGemmStepBytes;
    }
    if constexpr (Math::kSteps > 1) {
      if (s < count) Math::template LastStep<kRows>(x + s * Math::kXBytes, w, tile);
    }
    x += kRows * Math::kXRow;
    num_steps -= count;
  }
  out = tile;
}

// What GemmRun wants, of the ways above.
template <typename Steps>
struct Stepwise {
  using Source = typename Steps::Source;
  static constexpr int kRowsMax = Steps::kRowsMax;
  static constexpr int64_t kXRow = Steps::kXRow;

  static int64_t BlockK(const GemmCpuArgs&) { return kGemmBlockSteps * Steps::kStepK; }
  static void Copy(const GemmCpuArgs& /*args*/, const Source* x, int64_t begin, int64_t k,
                   char* out) {
    Steps::Copy(x + begin, k, out);
  }
  template <int kRows>
  static void Compute(const GemmCpuArgs& args, const char* x, const char* w, Prefetch prefetch,
                      Tile<kRows>& tile) {
    ComputeTile<Steps, kRows>(x, w, args.num_steps, prefetch, tile);
  }
};

}  // namespace

void Gemm(const GemmCpuArgs& args, Stream& stream) {
  if (args.dtype == DType::kF32) return GemmRun<Stepwise<F32Math>>(args).Run(stream);
#if defined(GRAFT_ISA_AVX512)
  if (CpuHasAvx512Bf16()) {
    if (args.gemm.x_is_fp32) return GemmRun<Stepwise<RefinedDotMath>>(args).Run(stream);
    return GemmRun<Stepwise<DotMath>>(args).Run(stream);
  }
#endif
  if (args.gemm.x_is_fp32) return GemmRun<Stepwise<WidenMath<float>>>(args).Run(stream);
  GemmRun<Stepwise<WidenMath<Bfloat16>>>(args).Run(stream);
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
