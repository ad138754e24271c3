// Products of rows of x with weights that are codes (gemm_codes.h): sums of integers, by vpdpbusd
// where the processor has it.
#include <cmath>
#include <cstring>

#include "kernels/gemm/gemm_codes.h"
#include "kernels/gemm/gemm_run.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// Bytes of neighbouring columns, 4 of each, and sums of 32 bits for each column.
#if defined(GRAFT_ISA_AVX512)
struct Bytes {
  __m512i v;
  static Bytes Load(const char* p) { return {_mm512_loadu_si512(p)}; }
  static Bytes Broadcast(const char* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return {_mm512_set1_epi32(four)};
  }
  Bytes LowHalves() const { return {_mm512_and_si512(v, _mm512_set1_epi8(0x0f))}; }
  Bytes HighHalves() const {
    return {_mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(0x0f))};
  }
};
struct Sums {
  static constexpr int kColumns = 16;
  __m512i v;
  static Sums Zero() { return {_mm512_setzero_si512()}; }
  Vec ToFloat() const { return {_mm512_cvtepi32_ps(v)}; }
};
// table[index], of 16 bytes.
struct ByteTable {
  __m512i v;
  explicit ByteTable(const uint8_t* table)
      : v(_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)))) {}
  Bytes At(Bytes index) const { return {_mm512_shuffle_epi8(v, index.v)}; }
};
// sum + the products of 4 unsigned bytes of a and signed ones of b.
template <bool kVnni>
Sums Dot(Bytes a, Bytes b, Sums sum) {
  if constexpr (kVnni) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.v) : "v"(a.v), "v"(b.v));
    return sum;
  }
  // Sums of two products of whole bytes would not fit 16 bits: by halves of bytes they do.
  const __m512i ones = _mm512_set1_epi16(1);
  const __m512i low = _mm512_madd_epi16(_mm512_maddubs_epi16(a.LowHalves().v, b.v), ones);
  const __m512i high = _mm512_madd_epi16(_mm512_maddubs_epi16(a.HighHalves().v, b.v), ones);
  return {_mm512_add_epi32(sum.v, _mm512_add_epi32(low, _mm512_slli_epi32(high, 4)))};
}
void StoreDigits(Vec digits, int8_t* out) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                   _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(digits.v)));
}
#elif defined(GRAFT_ISA_AVX2)
struct Bytes {
  __m256i v;
  static Bytes Load(const char* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  static Bytes Broadcast(const char* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return {_mm256_set1_epi32(four)};
  }
  Bytes LowHalves() const { return {_mm256_and_si256(v, _mm256_set1_epi8(0x0f))}; }
  Bytes HighHalves() const {
    return {_mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(0x0f))};
  }
};
struct Sums {
  static constexpr int kColumns = 8;
  __m256i v;
  static Sums Zero() { return {_mm256_setzero_si256()}; }
  Vec ToFloat() const { return {_mm256_cvtepi32_ps(v)}; }
};
struct ByteTable {
  __m256i v;
  explicit ByteTable(const uint8_t* table)
      : v(_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)))) {}
  Bytes At(Bytes index) const { return {_mm256_shuffle_epi8(v, index.v)}; }
};
template <bool kVnni>
Sums Dot(Bytes a, Bytes b, Sums sum) {
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i low = _mm256_madd_epi16(_mm256_maddubs_epi16(a.LowHalves().v, b.v), ones);
  const __m256i high = _mm256_madd_epi16(_mm256_maddubs_epi16(a.HighHalves().v, b.v), ones);
  return {_mm256_add_epi32(sum.v, _mm256_add_epi32(low, _mm256_slli_epi32(high, 4)))};
}
void StoreDigits(Vec digits, int8_t* out) {
  const __m256i words = _mm256_cvtps_epi32(digits.v);
  const __m128i halves =
      _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_packs_epi16(halves, halves));
}
#else
struct Bytes {
  uint8_t v[4];
  static Bytes Load(const char* p) {
    Bytes bytes;
    std::memcpy(bytes.v, p, 4);
    return bytes;
  }
  static Bytes Broadcast(const char* p) { return Load(p); }
  Bytes LowHalves() const {
    return {static_cast<uint8_t>(v[0] & 15), static_cast<uint8_t>(v[1] & 15),
            static_cast<uint8_t>(v[2] & 15), static_cast<uint8_t>(v[3] & 15)};
  }
  Bytes HighHalves() const {
    return {static_cast<uint8_t>(v[0] >> 4), static_cast<uint8_t>(v[1] >> 4),
            static_cast<uint8_t>(v[2] >> 4), static_cast<uint8_t>(v[3] >> 4)};
  }
};
struct Sums {
  static constexpr int kColumns = 1;
  int32_t v;
  static Sums Zero() { return {0}; }
  Vec ToFloat() const { return {static_cast<float>(v)}; }
};
struct ByteTable {
  const uint8_t* table;
  explicit ByteTable(const uint8_t* bytes) : table(bytes) {}
  Bytes At(Bytes index) const {
    return {table[index.v[0]], table[index.v[1]], table[index.v[2]], table[index.v[3]]};
  }
};
template <bool kVnni>
Sums Dot(Bytes a, Bytes b, Sums sum) {
  for (int i = 0; i < 4; ++i) sum.v += int32_t{a.v[i]} * static_cast<int8_t>(b.v[i]);
  return sum;
}
void StoreDigits(Vec digits, int8_t* out) { *out = static_cast<int8_t>(digits.v); }
#endif

