// Rows of numbers rounded to codes (code_source.h), a block at a time. Codes and scales have the
// same bits on all processors: sums have as many parts whatever a vector has, and no product is
// added to something unless by FusedMultiplyAdd, so that compilers have nothing to contract.
#include "kernels/common/simd.h"
#include "kernels/gemm/code_rounding.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// What a block's range is clipped to for 4 bits, all tried: weights of a normal distribution lose
// least at 0.8 to 0.9 of the range.
constexpr float kClips[] = {1.0f,  0.97f, 0.94f, 0.91f, 0.88f, 0.85f,
                            0.82f, 0.79f, 0.76f, 0.73f, 0.70f, 0.67f};
// Parts of a sum.
constexpr int kSumLanes = 16;

Vec FusedMultiplyAdd(Vec a, Vec b, Vec c) {
#if defined(GRAFT_ISA_AVX512) || defined(GRAFT_ISA_AVX2)
  return Fma(a, b, c);
#else
  return {__builtin_fmaf(a.v, b.v, c.v)};
#endif
}

template <typename Function>
void ForEachPart(int64_t n, const Function& function) {
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    function(i, n - i < Vec::kLanes ? static_cast<int>(n - i) : Vec::kLanes);
  }
}

// NaN where a number is none.
float LargestMagnitude(const float* block, int64_t n) {
  Vec largest = Vec::Zero(), no_number = Vec::Zero();
  ForEachPart(n, [&](int64_t i, int lanes) {
    const Vec x = Vec::LoadPartial(block + i, lanes);
    largest = Max(largest, Max(x, Vec::Zero() - x));
    no_number = Fma(x, Vec::Zero(), no_number);
  });
  return largest.Max() + no_number.Sum();
}

// Codes less their middle.
Vec Centred(Vec x, Vec inverse, float middle) {
  return Max(Vec::Set(-middle), Min(Round(x * inverse), Vec::Set(middle - 1.0f)));
}

float SquaredError(const float* block, int64_t n, float scale, float middle) {
  const Vec inverse = Vec::Set(1.0f / scale);
  constexpr int kSums = kSumLanes / Vec::kLanes;
  Vec errors[kSums];
  for (Vec& error : errors) error = Vec::Zero();
  ForEachPart(n, [&](int64_t i, int lanes) {
    const Vec x = Vec::LoadPartial(block + i, lanes);
    const Vec lost = FusedMultiplyAdd(Centred(x, inverse, middle), Vec::Set(-scale), x);
    Vec& error = errors[i / Vec::kLanes % kSums];
    error = FusedMultiplyAdd(lost, lost, error);
  });
  float parts[kSumLanes];
  for (int i = 0; i < kSums; ++i) errors[i].Store(parts + i * Vec::kLanes);
  float sum = 0.0f;
  for (const float part : parts) sum += part;
  return sum;
}

// The scale is one that bf16 holds, as files have it.
float IntegerScale(const float* block, int64_t n, int32_t bits) {
  const auto middle = static_cast<float>(1 << (bits - 1));
  const float whole = LargestMagnitude(block, n) / (middle - 1.0f);
  if (bits == 8 || whole == 0.0f) return ToFloat(FromFloat<Bfloat16>(whole));
  float best = 0.0f, least = 0.0f;
  for (const float clip : kClips) {
    const float scale = ToFloat(FromFloat<Bfloat16>(whole * clip));
    const float error = SquaredError(block, n, scale, middle);
    if (best > 0.0f && error >= least) continue;
    best = scale;
    least = error;
  }
  return best;
}

// A scale with an inverse that is not finite leaves zeros.
float InverseOf(float scale) {
  const float inverse = 1.0f / scale;
  return inverse - inverse == 0.0f ? inverse : 0.0f;
}

// The nearest of NF4's numbers, the lower one where two are as near (bitsandbytes compares with the
// middles by >).
uint8_t Normal4Code(float number) {
  uint8_t code = 0;
  for (int i = 0; i < 15; ++i) {
    code += number > 0.5f * (kNormal4Numbers[i] + kNormal4Numbers[i + 1]) ? 1 : 0;
  }
  return code;
}

}  // namespace

void RoundToCodes(const RoundToCodesArgs& args, Stream& /*stream*/) {
  const WeightFormat& format = args.format;
  const auto middle = static_cast<float>(1 << (format.bits - 1));
  float* scale = args.scales;
  for (int64_t begin = 0; begin < args.k; begin += format.scale_numbers, ++scale) {
    const float* block = args.numbers + begin;
    uint8_t* codes = args.codes + begin;
    const int64_t rest = args.k - begin;
    const int64_t n = rest < format.scale_numbers ? rest : format.scale_numbers;
    if (format.codes == WeightCodes::kNormal4) {
      *scale = LargestMagnitude(block, n);
      const float inverse = InverseOf(*scale);
      for (int64_t i = 0; i < n; ++i) codes[i] = Normal4Code(block[i] * inverse);
      continue;
    }
    *scale = IntegerScale(block, n, format.bits);
    const Vec inverse = Vec::Set(InverseOf(*scale));
    ForEachPart(n, [&](int64_t i, int lanes) {
      float centred[Vec::kLanes];
      Centred(Vec::LoadPartial(block + i, lanes), inverse, middle).Store(centred);
      for (int lane = 0; lane < lanes; ++lane) {
        codes[i + lane] = static_cast<uint8_t>(static_cast<int32_t>(centred[lane] + middle));
      }
    });
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
