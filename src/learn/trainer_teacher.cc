// What the base has in its hidden states with a document in its context, for examples that are to
// come near to that (Deep Context Distillation).
#include <algorithm>

#include "base/check.h"
#include "learn/trainer.h"

namespace graft {

// One example at a time: each has its own window before it.
void Trainer::TakeTeacherStates(std::span<TrainingExample> examples, bool all_layers) {
  const auto n = static_cast<size_t>(config_.hidden_size);
  const auto num_boundaries = all_layers ? static_cast<size_t>(config_.num_layers) + 1 : size_t{1};
  for (TrainingExample& example : examples) {
    if (example.teacher_prompt.empty()) continue;
    std::vector<int32_t> tokens = example.teacher_prompt;
    tokens.insert(tokens.end(), example.tokens.begin() + example.num_replaced,
                  example.tokens.end());
    const int32_t shift =
        static_cast<int32_t>(example.teacher_prompt.size()) - example.num_replaced;
    std::vector<int32_t> rows;
    for (const int32_t row : example.rows) rows.push_back(row + shift);
    const TrainingSequence sequence{.tokens = tokens};
    const TrainingBatch batch({&sequence, 1}, page_tokens());
    example.hidden.resize(num_boundaries * rows.size() * n);
    TakeStates(batch, rows, all_layers, example.hidden.data());
  }
}

void Trainer::TakeStates(const TrainingBatch& batch, std::span<const int32_t> rows, bool all,
                         float* states) {
  if (device_ != nullptr) return device_->TakeStates(batch, rows, all, states);
  const auto n = static_cast<size_t>(config_.hidden_size);
  transformer_->Forward(batch, {});
  for (int32_t layer = 0; all && layer < config_.num_layers; ++layer) {
    for (const int32_t row : rows) {
      states = std::copy_n(transformer_->hidden(layer) + static_cast<size_t>(row) * n, n, states);
    }
  }
  for (size_t begin = 0; begin < rows.size();) {
    const size_t count =
        std::min<size_t>(static_cast<size_t>(limits_.logits_rows_max), rows.size() - begin);
    const float* normed = transformer_->ComputeNormed(rows.subspan(begin, count));
    states = std::copy_n(normed, count * n, states);
    begin += count;
  }
}

}  // namespace graft
