// Memories by a frozen embedder and a linear map, the second kind of encoder of offline context
// learning (Cao and Tan, section 3).
#include <cmath>

#include "learn/trainer.h"

namespace graft {
namespace {

// The mean of `count` rows of n, scaled to length 1.
void PoolRows(const float* states, size_t count, size_t n, float* out) {
  std::vector<double> sums(n);
  for (size_t row = 0; row < count; ++row) {
    for (size_t i = 0; i < n; ++i) sums[i] += static_cast<double>(states[row * n + i]);
  }
  double squares = 0.0;
  for (const double sum : sums) squares += sum * sum;
  const double scale = squares > 0.0 ? 1.0 / std::sqrt(squares) : 0.0;
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>(sums[i] * scale);
}

}  // namespace

std::vector<float> Trainer::Embed(std::span<const std::span<const int32_t>> texts,
                                  StatePooling pooling) {
  const auto n = static_cast<size_t>(config_.hidden_size);
  std::vector<float> vectors(texts.size() * n);
  for (size_t begin = 0; begin < texts.size();) {
    std::vector<TrainingSequence> sequences;
    std::vector<int32_t> rows;
    std::vector<size_t> counts;  // rows of each text
    int32_t num_rows = 0;
    for (size_t i = begin; i < texts.size(); ++i) {
      const auto tokens = static_cast<int32_t>(texts[i].size());
      const bool is_full = num_rows + tokens > limits_.rows_max ||
                           static_cast<int32_t>(sequences.size()) == limits_.sequences_max;
      if (is_full && !sequences.empty()) break;
      sequences.push_back({.tokens = texts[i]});
      counts.push_back(pooling == StatePooling::kMean ? texts[i].size() : 1);
      for (auto row = static_cast<int32_t>(counts.back()); row > 0; --row) {
        rows.push_back(num_rows + tokens - row);
      }
      num_rows += tokens;
    }
    std::vector<float> states(rows.size() * n);
    device_->TakeStates(TrainingBatch(sequences, device_->page_tokens()), rows, states.data());
    const float* next = states.data();
    for (size_t i = 0; i < counts.size(); ++i) {
      PoolRows(next, counts[i], n, vectors.data() + (begin + i) * n);
      next += counts[i] * n;
    }
    begin += sequences.size();
  }
  return vectors;
}

void Trainer::Map(int32_t map, std::span<const MappedRows> rows) { device_->Map(map, rows); }

void Trainer::BackwardMap(int32_t map, std::span<const MappedRows> rows) {
  device_->BeginGradients({&map, 1});
  device_->BackwardMap(map, rows);
}

}  // namespace graft
