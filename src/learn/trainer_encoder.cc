// An encoder (ICAE; the memory tokens of Cao and Tan): its virtual tokens stand behind
// a text, and their final hidden states become virtual tokens in front of a decoder's rows.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "learn/trainer.h"

namespace graft {
namespace {

std::vector<int32_t> RowsOf(const EncodedRows& part) {
  std::vector<int32_t> rows(static_cast<size_t>(part.num_rows));
  std::iota(rows.begin(), rows.end(), part.row);
  return rows;
}

}  // namespace

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
    on_batch(TrainingBatch(sequences, page_tokens()), rows);
    begin += sequences.size();
  }
}

std::vector<EncodedRows> Trainer::HeadParts(std::span<const EncodedRows> rows) const {
  std::vector<EncodedRows> parts;
  for (const EncodedRows& all : rows) {
    for (int32_t done = 0; done < all.num_rows; done += limits_.logits_rows_max) {
      parts.push_back({all.row + done, std::min(limits_.logits_rows_max, all.num_rows - done),
                       all.memory, all.first + done});
    }
  }
  return parts;
}

void Trainer::Encode(int32_t encoder, std::span<const EncodedText> texts) {
  ForEachEncoderBatch(encoder, texts,
                      [&](const TrainingBatch& batch, std::span<const EncodedRows> rows) {
                        if (device_ != nullptr) {
                          device_->Encode(batch, Table(), rows);
                        } else {
                          EncodeOnCpu(batch, rows);
                        }
                      });
  if (device_ != nullptr) return;
  for (const EncodedText& text : texts) prompt(text.memory)->Refresh();
}

void Trainer::EncodeOnCpu(const TrainingBatch& batch, std::span<const EncodedRows> rows) {
  transformer_->Forward(batch, Table());
  for (const EncodedRows& part : HeadParts(rows)) {
    TrainedPrompt& memory = *prompt(part.memory);
    std::copy_n(transformer_->ComputeNormed(RowsOf(part)), part.num_rows * memory.columns(),
                memory.parameters().data() + part.first * memory.columns());
  }
}

void Trainer::BackwardEncoder(int32_t encoder, std::span<const EncodedText> texts) {
  bool begins = true;
  if (device_ == nullptr) {
    if (lora(encoder) != nullptr) lora(encoder)->ZeroGradients();
    prompt(encoder)->ZeroGradients();
  }
  ForEachEncoderBatch(encoder, texts,
                      [&](const TrainingBatch& batch, std::span<const EncodedRows> rows) {
                        if (device_ != nullptr) {
                          device_->BackwardEncoded(batch, Table(), rows, begins);
                        } else {
                          BackwardEncodedOnCpu(batch, rows);
                        }
                        begins = false;
                      });
}

void Trainer::BackwardEncodedOnCpu(const TrainingBatch& batch, std::span<const EncodedRows> rows) {
  transformer_->Forward(batch, Table());
  transformer_->ZeroGradients();
  for (const EncodedRows& part : HeadParts(rows)) {
    TrainedPrompt& memory = *prompt(part.memory);
    const std::vector<int32_t> batch_rows = RowsOf(part);
    transformer_->ComputeNormed(batch_rows);  // what its backward reads
    transformer_->BackwardNormed(batch_rows,
                                 memory.gradients().data() + part.first * memory.columns());
  }
  transformer_->Backward();
}

}  // namespace graft
