// An encoder (ICAE; the memory tokens of 002_d7cecee0a3a0e3c5.txt): its virtual tokens stand behind
// a text, and their final hidden states become virtual tokens in front of a decoder's rows.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "learn/trainer.h"

namespace graft {

void Trainer::ForwardEncoder(int32_t encoder, std::span<const EncodedText> texts,
                             const OnEncoded& on_encoded) {
  const auto index = static_cast<size_t>(encoder);
  CHECK(adapters_[index].prompt != nullptr &&
        adapters_[index].prompt->kind() == VirtualTokenKind::kEmbedding);
  const SequencePrompt behind = {encoder, VirtualTokenKind::kEmbedding,
                                 adapters_[index].prompt->num_tokens(), /*is_behind=*/true};
  for (size_t begin = 0; begin < texts.size();) {
    std::vector<TrainingSequence> sequences;
    std::vector<int32_t> first_rows;  // of the virtual tokens
    int32_t num_rows = 0;
    for (size_t i = begin; i < texts.size(); ++i) {
      const TrainingSequence sequence{.tokens = texts[i].tokens,
                                      .adapter = lora(encoder) != nullptr ? encoder : -1,
                                      .prompt = behind};
      const bool is_full = num_rows + sequence.num_rows() > limits_.rows_max ||
                           static_cast<int32_t>(sequences.size()) == limits_.sequences_max;
      if (is_full && !sequences.empty()) break;
      sequences.push_back(sequence);
      first_rows.push_back(num_rows + static_cast<int32_t>(texts[i].tokens.size()));
      num_rows += sequence.num_rows();
    }
    const TrainingBatch batch(sequences, transformer_->page_tokens());
    transformer_->Forward(batch, Table());
    on_encoded(texts.subspan(begin, sequences.size()), first_rows);
    begin += sequences.size();
  }
}

void Trainer::Encode(int32_t encoder, std::span<const EncodedText> texts) {
  const int32_t count = prompt(encoder)->num_tokens();
  ForwardEncoder(encoder, texts,
                 [&](std::span<const EncodedText> part, std::span<const int32_t> first_rows) {
                   for (size_t i = 0; i < part.size(); ++i) {
                     TrainedPrompt& memory = *prompt(part[i].memory);
                     CHECK_LE(part[i].first + count, memory.num_tokens());
                     for (int32_t done = 0; done < count;) {
                       std::vector<int32_t> rows(
                           static_cast<size_t>(std::min(limits_.logits_rows_max, count - done)));
                       std::iota(rows.begin(), rows.end(), first_rows[i] + done);
                       const float* normed = transformer_->ComputeNormed(rows);
                       const int64_t at = (part[i].first + done) * memory.columns();
                       std::copy_n(normed, rows.size() * static_cast<size_t>(memory.columns()),
                                   memory.parameters().data() + at);
                       done += static_cast<int32_t>(rows.size());
                     }
                   }
                 });
  for (const EncodedText& text : texts) prompt(text.memory)->Refresh();
}

void Trainer::BackwardEncoder(int32_t encoder, std::span<const EncodedText> texts) {
  if (lora(encoder) != nullptr) lora(encoder)->ZeroGradients();
  prompt(encoder)->ZeroGradients();
  const int32_t count = prompt(encoder)->num_tokens();
  ForwardEncoder(encoder, texts,
                 [&](std::span<const EncodedText> part, std::span<const int32_t> first_rows) {
                   transformer_->ZeroGradients();
                   for (size_t i = 0; i < part.size(); ++i) {
                     TrainedPrompt& memory = *prompt(part[i].memory);
                     for (int32_t done = 0; done < count;) {
                       std::vector<int32_t> rows(
                           static_cast<size_t>(std::min(limits_.logits_rows_max, count - done)));
                       std::iota(rows.begin(), rows.end(), first_rows[i] + done);
                       transformer_->ComputeNormed(rows);  // what its backward reads
                       const int64_t at = (part[i].first + done) * memory.columns();
                       transformer_->BackwardNormed(rows, memory.gradients().data() + at);
                       done += static_cast<int32_t>(rows.size());
                     }
                   }
                   transformer_->Backward([](int32_t, float*) {});
                 });
}

}  // namespace graft
