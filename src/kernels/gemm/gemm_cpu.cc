// The one GEMM kernel, for every m: a tile of rows times a panel of columns in registers, each
// element of y summed by one accumulator over k in ascending order. Nothing about a row depends on
// how many rows there are or on how threads share the panels: that is the header's promise, by
// construction. docs/inside/kernels.md has the reasons and the figures.
#include <cstring>

#include "kernels/common/simd.h"
#include "kernels/common/unroll.h"
#include "kernels/gemm/gemm_layout.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int kVecs = static_cast<int>(kGemmPanel) / Vec::kLanes;

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

template <int kRows>
struct Tile {
  Vec sum[kRows][kVecs];
};

// Calls function(v) for each vector of a panel. Lanes of one float are left to the vectoriser.
template <typename Function>
__attribute__((always_inline)) inline void ForEachVec(const Function& function) {
#if defined(GRAFT_ISA_AVX512) || defined(GRAFT_ISA_AVX2)
  Unroll<kVecs>(function);
#else
  for (int v = 0; v < kVecs; ++v) function(v);
#endif
}

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

// What the memory system should fetch while a tile is computed: two lines `step` / 2 apart, `step`
// bytes further with every step of k. step 0 re-reads a line at hand, which costs nothing.
struct Prefetch {
  const char* begin;
  int64_t step;
};

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

// What the epilogue makes of the sums of a row, but LoRA, for the panel's columns that exist.
void StoreRow(const Vec* sum, const GemmArgs& args, int64_t row, int64_t column, int64_t n) {
  const GemmEpilogue& ends = args.epilogue;
  float* y = args.y + row * args.y_stride + column;
  for (int v = 0; v < kVecs; ++v) {
    const int64_t first = int64_t{v} * Vec::kLanes;
    const int64_t rest = n - column - first;
    if (rest <= 0) return;
    const int lanes = rest < Vec::kLanes ? static_cast<int>(rest) : Vec::kLanes;
    Vec value = sum[v];
    if (ends.bias != nullptr) value = value + Vec::LoadPartial(ends.bias + column + first, lanes);
    if (ends.accumulate) {
      value = Fma(Vec::Set(ends.scale), value, Vec::LoadPartial(y + first, lanes));
    }
    value.StorePartial(y + first, lanes);
  }
}

template <typename Math>
class GemmRun {
 public:
  explicit GemmRun(const GemmCpuArgs& args)
      : args_(args),
        num_blocks_((args.num_steps + kGemmBlockSteps - 1) / kGemmBlockSteps),
        num_tiles_((args.gemm.m + Math::kRowsMax - 1) / Math::kRowsMax) {}

  void Run(Stream& stream) {
    const int num_threads = stream.cpu_threads->num_threads();
    const int64_t num_panels = (args_.n + kGemmPanel - 1) / kGemmPanel;
    const int64_t weight_bytes = num_panels * args_.num_steps * kGemmStepBytes;
    if (num_threads == 1 || weight_bytes * args_.gemm.m <= kSerialBytesMax) {
      CopyX(0, num_tiles_, args_.scratch);
      ComputePanels(0, num_panels, args_.scratch);
      return;
    }
    if (args_.gemm.m > kGemmOwnCopyRowsMax) {
      stream.cpu_threads->ParallelFor(
          num_tiles_, 1, [&](int64_t begin, int64_t end) { CopyX(begin, end, args_.scratch); });
      stream.cpu_threads->ParallelFor(num_panels, 1, [&](int64_t begin, int64_t end) {
        ComputePanels(begin, end, args_.scratch);
      });
      return;
    }
    // A few rows: a copy per thread costs less than waiting for a common one.
    stream.cpu_threads->Run([&](int worker_idx) {
      const int64_t begin = num_panels * worker_idx / num_threads;
      const int64_t end = num_panels * (worker_idx + 1) / num_threads;
      if (begin == end) return;
      char* scratch = args_.scratch + worker_idx * args_.gemm.m * num_blocks_ * Math::kXRow;
      CopyX(0, num_tiles_, scratch);
      ComputePanels(begin, end, scratch);
    });
  }

