// Memories by a frozen embedder and a linear map: the second kind of encoder of
// offline context learning (Cao and Tan, section 3).
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/linear_map/linear_map.h"
#include "learn/trainer.h"

namespace graft {
namespace {

// The mean of `count` rows of n, to the length 1.
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
    std::vector<size_t> counts;  // of a text's rows
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
    TakeStates(TrainingBatch(sequences, page_tokens()), rows, states.data());
    const float* next = states.data();
    for (size_t i = 0; i < counts.size(); ++i) {
      PoolRows(next, counts[i], n, vectors.data() + (begin + i) * n);
      next += counts[i] * n;
    }
    begin += sequences.size();
  }
  return vectors;
}

void Trainer::TakeStates(const TrainingBatch& batch, std::span<const int32_t> rows, float* states) {
  if (device_ != nullptr) return device_->TakeStates(batch, rows, states);
  const auto n = static_cast<size_t>(config_.hidden_size);
  transformer_->Forward(batch, {});
  for (size_t begin = 0; begin < rows.size();) {
    const size_t count =
        std::min<size_t>(static_cast<size_t>(limits_.logits_rows_max), rows.size() - begin);
    const float* normed = transformer_->ComputeNormed(rows.subspan(begin, count));
    states = std::copy_n(normed, count * n, states);
    begin += count;
  }
}

void Trainer::Map(int32_t map, std::span<const MappedRows> rows) {
  if (device_ != nullptr) return device_->Map(Table(), map, rows);
  const int64_t n = config_.hidden_size;
  for (const MappedRows& part : rows) {
    TrainedPrompt& memory = *prompt(part.memory);
    CHECK_LE(part.first + part.num_rows, memory.num_tokens());
    LinearMap({part.vectors, prompt(map)->parameters().data(),
               memory.parameters().data() + part.first * n, part.num_rows, n, n},
              stream_);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || rows[i].memory != rows[i - 1].memory) prompt(rows[i].memory)->Refresh();
  }
}

void Trainer::BackwardMap(int32_t map, std::span<const MappedRows> rows) {
  if (device_ != nullptr) return device_->BackwardMap(Table(), map, rows);
  const int64_t n = config_.hidden_size;
  TrainedPrompt& trained = *prompt(map);
  trained.ZeroGradients();
  for (const MappedRows& part : rows) {
    LinearMapGradient({part.vectors, prompt(part.memory)->gradients().data() + part.first * n,
                       trained.gradients().data(), part.num_rows, n, n},
                      stream_);
  }
}

}  // namespace graft