// Vectors of columns that are worked on at a time: their sums stay in registers.
constexpr int kVecsAtOnce = kVecs < 2 ? kVecs : 2;
static_assert(Sums::kColumns == Vec::kLanes);

// The kinds of codes: what the bytes of a step are multiplied as. kParts: groups of 4 numbers of k
// in a step. `low`: less significant bytes of the numbers, where they have two. What is summed is
// 256 x the number's first byte + its second; kZero is what stands for 0 of that over 256, and
// kUnit what a scale is multiplied with in the end.
struct Integers8 {
  static constexpr int kParts = 1;
  static constexpr bool kTwoBytes = false;
  static constexpr float kZero = 128.0f;
  static constexpr float kUnit = 1.0f;

  static Bytes Part(Bytes step, int /*part*/) { return step; }
  Bytes High(Bytes codes) const { return codes; }
  Bytes Low(Bytes codes) const { return codes; }
};
struct Integers4 {
  static constexpr int kParts = 2;
  static constexpr bool kTwoBytes = false;
  static constexpr float kZero = 8.0f;
  static constexpr float kUnit = 1.0f;

  static Bytes Part(Bytes step, int part) {
    return part == 0 ? step.LowHalves() : step.HighHalves();
  }
  Bytes High(Bytes codes) const { return codes; }
  Bytes Low(Bytes codes) const { return codes; }
};
// The numbers in 16 bits, from 1 for -1 to 65,535 for 1. Products of the low byte and x's low digit
// are left out: they are 1 / 33,000 of the largest number times the largest x.
constexpr int32_t kNormal4Middle = 32768;
struct Normal4Bytes {
  uint8_t high[16];
  uint8_t low[16];
};
constexpr Normal4Bytes MakeNormal4Bytes() {
  Normal4Bytes bytes{};
  for (int i = 0; i < 16; ++i) {
    const float scaled = kNormal4Numbers[i] * 32767.0f;
    const auto rounded = static_cast<int32_t>(scaled < 0 ? scaled - 0.5f : scaled + 0.5f);
    bytes.high[i] = static_cast<uint8_t>((rounded + kNormal4Middle) >> 8);
    bytes.low[i] = static_cast<uint8_t>((rounded + kNormal4Middle) & 0xff);
  }
  return bytes;
}
constexpr Normal4Bytes kNormal4Bytes = MakeNormal4Bytes();
struct Normal4 {
  static constexpr int kParts = 2;
  static constexpr bool kTwoBytes = true;
  static constexpr float kZero = kNormal4Middle / 256.0f;
  static constexpr float kUnit = 256.0f / 32767.0f;

