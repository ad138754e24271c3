// The rows of `graft bench step`: what it prints of a step's parts, and what --json gets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace graft {

// Milliseconds.
struct StepParts {
  double gemm = 0.0, lora = 0.0, attention = 0.0, rest = 0.0;

  double Total() const { return gemm + lora + attention + rest; }
};

struct StepRow {
  std::string name;
  int32_t batch = 0;    // of a decode step
  int32_t context = 0;  // likewise, and context_min
  int32_t context_min = 0;
  int32_t prompt_tokens = 0;
  double median_ms = 0.0;
  StepParts floor;  // by the bytes of a decode step: weights, adapters, keys and values
  double tokens_per_second = 0.0;
  double ratio = 0.0;        // of the base server's time per step
  double bytes_ratio = 0.0;  // what the bytes alone would give
  StepParts parts;  // of a step launched kernel by kernel, as the device sees them; the medians
};

// Several adapters: all in one batch, or one after the other on merged weights.
struct TurnsRow {
  int32_t num_adapters = 0;
  double batched_ms = 0.0;  // a step of all rows
  double merged_ms = 0.0;   // a step of one adapter's rows
  double batched_tokens_per_second = 0.0;
  double merged_tokens_per_second = 0.0;  // with a merge before each turn
};

// Columns behind a row's own: each part of the step, of a decode step with its floor.
std::string StepPartsHeader(bool with_floor);
std::string StepPartsText(const StepRow& row);

OrderedJson StepRowsJson(const std::vector<StepRow>& rows);
OrderedJson TurnsJson(const std::vector<TurnsRow>& rows);

}  // namespace graft
