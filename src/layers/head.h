// Head: the final norm of chosen rows of the residual stream, and their logits. Engine thread only.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/gemm.h"
#include "layers/layer_context.h"
#include "layers/layer_step.h"
#include "layers/norm.h"
#include "tensor/buffer.h"

namespace graft {

// The gradient of logits by the residual stream's rows.
struct HeadBack {
  std::span<const int32_t> rows;   // as Run took them
  const void* kept = nullptr;      // by Run
  const void* d_logits = nullptr;  // [rows, vocab] of activations, by what the words' product made
  GemmArgs words;                  // the weight that takes them back: W^T, or W read transposed
  float* d_normed = nullptr;       // [rows, hidden], scratch
  float* d_hidden = nullptr;       // NormBack::d_x, and its copy
  void* d_hidden_copy = nullptr;
  float copy_scale = 1.0f;
};

class Head {
 public:
  // Borrows all. `words`: [words of this rank, hidden]; `bias`: fp32, one of each, or null.
  Head(LayerContext& context, const Buffer& norm, const GemmWeight& words,
       const float* bias = nullptr);

  // scratch.logits of these rows of the last step, which had num_rows: fp32 [rows, vocab_size]. Of
  // several ranks, rank 0 has them. No rows: nothing.
  // The adapters of step.batch.head_segments change theirs.
  // `kept`: see Norm::Run.
  void Run(std::span<const int32_t> rows, int32_t num_rows, const LayerStep& step,
           void* kept = nullptr) const;
  // From the gradients of the words' products to those of the residual stream.
  void Back(const HeadBack& back, Stream& stream) const;
  // scratch.picked: the rows behind the final norm, fp32 [rows, hidden].
  void RunNorm(std::span<const int32_t> rows, int32_t num_rows, Stream& stream) const;

 private:
  // Where this rank writes the logits of its words.
  float* OwnLogits() const;
  void Multiply(int64_t num_rows, Stream& stream) const;
  void AddLora(int64_t num_rows, const LayerStep& step) const;
  // What follows from all of a word's products.
  void ScaleAndCap(int64_t num_rows, Stream& stream) const;
  // To scratch.picked.
  void Pick(std::span<const int32_t> rows, int32_t num_rows, Stream& stream) const;

  LayerContext& context_;
  const Norm norm_;
  const GemmWeight& words_;
  const float* const bias_;
};

}  // namespace graft
