// Virtual tokens: what stands in front of sequences, where it begins, and its gradients.
#include "base/check.h"
#include "kernels/embedding/embedding.h"
#include "kernels/virtual_embedding/virtual_embedding.h"
#include "learn/gpu_training.h"
#include "tensor/cuda_memory.h"

namespace graft {

void GpuTraining::ListPrompts() {
  std::vector<VirtualRows> rows;
  for (const auto& prompt : prompts_) rows.push_back(prompt == nullptr ? nullptr : prompt->rows(0));
  virtual_rows_ = OnDevice(rows, stream_);
}

void GpuTraining::Embed() {
  Embedding({.table = weights_.embedding.data(),
             .dtype = dtype_,
             .vocab_size = config_.vocab_size,
             .tokens = batch_.tokens,
             .out = hidden_.as<float>(),
             .num_tokens = batch_.num_rows,
             .n = config_.hidden_size},
            stream_);
  VirtualEmbedding({.table = virtual_rows_.as<VirtualRows>(),
                    .dtype = dtype_,
                    .runs = batch_.embeddings,
                    .num_runs = batch_.num_embeddings,
                    .run_tokens_max = batch_.run_tokens_max,
                    .out = hidden_.as<float>(),
                    .n = config_.hidden_size},
                   stream_);
}

void GpuTraining::AddEmbeddingGradients() {
  VirtualGradient({.items = batch_.prompt_gradients,
                   .num_items = batch_.num_prompts,
                   .num_tokens_max = batch_.run_tokens_max,
                   .places = batch_.prompt_places,
                   .x = d_hidden_.as<float>(),
                   .n = config_.hidden_size,
                   .gradient_stride = config_.hidden_size},
                  stream_);
}

void GpuTraining::BeginPrompt(const TrainingBatch& batch, TrainedPrompt& prompt) {
  CHECK(prompt.kind() == VirtualTokenKind::kEmbedding);
  CHECK_EQ(batch.num_rows(), prompt.num_tokens());
  PutBatch(batch, {});
  Embed();
  CopyFromDevice(prompt.parameters().data(), hidden_.data(),
                 static_cast<int64_t>(prompt.parameters().size_bytes()), stream_);
  Synchronize(stream_);
}

}  // namespace graft
