// CostModel: the time of steps and loads on a kind of runner, as lines that `graft profile` fits.
// Placement predicts by it, and the simulator uses it in place of computing. A decode step is a
// line over the batch times its largest rank for kernels that pad, and over the sum of ranks for
// kernels that do not (CaraServe, section 5). Plain data and pure functions; milliseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"

namespace graft {

struct CostLine {
  double base_ms = 0.0;
  double ms_per_unit = 0.0;
  double r_squared = 0.0;  // of the fit; 0: not fitted

  double At(double units) const { return base_ms + ms_per_unit * units; }
};

// The ranks of the requests in a batch, base rows having none.
struct BatchRanks {
  int64_t num_requests = 0;
  int64_t sum = 0;
  int32_t largest = 0;

  void Add(int32_t rank) {
    ++num_requests;
    sum += rank;
    if (rank > largest) largest = rank;
  }
};

// What a step computes.
struct StepWork {
  BatchRanks ranks;            // of all sequences in it
  int64_t prompt_tokens = 0;   // rows beyond one of each sequence
  int64_t context_tokens = 0;  // of all sequences; rows read their keys and values
  // Pairs of a row beyond one of its sequence and a token that it attends to, for most of what long
  // prompts take.
  int64_t prompt_pairs = 0;
  int64_t prompt_ranks = 0;  // sum of the ranks of rows beyond one of each sequence

  // A sequence that computes `rows` from `position` on.
  void Add(int32_t rank, int64_t rows, int64_t position) {
    ranks.Add(rank);
    prompt_tokens += rows - 1;
    context_tokens += position + rows;
    prompt_pairs += (rows - 1) * (position + rows / 2);
    prompt_ranks += (rows - 1) * rank;
  }
};

// What serving adds to the executor's steps: the engine, the frontend and the messages between
// them, as a client sees it.
struct ServedCosts {
  // From a request to its first token, beyond its step, at a runner that was idle.
  double first_token_ms = 0.0;
  // What a step with one row takes more, and each further row. Below 0 where the engine hides time
  // that shows when a step is timed alone.
  double step_ms = 0.0;
  double ms_per_row = 0.0;
  // How many times as long steps take while i + 1 runners of one machine compute and share its
  // cores, caches and memory; the first is 1. Empty: not measured.
  std::vector<double> decode_slowness;
  std::vector<double> prompt_slowness;  // of what prompts' tokens take in a step

  // Beyond the number measured, all runners share what the runners of that number get.
  double DecodeSlowness(int32_t num_busy) const { return SlownessOf(decode_slowness, num_busy); }
  double PromptSlowness(int32_t num_busy) const { return SlownessOf(prompt_slowness, num_busy); }

 private:
  static double SlownessOf(const std::vector<double>& measured, int32_t num_busy);
};

struct CostModel {
  // Kernels pad: a step's units of LoRA are its batch times the largest rank. Else the sum of
  // ranks.
  bool pads = false;
  // CaraServe's two models: a decode step over units of LoRA, a prompt over its tokens. Without a
  // file: what one H200 takes for Llama-2-7B at contexts of 512, from docs/benchmarks.md.
  CostLine decode = {5.0, 0.0035};
  CostLine prompt = {4.6, 0.0225};
  // All parts of a step at once.
  double step_ms = 4.6;
  double step_ms_per_row = 0.005;
  double step_ms_per_unit = 0.0023;
  double step_ms_per_prompt_token = 0.0225;
  double step_ms_per_context_token = 6e-5;
  double step_ms_per_prompt_pair = 0.0;
  double step_ms_per_prompt_unit = 0.0;
  // What a step takes more with any adapter in it, and with any prompt: on a GPU the first launches
  // kernels that others do not need, and the second is launched kernel by kernel.
  double step_ms_with_adapters = 0.0;
  double step_ms_with_prompts = 0.0;
  double step_r_squared = 0.0;
  // An adapter's way to the device, from the host's memory.
  double load_ms = 1.0;
  double load_ms_per_rank = 0.1;
  // And before that from its folder into the host's memory, on average over all loads; 0: it is
  // there from the start.
  double fetch_ms = 0.0;
  ServedCosts served;

