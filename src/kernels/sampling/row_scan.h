// The two vectorised passes over a row of logits that sampling is made of; one copy of each per
// instruction set. Both cut the row into blocks of kScanBlock, so that what follows looks at few
// blocks instead of the whole vocabulary. Any thread, one row per call.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

inline constexpr int32_t kScanBlock = 64;

constexpr int32_t NumScanBlocks(int32_t n) { return (n + kScanBlock - 1) / kScanBlock; }

struct ScanRowArgs {
  const float* logits = nullptr;  // [n]
  int32_t n = 0;
  float* maxima = nullptr;  // [NumScanBlocks(n)]; meaningless where the block holds NaN
  bool* finite = nullptr;   // no NaN and no +Inf; -Inf is a probability of zero
};

void ScanRow(const ScanRowArgs& args, Stream& stream);

// weight = exp((logit - maximum) * inverse_temperature), zero where that is below exp(-87).
struct WeighRowArgs {
  const float* logits = nullptr;  // [n]
  int32_t n = 0;
  float maximum = 0.0f;  // finite, of the logits
  float inverse_temperature = 1.0f;
  float* weights = nullptr;  // [n], or null where only sums are wanted
  float* sums = nullptr;     // [NumScanBlocks(n)] of the weights of each block
};

void WeighRow(const WeighRowArgs& args, Stream& stream);

}  // namespace graft
