// Which tokens of a row may be drawn after temperature, top_k, top_p and min_p, and the draw. No
// filter sorts the vocabulary: a bound from block maxima or from the total weight gathers a few
// candidates that certainly hold every kept token, and selection runs among those. Any thread, one
// scratch per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sampling/sampling.h"
#include "tensor/stream.h"

namespace graft {

// One row of logits after penalties, with what ScanRow found. Logits may be -Inf, not all of them.
struct ScannedRow {
  const float* logits = nullptr;  // [n]
  int32_t n = 0;
  const float* maxima = nullptr;  // [NumScanBlocks(n)]
  float maximum = 0.0f;
};

// Candidate i is tokens[i]; ids ascend.
struct Candidates {
  std::vector<int32_t> tokens;
  std::vector<float> logits;
  std::vector<float> weights;  // exp((logit - maximum) / temperature)

  void Clear();
  // Keeps candidate i where keep(i), in order.
  template <typename Predicate>
  void KeepIf(const Predicate& keep) {
    size_t kept = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!keep(i)) continue;
      tokens[kept] = tokens[i];
      logits[kept] = logits[i];
      if (!weights.empty()) weights[kept] = weights[i];
      ++kept;
    }
    tokens.resize(kept);
    logits.resize(kept);
    if (!weights.empty()) weights.resize(kept);
  }
};

// Buffers kept between rows; they grow to the vocabulary and stay.
struct RowScratch {
  std::vector<float> adjusted;
  std::vector<float> maxima;
  std::vector<float> weights;
  std::vector<float> sums;
  std::vector<float> selection;
  std::vector<uint64_t> order;  // RankKeys
  Candidates candidates;
};

// At least the k largest logits of the row, weights empty. 1 <= k.
void GatherLargest(const ScannedRow& row, int32_t k, RowScratch& scratch, Candidates* out);

// Writes the indices of the k largest candidates, largest first and equals by lower id, to
// `ranked`. How many there are: fewer than k where there are fewer candidates.
int32_t RankLargest(const Candidates& candidates, int32_t k, RowScratch& scratch, int32_t* ranked);

// Whether the settings keep only some of the tokens.
bool HasFilter(const SamplingRow& settings, int32_t vocab_size);

// The tokens that top_k, then top_p, then min_p keep. top_k keeps the k largest and all that equal
// the k-th (as HF and vLLM do). top_p keeps the likeliest, lower ids first among equals: at least
// one, and as few as have a share of top_p or more in what top_k kept. min_p keeps those with at
// least min_p times the largest probability. Needs HasFilter and a temperature above 0.
void FilterRow(const ScannedRow& row, const SamplingRow& settings, Stream& stream,
               RowScratch& scratch, Candidates* out);

// Draws by inverse CDF in the order of ids, with RandomUniform(seed, draw_idx).
int32_t DrawToken(const ScannedRow& row, const SamplingRow& settings, Stream& stream,
                  RowScratch& scratch);

}  // namespace graft