  double UnitsOf(const BatchRanks& ranks) const {
    return static_cast<double>(pads ? ranks.num_requests * ranks.largest : ranks.sum);
  }
  // The same of prompts' further rows.
  double PromptUnitsOf(const StepWork& work) const {
    return static_cast<double>(pads ? work.prompt_tokens * work.ranks.largest : work.prompt_ranks);
  }
  double DecodeMs(const BatchRanks& ranks) const { return decode.At(UnitsOf(ranks)); }
  // A step in the executor alone.
  double ExecutorMs(const StepWork& work) const {
    return step_ms + step_ms_per_row * static_cast<double>(work.ranks.num_requests) +
           step_ms_per_unit * UnitsOf(work.ranks) + PromptMs(work) +
           (work.ranks.sum > 0 ? step_ms_with_adapters : 0.0) +
           step_ms_per_context_token * static_cast<double>(work.context_tokens);
  }
  // A step as it is served; never below a tenth of the executor's, however little was measured.
  double StepMs(const StepWork& work) const {
    const double executor_ms = ExecutorMs(work);
    const double served_ms =
        served.step_ms + served.ms_per_row * static_cast<double>(work.ranks.num_requests - 1);
    return std::max(executor_ms + served_ms, 0.1 * executor_ms);
  }
  // The part of a step that its prompts' tokens take.
  double PromptMs(const StepWork& work) const {
    if (work.prompt_tokens == 0) return 0.0;
    return step_ms_with_prompts +
           step_ms_per_prompt_token * static_cast<double>(work.prompt_tokens) +
           step_ms_per_prompt_pair * static_cast<double>(work.prompt_pairs) +
           step_ms_per_prompt_unit * PromptUnitsOf(work);
  }
  // What a request's prompt takes of the steps that compute it: so many tokens after those that are
  // cached, by its rank, in steps with `largest_rank` as the largest. Numbers may be means.
  double PromptMsOf(double tokens, double cached_tokens, double rank, double largest_rank) const {
    if (tokens <= 0.0) return 0.0;
    return step_ms_with_prompts +
           tokens * PromptTokenMs(cached_tokens + tokens / 2.0, rank, largest_rank);
  }
  // What one of its tokens takes, which attends to so many before it.
  double PromptTokenMs(double tokens_before, double rank, double largest_rank) const {
    return step_ms_per_prompt_token + step_ms_per_prompt_pair * tokens_before +
           step_ms_per_prompt_unit * (pads ? std::max(rank, largest_rank) : rank);
  }
  // What padding takes of a step: rows below the largest rank are computed as if they had it.
  double PaddingMs(const BatchRanks& ranks) const {
    return pads ? step_ms_per_unit * (UnitsOf(ranks) - static_cast<double>(ranks.sum)) : 0.0;
  }
  double LoadMs(int32_t rank) const { return load_ms + load_ms_per_rank * rank; }
};

// The line with the least squares; through their mean where all `units` are the same. As many units
// as times, one at least.
CostLine FitLine(std::span<const double> units, std::span<const double> ms);

// The share of the variance of `ms` that `predicted` explains; 1 where there is none to explain.
double RSquared(std::span<const double> ms, std::span<const double> predicted);

// Coefficients of the columns that minimise the squared relative errors, so that short steps, which
// are most of a request, count as much as long ones. No coefficient is negative: a column that
// would need a negative one is left out. Each row has one value for each coefficient, and a time
// above 0. kInvalidArgument: there are too few rows, or columns depend on each other.
Result<std::vector<double>> FitColumns(const std::vector<std::vector<double>>& rows,
                                       std::span<const double> ms);

OrderedJson ToJson(const CostModel& costs);
// kInvalidArgument names the field that is missing, no number or negative.
Result<CostModel> CostModelFromJson(const Json& json);
// What `graft profile` wrote; its other fields are for people.
Result<CostModel> ReadCostModel(const std::string& path);

}  // namespace graft
