#include "model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "tensor/cuda_memory.h"

namespace graft {
namespace {

// Positions from one pause to the next: with large heads less than a millisecond of one core.
constexpr int64_t kPiecePositions = 512;

// Llama 3.1: long wavelengths turn `factor` times slower, short ones stay, and between the two the
// change is blended in linearly over the number of turns within the original context.
double Llama3Frequency(double frequency, const RopeConfig& rope) {
  const double turns = rope.original_tokens * frequency / (2.0 * std::numbers::pi);
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  if (turns > rope.high_freq_factor) return frequency;
  const double kept =
      (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - kept) * frequency / rope.factor + kept * frequency;
}

// YaRN: the dimensions between which frequencies pass from staying as they are to being divided, in
// the halves of a head. As HF has it, also where `high` comes before `low`.
struct YarnRamp {
  double low = 0.0;
  double high = 0.0;
};

YarnRamp YarnRampOf(const RopeConfig& rope, int32_t rotary_dim) {
  const auto dimension_of = [&](double turns) {
    return rotary_dim * std::log(rope.original_tokens / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
  };
  YarnRamp ramp{dimension_of(rope.beta_fast), dimension_of(rope.beta_slow)};
  if (rope.truncates) ramp = {std::floor(ramp.low), std::ceil(ramp.high)};
  ramp = {std::max(ramp.low, 0.0), std::min(ramp.high, rotary_dim - 1.0)};
  if (ramp.low == ramp.high) ramp.high += 0.001;
  return ramp;
}

double YarnFrequency(double frequency, int32_t dimension, const YarnRamp& ramp, double factor) {
  const double divided = std::clamp((dimension - ramp.low) / (ramp.high - ramp.low), 0.0, 1.0);
  return frequency / factor * divided + frequency * (1.0 - divided);
}

}  // namespace

std::vector<float> RopeFrequencies(const RopeConfig& rope, int32_t rotary_dim,
                                   int32_t num_positions) {
  const std::vector<double>& stretches =
      num_positions > rope.original_tokens ? rope.long_factors : rope.short_factors;
  const YarnRamp yarn =
      rope.scaling == RopeScaling::kYarn ? YarnRampOf(rope, rotary_dim) : YarnRamp{};
  std::vector<float> frequencies;
  for (int32_t i = 0; i < rotary_dim / 2; ++i) {
    double frequency = std::pow(rope.theta, -2.0 * i / rotary_dim);
    switch (rope.scaling) {
      case RopeScaling::kNone:
        break;
      case RopeScaling::kLinear:
        frequency /= rope.factor;
        break;
      case RopeScaling::kLlama3:
        frequency = Llama3Frequency(frequency, rope);
        break;
      case RopeScaling::kYarn:
        frequency = YarnFrequency(frequency, i, yarn, rope.factor);
        break;
      case RopeScaling::kNoRotation:
        frequency = 0.0;
        break;
      case RopeScaling::kLongRope:
        frequency /= stretches[static_cast<size_t>(i)];
        break;
    }
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

RopeTable::RopeTable(const RopeConfig& rope, int32_t rotary_dim, int32_t num_positions,
                     Stream& stream, const std::function<void()>& pause, bool goes_back)
    : num_positions_(num_positions) {
  const std::vector<float> frequencies = RopeFrequencies(rope, rotary_dim, num_positions);
  const auto half = static_cast<int64_t>(frequencies.size());
  const int64_t bytes = num_positions * half * int64_t{sizeof(float)};
  cos_ = Buffer(bytes);
  sin_ = Buffer(bytes);
  const auto factor = static_cast<float>(rope.attention_factor);
  float* cos = cos_.as<float>();
  float* sin = sin_.as<float>();
  const auto fill = [&](int64_t begin, int64_t end) {
    for (int64_t position = begin; position < end; ++position) {
      for (int64_t i = 0; i < half; ++i) {
        // The angle in float, as HF has it: models are trained with these very angles, and at
        // position 100,000 the exact ones are some 1e-3 away.
        const float angle = static_cast<float>(position) * frequencies[i];
        cos[position * half + i] =
            factor * static_cast<float>(std::cos(static_cast<double>(angle)));
        sin[position * half + i] =
            factor * static_cast<float>(std::sin(static_cast<double>(angle)));
      }
    }
  };
  for (int64_t first = 0; first < num_positions; first += kPiecePositions) {
    const int64_t count = std::min(kPiecePositions, num_positions - first);
    stream.cpu_threads->ParallelFor(
        count, 64, [&](int64_t begin, int64_t end) { fill(first + begin, first + end); });
    if (pause) pause();
  }
  if (goes_back) {
    back_sin_ = Buffer(bytes);
    std::transform(sin, sin + num_positions * half, back_sin_.as<float>(), std::negate());
    back_sin_ = MoveToDevice(std::move(back_sin_), stream);
  }
  cos_ = MoveToDevice(std::move(cos_), stream);
  sin_ = MoveToDevice(std::move(sin_), stream);
  if (rope.query_beta == 0.0) return;
  query_scale_ = Buffer(num_positions * int64_t{sizeof(float)});
  float* const scale = query_scale_.as<float>();
  for (int32_t position = 0; position < num_positions; ++position) {
    const double stretches = 1.0 + position / rope.original_tokens;  // whole ones
    scale[position] = static_cast<float>(1.0 + rope.query_beta * std::log(stretches));
  }
  query_scale_ = MoveToDevice(std::move(query_scale_), stream);
}

int64_t RopeTablesBytes(const ModelConfig& config, int32_t num_positions, bool go_back) {
  int64_t floats = 0;  // of a position
  for (const RopeConfig& rope : config.ropes) {
    floats += int64_t{go_back ? 3 : 2} * (config.num_rotary() / 2);
    floats += rope.query_beta == 0.0 ? 0 : 1;
  }
  return floats * num_positions * int64_t{sizeof(float)};
}

std::vector<RopeTable> MakeRopeTables(const ModelConfig& config, int32_t num_positions,
                                      Stream& stream, const std::function<void()>& pause,
                                      bool go_back) {
  std::vector<RopeTable> tables;
  for (const RopeConfig& rope : config.ropes) {
    tables.emplace_back(rope, config.num_rotary(), num_positions, stream, pause, go_back);
  }
  return tables;
}

}  // namespace graft