 private:
  // Below this product of weight bytes and rows, waking the other threads costs more than they
  // save.
  static constexpr int64_t kSerialBytesMax = 128 << 10;

  // Tiles share the rows evenly: 16 rows are 8 + 8, not 14 + 2.
  int64_t TileBegin(int64_t tile) const { return args_.gemm.m * tile / num_tiles_; }

  // Copies the rows of tiles [begin, end) into blocks: [tile][block][row][kXRow bytes].
  void CopyX(int64_t begin, int64_t end, char* scratch) const {
    using Source = typename Math::Source;
    constexpr int64_t kBlockK = kGemmBlockSteps * Math::kStepK;
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t row_begin = TileBegin(tile);
      const int64_t rows = TileBegin(tile + 1) - row_begin;
      char* out = scratch + row_begin * num_blocks_ * Math::kXRow;
      for (int64_t block = 0; block < num_blocks_; ++block) {
        const int64_t k_begin = block * kBlockK;
        const int64_t k = args_.k - k_begin < kBlockK ? args_.k - k_begin : kBlockK;
        for (int64_t row = 0; row < rows; ++row, out += Math::kXRow) {
          Math::Copy(static_cast<const Source*>(args_.gemm.x) +
                         (row_begin + row) * args_.gemm.x_stride + k_begin,
                     k, out);
        }
      }
    }
  }

  void ComputePanels(int64_t begin, int64_t end, const char* scratch) const {
    const int64_t panel_bytes = args_.num_steps * kGemmStepBytes;
    for (int64_t panel = begin; panel < end; ++panel) {
      const char* w = args_.panels + panel * panel_bytes;
      for (int64_t tile = 0; tile < num_tiles_; ++tile) {
        Prefetch prefetch{w, 0};
        if (num_tiles_ == 1) {
          prefetch = {w + kPrefetchBytes, kGemmStepBytes};
        } else if (tile < 2 && panel + 1 < end) {
          // The first two tiles fetch half of the next panel each.
          prefetch = {w + panel_bytes + tile * panel_bytes / 2, kGemmStepBytes / 2};
        }
        ComputeRows(scratch, w, tile, panel * kGemmPanel, prefetch);
      }
    }
  }

  void ComputeRows(const char* scratch, const char* w, int64_t tile_idx, int64_t column,
                   Prefetch prefetch) const {
    const int64_t row_begin = TileBegin(tile_idx);
    const int64_t rows = TileBegin(tile_idx + 1) - row_begin;
    const char* x = scratch + row_begin * num_blocks_ * Math::kXRow;
    Unroll<Math::kRowsMax>([&](auto index) {
      constexpr int kRows = decltype(index)::value + 1;
      if (rows != kRows) return;
      Tile<kRows> tile;
      ComputeTile<Math, kRows>(x, w, args_.num_steps, prefetch, tile);
      for (int r = 0; r < kRows; ++r) {
        StoreRow(tile.sum[r], args_.gemm, row_begin + r, column, args_.n);
      }
    });
  }

  // Far enough ahead to hide the way from memory at full bandwidth (measured: 4 KiB is too near).
  static constexpr int64_t kPrefetchBytes = 12288;

  const GemmCpuArgs args_;
  const int64_t num_blocks_;
  const int64_t num_tiles_;
};

}  // namespace

void Gemm(const GemmCpuArgs& args, Stream& stream) {
  if (args.dtype == DType::kF32) return GemmRun<F32Math>(args).Run(stream);
#if defined(GRAFT_ISA_AVX512)
  if (CpuHasAvx512Bf16()) {
    if (args.gemm.x_is_fp32) return GemmRun<RefinedDotMath>(args).Run(stream);
    return GemmRun<DotMath>(args).Run(stream);
  }
#endif
  if (args.gemm.x_is_fp32) return GemmRun<WidenMath<float>>(args).Run(stream);
  GemmRun<WidenMath<Bfloat16>>(args).Run(stream);
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
