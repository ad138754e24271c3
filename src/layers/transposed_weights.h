// TransposedWeights: the layers' and the head's weights as a backward reads them, W^T, where its
// products do not read W itself transposed. Those of some of the last layers are kept, the others
// made when they are asked for. The thread that trains.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "layers/layer_spec.h"
#include "layers/layer_weights.h"
#include "layers/lora_targets.h"
#include "tensor/stream.h"

namespace graft {

// The weight of one of a layer's products.
const GemmWeight& WeightOf(const LayerWeights& layer, LayerProduct product);

class TransposedWeights {
 public:
  // Borrows the weights and the stream. `pause` is called between pieces on the CPU.
  TransposedWeights(std::span<const LayerWeights> layers, const GemmWeight& head, int32_t num_kept,
                    Stream& stream, const std::function<void()>& pause);

  // What those of one layer take, 0 where they are read transposed; and what is made at once of
  // layers that are not kept.
  static int64_t LayerBytes(const ModelShape& shape, DType dtype, const Device& device);
  static int64_t MadeBytes(const ModelShape& shape, DType dtype, const Device& device);

  // Products read W transposed: there is nothing here.
  bool are_read_transposed() const { return reads_; }
  // Takes the gradient of y = x W^T to that of x: weight and GemmArgs::transposed, and the others.
  // One product's at a time; for layers that are not kept it is made here.
  GemmArgs ArgsOf(int32_t layer, LayerProduct product);
  GemmArgs ArgsOfHead() const;
  int32_t num_kept() const { return static_cast<int32_t>(kept_.size()); }

 private:
  using LayerTransposed = std::array<GemmWeight, kLayerProducts>;

  const std::span<const LayerWeights> layers_;
  const GemmWeight& head_;
  Stream& stream_;
  const bool reads_;
  GemmWeight transposed_head_;
  std::vector<LayerTransposed> kept_;
  LayerTransposed room_;  // for those of other layers: on a GPU always, on the CPU one at a time
};

}  // namespace graft
