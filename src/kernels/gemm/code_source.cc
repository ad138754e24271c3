#include "kernels/gemm/code_source.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/check.h"

namespace graft {
namespace {

// A clip of a block's range by so many steps of this size is tried for 4 bits: weights of a normal
// distribution lose least at 0.8 to 0.9 of the range.
constexpr int kClipSteps = 12;
constexpr float kClipStep = 0.03f;

float LargestMagnitude(std::span<const float> block) {
  float largest = 0.0f;
  for (const float number : block) largest = std::max(largest, std::fabs(number));
  return largest;
}

uint8_t IntegerCode(float number, float inverse, int32_t middle) {
  const auto limit = static_cast<float>(middle);
  const float rounded = std::nearbyintf(number * inverse);
  return static_cast<uint8_t>(middle +
                              static_cast<int32_t>(std::clamp(rounded, -limit, limit - 1.0f)));
}

double SquaredError(std::span<const float> block, float scale, int32_t middle) {
  double error = 0.0;
  for (const float number : block) {
    const int32_t code = IntegerCode(number, 1.0f / scale, middle);
    const double difference = number - scale * static_cast<float>(code - middle);
    error += difference * difference;
  }
  return error;
}

// Symmetric integers have one code more below zero than above, which is used where the largest
// magnitude is negative: a scale of either sign is tried.
float IntegerScale(std::span<const float> block, int32_t bits) {
  const int32_t middle = 1 << (bits - 1);
  const float largest = LargestMagnitude(block);
  if (largest == 0.0f) return 0.0f;
  if (bits == 8) return largest / 127.0f;
  float best = 0.0f;
  double least = 0.0;
  for (int step = 0; step < kClipSteps; ++step) {
    const float clipped = largest * (1.0f - kClipStep * static_cast<float>(step));
    for (const float sign : {1.0f, -1.0f}) {
      const float scale = sign * clipped / static_cast<float>(middle);
      const double error = SquaredError(block, scale, middle);
      if (best != 0.0f && error >= least) continue;
      best = scale;
      least = error;
    }
  }
  return best;
}

// The nearest of NF4's numbers, the lower one where two are as near (bitsandbytes' comparisons with
// the middles are by >).
uint8_t Normal4Code(float number) {
  uint8_t code = 0;
  while (code < 15 && number > 0.5f * (kNormal4Numbers[code] + kNormal4Numbers[code + 1])) ++code;
  return code;
}

}  // namespace

void RoundedCodes::ReadRow(int64_t n, uint8_t* codes, CodeScale* scales) const {
  CHECK(!format_.has_zero_points);
  static thread_local std::vector<float> row;
  row.resize(static_cast<size_t>(k()));
  numbers_.Read(n, 0, k(), DType::kF32, reinterpret_cast<char*>(row.data()));
  const int32_t middle = 1 << (format_.bits - 1);
  for (int64_t begin = 0; begin < k(); begin += format_.scale_numbers, ++scales) {
    const int64_t end = std::min(k(), begin + format_.scale_numbers);
    const std::span block(row.data() + begin, static_cast<size_t>(end - begin));
    const bool is_normal = format_.codes == WeightCodes::kNormal4;
    scales->scale = is_normal ? LargestMagnitude(block) : IntegerScale(block, format_.bits);
    const float inverse = scales->scale == 0.0f ? 0.0f : 1.0f / scales->scale;
    for (int64_t i = begin; i < end; ++i) {
      codes[i] = is_normal ? Normal4Code(row[i] * inverse) : IntegerCode(row[i], inverse, middle);
    }
  }
}

float NumberOfCode(const WeightFormat& format, uint8_t code, const CodeScale& scale) {
  if (format.codes == WeightCodes::kNormal4) return scale.scale * kNormal4Numbers[code];
  const float zero =
      format.has_zero_points ? scale.zero : static_cast<float>(1 << (format.bits - 1));
  return scale.scale * (static_cast<float>(code) - zero);
}

}  // namespace graft
