// GpuLora: a TrainedLora's numbers in a GPU's memory: masters, gradients, moments, and the rounded
// rows that LoRA's kernels read. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/adamw/adamw.h"
#include "kernels/lora_gradient/lora_gradient.h"
#include "learn/trained_lora.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

class GpuLora {
 public:
  GpuLora(const ModelConfig& config, const TrainedLora& lora, DType dtype, Stream& stream);

  static int64_t BytesFor(const ModelConfig& config, int32_t rank, DType dtype);

  // Takes the host's numbers where those are newer.
  void Follow(const TrainedLora& lora);
  // The host gets these numbers where they are newer.
  void Fetch(TrainedLora& lora);

  void ZeroGradients();
  // For AdamW; the rest of the item is the caller's.
  AdamWItem Item();
  // After AdamW: rounds the masters.
  void Round();
  // Gradients have changed.
  void SetAhead() { is_ahead_ = true; }

  // [layers * kLoraModules], with pointers of the device: TrainedLora's of the same names.
  const std::vector<LoraMatrix>& matrices() const { return matrices_; }
  const std::vector<LoraMatrix>& swapped() const { return swapped_; }
  // [layers * kLoraModules], of them those of q and gate: with A's rows of q, k and v, or of gate
  // and up, one below the other in B's place, which takes all of their h to x at once.
  const std::vector<LoraMatrix>& stacked() const { return stacked_; }
  int32_t rank() const { return rank_; }
  float scale() const { return scale_; }
  float* gradients() { return gradients_.as<float>(); }

 private:
  Stream& stream_;
  const DType dtype_;
  const int32_t rank_;
  const float scale_;
  const int64_t num_parameters_;
  int64_t version_ = 0;    // of the host's numbers that these come from
  bool is_ahead_ = false;  // of them
  int64_t num_rows_ = 0;
  Buffer parameters_, gradients_, first_moments_, second_moments_;
  Buffer copy_;          // rounded rows, each on a border
  Buffer rows_;          // pointers to them
  Buffer stacked_rows_;  // of each layer, pointers to A's rows of q, k, v, gate and up
  Buffer rounded_;       // RoundedRow of each
  std::vector<LoraMatrix> matrices_, swapped_, stacked_;
};

}  // namespace graft
