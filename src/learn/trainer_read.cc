// An encoder with memories of keys and values: rows of a text that it reads become a prefix of
// every layer. And what a model says behind examples' rows.
#include "base/check.h"
#include "learn/trainer.h"

namespace graft {

void Trainer::ForEachReadBatch(int32_t encoder, std::span<const ReadText> texts,
                               const OnReadBatch& on_batch) {
  const Adapter& adapter = adapters_[static_cast<size_t>(encoder)];
  SequencePrompt behind;
  if (adapter.prompt != nullptr) {
    CHECK(adapter.prompt->kind() == VirtualTokenKind::kEmbedding);
    behind = {encoder, VirtualTokenKind::kEmbedding, adapter.prompt->num_tokens(),
              /*is_behind=*/true};
  }
  for (size_t begin = 0; begin < texts.size();) {
    std::vector<TrainingSequence> sequences;
    std::vector<EncodedKeysValues> rows;
    int32_t num_rows = 0;
    for (size_t i = begin; i < texts.size(); ++i) {
      const TrainingSequence sequence{.tokens = texts[i].tokens,
                                      .adapter = adapter.lora != nullptr ? encoder : -1,
                                      .prompt = texts[i].is_between ? SequencePrompt() : behind,
                                      .between = texts[i].is_between ? encoder : -1};
      const bool is_full = num_rows + sequence.num_rows() > limits_.rows_max ||
                           static_cast<int32_t>(sequences.size()) == limits_.sequences_max;
      if (is_full && !sequences.empty()) break;
      for (const ReadText::Row& row : texts[i].rows) {
        CHECK_LT(row.row, sequence.num_rows());
        rows.push_back({num_rows + row.row, row.row, row.position, texts[i].memory, row.token});
      }
      sequences.push_back(sequence);
      num_rows += sequence.num_rows();
    }
    on_batch(TrainingBatch(sequences, device_->page_tokens()), rows);
    begin += sequences.size();
  }
}

void Trainer::EncodeKeysValues(int32_t encoder, std::span<const ReadText> texts) {
  ForEachReadBatch(encoder, texts,
                   [&](const TrainingBatch& batch, std::span<const EncodedKeysValues> rows) {
                     device_->EncodeKeysValues(batch, rows);
                   });
}

void Trainer::BackwardKeysValues(int32_t encoder, std::span<const ReadText> texts) {
  device_->BeginGradients({&encoder, 1});
  ForEachReadBatch(encoder, texts,
                   [&](const TrainingBatch& batch, std::span<const EncodedKeysValues> rows) {
                     device_->BackwardKeysValues(batch, rows);
                   });
}

std::vector<TrainingChoices> Trainer::Choose(std::span<const TrainingExample* const> examples,
                                             int32_t num_choices, bool with_adapters) {
  std::vector<TrainingChoices> all(examples.size());
  for (size_t begin = 0; begin < examples.size();) {
    std::vector<TrainingSequence> sequences;
    std::vector<int32_t> rows;
    int32_t num_rows = 0;
    for (size_t i = begin; i < examples.size(); ++i) {
      const TrainingExample& example = *examples[i];
      CHECK_EQ(example.adapter, examples[0]->adapter) << "one adapter's examples at a time";
      const TrainingSequence sequence = SequenceOf(example, with_adapters ? example.adapter : -1);
      const bool is_full = num_rows + sequence.num_rows() > limits_.rows_max ||
                           static_cast<int32_t>(sequences.size()) == limits_.sequences_max;
      if (is_full && !sequences.empty()) break;
      for (const int32_t row : example.rows) {
        rows.push_back(num_rows + sequence.num_before() + row);
      }
      sequences.push_back(sequence);
      num_rows += sequence.num_rows();
    }
    const TrainingChoices chosen =
        device_->Choose(TrainingBatch(sequences, device_->page_tokens()), rows, num_choices);
    auto id = chosen.ids.begin();
    auto probability = chosen.probabilities.begin();
    for (size_t i = begin; i < begin + sequences.size(); ++i) {
      const auto count = static_cast<std::ptrdiff_t>(examples[i]->rows.size()) * num_choices;
      all[i].ids.assign(id, id + count);
      all[i].probabilities.assign(probability, probability + count);
      id += count;
      probability += count;
    }
    begin += sequences.size();
  }
  return all;
}

}  // namespace graft