  static Bytes Part(Bytes step, int part) { return Integers4::Part(step, part); }
  Bytes High(Bytes codes) const { return high_.At(codes); }
  Bytes Low(Bytes codes) const { return low_.At(codes); }

 private:
  ByteTable high_{kNormal4Bytes.high};
  ByteTable low_{kNormal4Bytes.low};
};

// Rows of a tile: two sums for each of their vectors of columns.
#if defined(GRAFT_ISA_AVX512)
template <typename Codes>
constexpr int kRowsOf = Codes::kTwoBytes ? 4 : 5;
#else
template <typename Codes>
constexpr int kRowsOf = 2;
#endif

// What is smaller counts as zero: its inverse would not be finite.
constexpr float kScaleMin = 1e-30f;

template <typename Codes, bool kVnni>
struct CodesMath {
  using Source = float;
  static constexpr int kRowsMax = kRowsOf<Codes>;
  static constexpr int64_t kXRow = kGemmDigitsBytes;

  static int64_t BlockK(const GemmCpuArgs& args) { return GemmCodeBlock(args.format, args.k); }

  // A NaN or an infinity makes the block's scale NaN, and so all that is multiplied with it.
  static void Copy(const GemmCpuArgs& args, const float* x, int64_t begin, int64_t k, char* out) {
    const int64_t block_k = BlockK(args);
    float values[kGemmCodeBlockMax] = {};
    if (args.input_order == nullptr) {
      std::memcpy(values, x + begin, static_cast<size_t>(k) * sizeof(float));
    } else {
      for (int64_t i = 0; i < k; ++i) values[i] = x[args.input_order[begin + i]];
    }
    Vec largest = Vec::Zero(), no_number = Vec::Zero();
    for (int64_t i = 0; i < block_k; i += Vec::kLanes) {
      const Vec value = Vec::Load(values + i);
      largest = Max(largest, Max(value, Vec::Zero() - value));
      no_number = Fma(value, Vec::Zero(), no_number);
    }
    const float scale = largest.Max() / 127.0f + no_number.Sum();
    const Vec inverse = Vec::Set(scale > kScaleMin ? 1.0f / scale : 0.0f);
    auto* const digits = reinterpret_cast<int8_t*>(out);
    Vec sum = Vec::Zero();
    for (int64_t i = 0; i < block_k; i += Vec::kLanes) {
      const Vec scaled = Vec::Load(values + i) * inverse;
      const Vec high = Round(scaled);
      const Vec low = Min(Round((scaled - high) * Vec::Set(256.0f)), Vec::Set(127.0f));
      StoreDigits(high, digits + i);
      StoreDigits(low, digits + kGemmCodeBlockMax + i);
      sum = sum + Fma(high, Vec::Set(256.0f), low);
    }
    const float ends[2] = {scale / 256.0f, sum.Sum()};
    std::memcpy(out + 2 * kGemmCodeBlockMax, ends, sizeof(ends));
  }

