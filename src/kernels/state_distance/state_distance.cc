#include "kernels/state_distance/state_distance.h"

#include <cmath>

#include "base/check.h"

namespace graft {

void StateDistanceCuda(const StateDistanceArgs& args, Stream& stream);
void StateGradientCuda(const StateGradientArgs& args, Stream& stream);

namespace {

void AddDistance(const StateDistanceArgs& args, int64_t target) {
  const int64_t row = args.rows == nullptr ? target : args.rows[target];
  const float* const states = args.states + row * args.n;
  const float* const taught = args.taught + target * args.n;
  double sum = 0.0;
  for (int64_t i = 0; i < args.n; ++i) {
    const float difference = states[i] - taught[i];
    sum += std::fabs(static_cast<double>(difference));
    if (args.signs == nullptr) continue;
    const int sign = static_cast<int>(difference > 0.0f) - static_cast<int>(difference < 0.0f);
    args.signs[target * args.n + i] = static_cast<int8_t>(sign);
  }
  args.losses[target] += sum * args.shares[target];
}

void AddGradient(const StateGradientArgs& args, int64_t target) {
  const int64_t row = args.rows == nullptr ? target : args.rows[target];
  const auto share = static_cast<float>(args.shares[target]);
  float* const d_states = args.d_states + row * args.n;
  for (int64_t i = 0; i < args.n; ++i) {
    d_states[i] += share * static_cast<float>(args.signs[target * args.n + i]);
  }
  if (args.copy == nullptr) return;
  char* const copy = static_cast<char*>(args.copy) + row * args.n * DTypeBytes(args.copy_dtype);
  ConvertElements(DType::kF32, d_states, args.copy_dtype, copy, args.n);
}

}  // namespace

void StateDistance(const StateDistanceArgs& args, Stream& stream) {
  CHECK_GE(args.num_targets, 0);
  if (args.num_targets == 0) return;
  CHECK(args.states != nullptr && args.taught != nullptr && args.shares != nullptr &&
        args.losses != nullptr && args.n > 0);
  if (!stream.device.is_cpu()) {
    if constexpr (kHasCuda) StateDistanceCuda(args, stream);
    return;
  }
  stream.cpu_threads->ParallelFor(args.num_targets, 1, [&](int64_t begin, int64_t end) {
    for (int64_t target = begin; target < end; ++target) {
      if (args.shares[target] != 0.0) AddDistance(args, target);
    }
  });
}

void StateGradient(const StateGradientArgs& args, Stream& stream) {
  CHECK_GE(args.num_targets, 0);
  if (args.num_targets == 0) return;
  CHECK(args.signs != nullptr && args.shares != nullptr && args.d_states != nullptr && args.n > 0);
  if (!stream.device.is_cpu()) {
    if constexpr (kHasCuda) StateGradientCuda(args, stream);
    return;
  }
  stream.cpu_threads->ParallelFor(args.num_targets, 1, [&](int64_t begin, int64_t end) {
    for (int64_t target = begin; target < end; ++target) {
      if (args.shares[target] != 0.0) AddGradient(args, target);
    }
  });
}

}  // namespace graft
