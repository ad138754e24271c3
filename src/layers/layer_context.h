// LayerContext: what all layers of one model share, made once: sizes, types, where keys and values
// lie, the ranks, and the scratch that one layer after the other writes. Engine thread only.
#pragma once

#include "kernels/common/kv_layout.h"
#include "kernels/lora/lora.h"
#include "layers/layer_spec.h"
#include "layers/served_types.h"
#include "layers/step_exchanges.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace graft {

// Activations, a row per token. The residual stream and what GEMMs return are fp32; what GEMMs read
// is in LayerContext::activations: fp32 on the CPU, since rounding it to bf16 in every layer costs
// up to 0.1 of a log-probability (docs/inside/model.md).
struct LayerScratch {
  // fp32 [rows, hidden], the residual stream; to a parallel layer's Back it is room.
  Buffer hidden;
  Buffer normed;      // [rows, hidden]
  Buffer mlp_normed;  // the same where LayerSpec::has_second_norm and it serves, else empty
  Buffer branch;     // fp32 [rows, hidden] where LayerSpec::writes_branch, or it learns, else empty
  Buffer qkv;        // fp32 [rows, q + k + v]
  Buffer squares;    // fp32 [rows, 2 (q, k)] where LayerSpec::norms_among_ranks, else empty
  Buffer attended;   // [rows, q]
  Buffer gate_up;    // fp32 [rows, ModelShape::gate_up_size]
  Buffer activated;  // [rows, intermediate]
  Buffer lora_h;     // LoraArgs::h of kLoraSlicesMax slices: LoraScratchFloats
  Buffer lora_delta;  // LoraBeside::delta, of the widest projection
  Buffer lora_words;  // LoraBeside::words, of all layers' matrices
  Buffer codes_room;  // GemmArgs::room of the widest projection of codes
  Buffer attention;
  Buffer picked;         // fp32 [logits rows, hidden]
  Buffer logits_normed;  // [logits rows, hidden]
  Buffer logits;         // fp32 [logits rows, vocab]
};

struct LayerContext {
  ModelShape shape;
  ServedTypes types;
  DType activations;  // what products read
  KvLayout layout;    // of keys and values in pages
  void* pool;         // the pages
  StepExchanges exchanges;
  LayerScratch scratch;

  // Whether LoRA can run beside the products of so many rows.
  bool CanRunLoraBeside(int64_t num_rows) const {
    return scratch.lora_words.bytes() > 0 && num_rows <= kLoraBesideRowsMax;
  }
};

}  // namespace graft
