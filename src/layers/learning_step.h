// LearningStep: what a step has beside LayerStep where it learns: the batch in parts, what of it
// learns, and the room of a backward. Plain data; the thread that trains.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/lora/lora.h"
#include "kernels/lora_gradient/lora_gradient.h"
#include "layers/layer_kept.h"
#include "layers/training_pieces.h"
#include "layers/transposed_weights.h"
#include "tensor/buffer.h"

namespace graft {

// Rows of the batch that a product takes at once, and their LoRA segments.
struct RowPart {
  int32_t row_begin = 0, num_rows = 0;
  const LoraSegment* segments = nullptr;  // of the device, in rows of the part
  int32_t num_segments = 0;
};

// The gradients of activations, and what LoRA's are made of.
struct BackScratch {
  Buffer d_hidden;  // fp32 [rows, hidden], of the residual stream
  // As products read it, and times what the model scales what is added to the stream by; empty:
  // products read d_hidden itself.
  Buffer d_hidden_copy;
  Buffer d_attended;  // fp32 [rows, q]
  Buffer d_qkv;       // [rows, q + k + v] of activations
  Buffer d_gate_up;   // [rows, ModelShape::gate_up_size] of activations
  Buffer attention;   // AttentionBackwardFloats, on a GPU AttentionBackwardGpuFloats
  Buffer lora_d_h;    // LoraArgs::h, slices side by side
  // As LoraGradient takes h: of the forward's products, all layers' targets one after the other,
  // and of one product's backward.
  Buffer rounded_h, rounded_d_h;
  Buffer gradients, gradient_counters;  // LoraGradientArgs::scratch and counters

  const void* stream_gradient() const {
    return d_hidden_copy.bytes() == 0 ? d_hidden.data() : d_hidden_copy.data();
  }
};

struct LearningStep {
  TrainingPieces& pieces;
  TransposedWeights& transposed;
  BackScratch& room;
  int32_t rows_max = 0;  // that there is room for
  // Where LoRA's part of a backward's products is computed: inside, or after.
  LoraPlace lora_place = LoraPlace::kAfter;
  bool learns = false;  // a backward follows
  RowPart whole;        // of the batch
  // What a product takes that is longer than a piece may be.
  std::span<const RowPart> parts;
  // What learns: an adapter's rows each.
  std::span<const LoraGradientSegment> gradients;
  // What does not, documents' adapters, beside what learns: their LoRA follows the products.
  std::span<const LoraSegment> document_segments;
  // As LoraTable::matrices: with A and B in each other's place, which takes gradients of y to those
  // of x; and for the first of several targets with all their A, one below the other, as its B.
  const LoraMatrix* swapped = nullptr;
  const LoraMatrix* stacked = nullptr;
  bool can_stack = false;  // all LoRA that learns is of LoraTable::rank_max
  // All of LoRA learns: gradients of products' inputs may be rounded.
  bool can_round = false;
};

}  // namespace graft
