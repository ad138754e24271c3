#include "layers/head.h"

#include <algorithm>

#include "kernels/embedding/embedding.h"
#include "kernels/lora/lora.h"
#include "kernels/scaled_add/scaled_add.h"
#include "kernels/soft_cap/soft_cap.h"

namespace graft {

Head::Head(LayerContext& context, const Buffer& norm, const GemmWeight& words, const float* bias)
    : context_(context),
      norm_(norm, context.shape.hidden_size, context.shape.rms_norm_epsilon, context.shape.norm),
      words_(words),
      bias_(bias) {}

void Head::Run(std::span<const int32_t> rows, int32_t num_rows, const LayerStep& step,
               void* kept) const {
  if (rows.empty()) return;
  LayerScratch& scratch = context_.scratch;
  Stream& stream = step.stream;
  const auto num_picked = static_cast<int64_t>(rows.size());
  Pick(rows, num_rows, stream);
  norm_.Run(scratch.picked.as<float>(), num_picked, context_.activations,
            scratch.logits_normed.data(), stream, kept);
  {
    const StreamTimer::Scope scope = step.Time(&ForwardTimes::gemm_ns);
    Multiply(num_picked, stream);
  }
  if (!step.batch.head_segments.empty()) {
    const StreamTimer::Scope scope = step.Time(&ForwardTimes::lora_ns);
    AddLora(num_picked, step);
  }
  ScaleAndCap(num_picked, stream);
  if (!context_.exchanges.has_ranks()) return;
  context_.exchanges.Gather(num_picked, context_.shape.vocab_size, scratch.logits.as<float>(),
                            stream);
}

void Head::Back(const HeadBack& back, Stream& stream) const {
  const auto num_rows = static_cast<int64_t>(back.rows.size());
  GemmArgs gemm = back.words;
  gemm.x = back.d_logits;
  gemm.x_stride = words_.n();
  gemm.m = num_rows;
  gemm.y = back.d_normed;
  gemm.y_stride = words_.k();
  gemm.x_is_fp32 = context_.activations == DType::kF32;
  Gemm(gemm, stream);
  norm_.Back({.kept = back.kept,
              .dtype = context_.activations,
              .d_out = back.d_normed,
              .d_x = back.d_hidden,
              .d_x_copy = back.d_hidden_copy,
              .copy_scale = back.copy_scale,
              .rows = back.rows.data(),
              .num_rows = num_rows},
             stream);
}

float* Head::OwnLogits() const {
  return context_.exchanges.PartOf({context_.scratch.logits.as<float>(), false}).y;
}

// For the words of this rank.
void Head::Multiply(int64_t num_rows, Stream& stream) const {
  Gemm({.x = context_.scratch.logits_normed.data(),
        .x_stride = context_.shape.hidden_size,
        .m = num_rows,
        .weight = &words_,
        .y = OwnLogits(),
        .y_stride = words_.n(),
        .epilogue = {.bias = bias_},
        .x_is_fp32 = context_.activations == DType::kF32},
       stream);
}

// The blocks of words are slices that share x, as many a launch as it takes. They have one A, so
// that h is computed once for each of them: x is short beside the words.
void Head::AddLora(int64_t num_rows, const LayerStep& step) const {
  const ModelShape& shape = context_.shape;
  const LoraTable& table = step.batch.lora;
  const int64_t block_words = shape.head_block_words();
  const int64_t num_blocks = (words_.n() + block_words - 1) / block_words;
  for (int64_t block = 0; block < num_blocks; block += kLoraSlicesMax) {
    LoraArgs lora{
        .dtype = context_.types.adapters,
        .segments = step.batch.head_segments.data(),
        .num_segments = static_cast<int32_t>(step.batch.head_segments.size()),
        .matrices = table.matrices + shape.head_matrix() + block,
        .matrices_stride = table.stride,
        .num_slices = static_cast<int32_t>(std::min<int64_t>(kLoraSlicesMax, num_blocks - block)),
        .x = context_.scratch.logits_normed.data(),
        .x_stride = shape.hidden_size,
        .k = shape.hidden_size,
        .h = context_.scratch.lora_h.as<float>(),
        .h_stride = table.rank_max,
        .num_rows = static_cast<int32_t>(num_rows),
        .y = OwnLogits(),
        .y_stride = words_.n(),
        .x_is_fp32 = context_.activations == DType::kF32};
    for (int32_t slice = 0; slice < lora.num_slices; ++slice) {
      const int64_t begin = (block + slice) * block_words;
      lora.slice_begin[slice] = begin;
      lora.slice_n[slice] = std::min(block_words, words_.n() - begin);
    }
    Lora(lora, step.stream);
  }
}

void Head::ScaleAndCap(int64_t num_rows, Stream& stream) const {
  float* const logits = OwnLogits();
  const int64_t n = num_rows * words_.n();
  const float scale = context_.shape.logit_scale;
  if (scale != 1.0f) ScaledAdd({.x = logits, .y = logits, .n = n, .scale = scale}, stream);
  const float cap = context_.shape.logit_cap;
  if (cap != 0.0f) SoftCap({.x = logits, .n = n, .cap = cap}, stream);
}

void Head::RunNorm(std::span<const int32_t> rows, int32_t num_rows, Stream& stream) const {
  float* const picked = context_.scratch.picked.as<float>();
  Pick(rows, num_rows, stream);
  norm_.Run(picked, static_cast<int64_t>(rows.size()), DType::kF32, picked, stream);
}

// Picking rows is what Embedding does, with the hidden states for its table.
void Head::Pick(std::span<const int32_t> rows, int32_t num_rows, Stream& stream) const {
  Embedding({.table = context_.scratch.hidden.data(),
             .dtype = DType::kF32,
             .vocab_size = num_rows,
             .tokens = rows.data(),
             .out = context_.scratch.picked.as<float>(),
             .num_tokens = static_cast<int64_t>(rows.size()),
             .n = context_.shape.hidden_size},
            stream);
}

}  // namespace graft
