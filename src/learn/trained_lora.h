// TrainedLora: one adapter while it learns: LoRA of one rank on all seven modules of every layer.
// The masters, their gradients and moments are fp32; what the kernels multiply with is a copy in
// the served dtype, rounded as a loader rounds a file, so that training computes what serving will.
// In the host's memory; a GPU that trains has its own (TrainingDevice). One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adapters/lora_weights.h"
#include "base/status.h"
#include "kernels/lora/lora.h"
#include "model/config.h"
#include "model/lora_module.h"
#include "tensor/buffer.h"

namespace graft {

class TrainedLora {
 public:
  TrainedLora(const ModelConfig& config, int32_t rank, float scale, DType dtype);

  // What one takes in all.
  static int64_t BytesFor(const ModelConfig& config, int32_t rank, DType dtype);

  // As PEFT begins: A uniform in +-1 / sqrt(in), B zero. Drawn from (seed, element).
  void Initialize(uint64_t seed);
  // The numbers of an adapter that was loaded in fp32. kInvalidArgument where it has other modules,
  // ranks or scales.
  Status Read(const LoraWeights& weights);
  // Copies the masters into what the kernels read. After every change of parameters(), of which
  // version() counts those that were told here: what another device has of them is out of date.
  void Refresh();
  int64_t version() const { return version_; }
  void ZeroGradients();

  int32_t rank() const { return rank_; }
  float scale() const { return scale_; }
  // All masters and, in the same order, their gradients and moments: [num_parameters].
  std::span<float> parameters() { return parameters_; }
  std::span<float> gradients() { return gradients_; }
  std::span<float> first_moments() { return first_moments_; }
  std::span<float> second_moments() { return second_moments_; }

  // Where a matrix lies in these: A [rank, in], or B transposed [rank, out].
  struct Place {
    int64_t begin;
    int64_t n;  // columns
  };
  Place place(int32_t layer, LoraModule module, LoraSide side) const {
    const auto index = static_cast<size_t>(layer) * kLoraModules + static_cast<size_t>(module);
    return places_[2 * index + (side == LoraSide::kA ? 0 : 1)];
  }

  // [layers * kLoraModules], for LoraArgs; and the same with A and B in each other's place, which
  // takes gradients of y to those of x.
  std::span<const LoraMatrix> matrices() const { return matrices_; }
  std::span<const LoraMatrix> swapped() const { return swapped_; }

 private:
  int32_t num_layers_;
  int32_t rank_;
  float scale_;
  DType dtype_;
  int64_t version_ = 0;
  std::vector<Place> places_;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
  std::vector<float> first_moments_;
  std::vector<float> second_moments_;
  Buffer copy_;
  std::vector<const void*> rows_;  // into copy_, matrix by matrix
  std::vector<LoraMatrix> matrices_;
  std::vector<LoraMatrix> swapped_;
};

}  // namespace graft
