// The rows of `graft-bench step`: what it prints of a step's parts, and what --json gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "layers/gpu_exchange.h"
#include "options/option.h"

namespace graft {

// Milliseconds.
struct StepParts {
  double gemm = 0.0, lora = 0.0, attention = 0.0, rest = 0.0;

  double Total() const { return gemm + lora + attention + rest; }
};

// What steps with drafts bring if a draft is right, after others were, with this probability.
struct DraftsRow {
  double acceptance = 0.0;
  double tokens = 0.0;  // of a sequence's step, on average
  double ratio = 0.0;   // of the tokens per second of steps without drafts
};

struct StepRow {
  std::string name;
  int32_t batch = 0;    // of a decode step
  int32_t context = 0;  // of a decode step, as context_min
  int32_t context_min = 0;
  int32_t prompt_tokens = 0;
  double median_ms = 0.0;
  StepParts floor;  // by the bytes of a decode step: weights, adapters, keys and values
  double tokens_per_second = 0.0;
  double ratio = 0.0;        // of the base server's time per step
  double bytes_ratio = 0.0;  // what the bytes alone would give
  std::vector<DraftsRow> drafts;
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

// A decode step's title and columns; and a row of them.
std::string DecodeHeader(int32_t batch, int32_t context_min, int32_t context, int32_t prompt_tokens,
                         double gbytes_per_s);
std::string DecodeRowText(const StepRow& row);

// step_ratio: a step's time without drafts by its time with them.
std::vector<DraftsRow> SpeedupsOfDrafts(int32_t num_drafts, double step_ratio,
                                        const std::vector<double>& acceptance);
std::string DraftsText(const std::vector<DraftsRow>& rows);

OrderedJson StepRowsJson(const std::vector<StepRow>& rows);
OrderedJson TurnsJson(const std::vector<TurnsRow>& rows);

// One rank of several, alone (LoadRankAlone): what is said of the others, and its options. "" of
// one.
std::string RankOfText(int rank_of, size_t num_exchanges, const LinkModel& link);
OrderedJson RankOfJson(int rank_of, const LinkModel& link);
std::vector<Option> RankOfOptionRows(int& rank_of, LinkModel& link);

}  // namespace graft
