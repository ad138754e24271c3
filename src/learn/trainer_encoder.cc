// An encoder (ICAE; the memory tokens of Cao and Tan) has virtual tokens behind a text. Their final
// hidden states become virtual tokens in front of a decoder's rows.
#include "base/check.h"
#include "learn/trainer.h"

namespace graft {
void Trainer::ForEachEncoderBatch(int32_t encoder, std::span<const EncodedText> texts,
                                  const OnEncoderBatch& on_batch) {
  const Adapter& adapter = adapters_[static_cast<size_t>(encoder)];
  CHECK(adapter.prompt != nullptr && adapter.prompt->kind() == VirtualTokenKind::kEmbedding);
  const int32_t count = adapter.prompt->num_tokens();
  for (size_t begin = 0; begin < texts.size();) {
    std::vector<TrainingSequence> sequences;
    std::vector<EncodedRows> rows;
    int32_t num_rows = 0;
    for (size_t i = begin; i < texts.size(); ++i) {
      const TrainingSequence sequence{
          .tokens = texts[i].tokens,
          .adapter = adapter.lora != nullptr ? encoder : -1,
          .prompt = {encoder, VirtualTokenKind::kEmbedding, count, /*is_behind=*/true}};
      const bool is_full = num_rows + sequence.num_rows() > limits_.rows_max ||
                           static_cast<int32_t>(sequences.size()) == limits_.sequences_max;
      if (is_full && !sequences.empty()) break;
      const Adapter& memory = adapters_[static_cast<size_t>(texts[i].memory)];
      CHECK_LE(texts[i].first + count, memory.prompt->num_tokens());
      sequences.push_back(sequence);
      rows.push_back({num_rows + static_cast<int32_t>(texts[i].tokens.size()), count,
                      texts[i].memory, texts[i].first});
      num_rows += sequence.num_rows();
    }
    on_batch(TrainingBatch(sequences, device_->page_tokens()), rows);
    begin += sequences.size();
  }
}

void Trainer::Encode(int32_t encoder, std::span<const EncodedText> texts) {
  ForEachEncoderBatch(encoder, texts,
                      [&](const TrainingBatch& batch, std::span<const EncodedRows> rows) {
                        device_->Encode(batch, rows);
                      });
}

void Trainer::BackwardEncoder(int32_t encoder, std::span<const EncodedText> texts) {
  device_->BeginGradients({&encoder, 1});
  ForEachEncoderBatch(encoder, texts,
                      [&](const TrainingBatch& batch, std::span<const EncodedRows> rows) {
                        device_->BackwardEncoded(batch, rows);
                      });
}

}  // namespace graft
