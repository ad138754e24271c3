// LayerKept: what a layer's forward keeps for its backward; null where it serves. LayerKeptRoom:
// where that lies. The thread that trains.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layers/layer_spec.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace graft {

// What a layer's attention keeps, in LayerContext::activations.
struct AttentionKept {
  void* qkv = nullptr;       // [rows, q + k + v]: RopeKvWriteArgs::copy
  void* attended = nullptr;  // [rows, q]
  // [rows, q + k], where queries and keys are normed: what the norms read.
  void* unnormed = nullptr;
};

// What a layer keeps, in LayerContext::activations.
struct LayerKept {
  void* input = nullptr;  // [rows, hidden], of attention's norm
  AttentionKept attention;
  void* middle = nullptr;   // [rows, hidden], of the MLP's norm; of parallel layers it is `input`
  void* gate_up = nullptr;  // [rows, ModelShape::gate_up_size]
  // [rows, hidden], where there are output norms: what they read.
  void* attention_branch = nullptr;
  void* mlp_branch = nullptr;
};

class LayerKeptRoom {
 public:
  // For any layer of the model, of up to so many rows in the type of activations.
  LayerKeptRoom(const ModelShape& shape, std::span<const LayerSpec> layers, int64_t rows,
                DType dtype, const Device& device);
  // What it takes.
  static int64_t BytesFor(const ModelShape& shape, std::span<const LayerSpec> layers, int64_t rows,
                          DType dtype);

  const LayerKept& kept() const { return kept_; }

 private:
  std::vector<Buffer> buffers_;
  LayerKept kept_;
};

}  // namespace graft
