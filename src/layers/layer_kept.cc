#include "layers/layer_kept.h"

#include <algorithm>

namespace graft {
namespace {

// Where LayerKept points, and how many columns each has; 0: no layer of the model keeps it.
struct KeptArray {
  void** place;
  int64_t columns;
};
std::vector<KeptArray> ArraysOf(const ModelShape& shape, std::span<const LayerSpec> layers,
                                LayerKept& kept) {
  const bool norms_qk = std::ranges::any_of(layers, &LayerSpec::qk_norm);
  const bool norms_outputs = std::ranges::any_of(layers, &LayerSpec::output_norms);
  const bool are_parallel = std::ranges::all_of(layers, &LayerSpec::parallel);
  const int64_t hidden = shape.hidden();
  return {{&kept.input, hidden},
          {&kept.attention.qkv, shape.qkv_size()},
          {&kept.attention.attended, shape.q_size()},
          {&kept.attention.unnormed, norms_qk ? shape.q_size() + shape.kv_size() : 0},
          {&kept.middle, are_parallel ? 0 : hidden},
          {&kept.gate_up, shape.gate_up_size()},
          {&kept.attention_branch, norms_outputs ? hidden : 0},
          {&kept.mlp_branch, norms_outputs ? hidden : 0}};
}

}  // namespace

LayerKeptRoom::LayerKeptRoom(const ModelShape& shape, std::span<const LayerSpec> layers,
                             int64_t rows, DType dtype, const Device& device) {
  for (const auto& [place, columns] : ArraysOf(shape, layers, kept_)) {
    buffers_.emplace_back(rows * columns * DTypeBytes(dtype), device);
    *place = buffers_.back().data();
  }
}

int64_t LayerKeptRoom::BytesFor(const ModelShape& shape, std::span<const LayerSpec> layers,
                                int64_t rows, DType dtype) {
  LayerKept kept;
  int64_t row = 0;
  for (const KeptArray& array : ArraysOf(shape, layers, kept)) row += array.columns;
  return rows * row * DTypeBytes(dtype);
}

}  // namespace graft