  template <int kRows>
  static __attribute__((noinline)) void Compute(const GemmCpuArgs& args, const char* x,
                                                const char* w, Prefetch prefetch,
                                                Tile<kRows>& tile) {
    const GemmCodesLayout layout(args.format, args.n, args.k);
    const Codes codes;
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVecs; ++v) tile.sum[r][v] = Vec::Zero();
    }
    const char* ahead = prefetch.begin;
    for (int64_t block = 0; block < layout.num_blocks; ++block) {
      for (int v = 0; v < kVecs; v += kVecsAtOnce) {
        AddBlock<kRows>(args, layout, codes, x, w, v, v == 0 ? &ahead : nullptr, prefetch.step,
                        tile);
      }
      x += kRows * kXRow;
      w += layout.block_bytes;
    }
  }

 private:
  // The block's share of vectors first_vec, ... of the panel's columns.
  template <int kRows>
  static inline __attribute__((always_inline)) void AddBlock(
      const GemmCpuArgs& args, const GemmCodesLayout& layout, const Codes& codes, const char* x,
      const char* w, int first_vec, const char** ahead, int64_t prefetch_step, Tile<kRows>& tile) {
    Sums high[kRows][kVecsAtOnce], low[kRows][kVecsAtOnce];
    Unroll<kRows>([&](auto r) {
      Unroll<kVecsAtOnce>([&](auto v) { high[r][v] = low[r][v] = Sums::Zero(); });
    });
    const char* step = w + layout.scale_bytes + first_vec * Vec::kLanes * 4;
    const char* digits = x;
    for (int64_t i = 0; i < layout.block_k; i += layout.step_k, step += kGemmStepBytes) {
      if (ahead != nullptr) {
        __builtin_prefetch(*ahead, 0, 2);
        __builtin_prefetch(*ahead + prefetch_step / 2, 0, 2);
        *ahead += prefetch_step;
      }
      Bytes bytes[kVecsAtOnce];
      Unroll<kVecsAtOnce>([&](auto v) { bytes[v] = Bytes::Load(step + v * Vec::kLanes * 4); });
      Unroll<Codes::kParts>([&](auto part) {
        AddPart<kRows>(codes, bytes, part, digits, high, low);
        digits += 4;
      });
    }
    const auto* const scales = reinterpret_cast<const float*>(w) + first_vec * Vec::kLanes;
    Unroll<kVecsAtOnce>([&](auto v) {
      const Vec scale = Vec::Load(scales + v * Vec::kLanes) * Vec::Set(Codes::kUnit);
      const Vec zero = args.format.has_zero_points
                           ? Vec::Load(scales + kGemmPanel + v * Vec::kLanes)
                           : Vec::Set(Codes::kZero);
      Unroll<kRows>([&](auto r) {
        float ends[2];
        std::memcpy(ends, x + r * kXRow + 2 * kGemmCodeBlockMax, sizeof(ends));
        const Vec sum = Fma(high[r][v].ToFloat(), Vec::Set(256.0f), low[r][v].ToFloat());
        const Vec numbers = Fma(zero, Vec::Set(-ends[1]), sum);
        Vec& out = tile.sum[r][first_vec + v];
        out = Fma(numbers, scale * Vec::Set(ends[0]), out);
      });
    });
  }

  template <int kRows>
  static inline __attribute__((always_inline)) void AddPart(const Codes& codes,
                                                            const Bytes (&bytes)[kVecsAtOnce],
                                                            int part, const char* digits,
                                                            Sums (&high)[kRows][kVecsAtOnce],
                                                            Sums (&low)[kRows][kVecsAtOnce]) {
    Bytes number_high[kVecsAtOnce], number_low[kVecsAtOnce];
    Unroll<kVecsAtOnce>([&](auto v) {
      const Bytes four = Codes::Part(bytes[v], part);
      number_high[v] = codes.High(four);
      if constexpr (Codes::kTwoBytes) number_low[v] = codes.Low(four);
    });
    Unroll<kRows>([&](auto r) {
      const Bytes x_high = Bytes::Broadcast(digits + r * kXRow);
      const Bytes x_low = Bytes::Broadcast(digits + r * kXRow + kGemmCodeBlockMax);
      Unroll<kVecsAtOnce>([&](auto v) {
        high[r][v] = Dot<kVnni>(number_high[v], x_high, high[r][v]);
        low[r][v] = Dot<kVnni>(number_high[v], x_low, low[r][v]);
        if constexpr (Codes::kTwoBytes) {
          low[r][v] = Dot<kVnni>(number_low[v], x_high, low[r][v]);
        }
      });
    });
  }
};

template <bool kVnni>
void RunCodes(const GemmCpuArgs& args, Stream& stream) {
  if (args.format.codes == WeightCodes::kNormal4) {
    return GemmRun<CodesMath<Normal4, kVnni>>(args).Run(stream);
  }
  if (args.format.bits == 4) return GemmRun<CodesMath<Integers4, kVnni>>(args).Run(stream);
  GemmRun<CodesMath<Integers8, kVnni>>(args).Run(stream);
}

}  // namespace

void GemmCodes(const GemmCpuArgs& args, Stream& stream) {
#if defined(GRAFT_ISA_AVX512)
  if (CpuHasAvx512Vnni()) return RunCodes<true>(args, stream);
#endif
  RunCodes<false>(args, stream);
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
