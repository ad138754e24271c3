// What a step is made of: rows, sequences, pages and LoRA segments as plain arrays, and what of
// them lies where kernels read it (DeviceBatch). Plain data; engine thread only.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/attention.h"
#include "kernels/common/virtual_rows.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"
#include "layers/launch_plan.h"
#include "layers/layer_gate.h"
#include "layers/lora_bridge.h"

namespace graft {

// The matrices of every adapter slot, as LoraStore keeps them: those of slot s begin at
// matrices[s * stride], in the places of ModelShape::lora_matrix.
struct LoraTable {
  const LoraMatrix* matrices = nullptr;
  int64_t stride = 0;
  int32_t rank_max = 0;  // of the adapters in this batch, or any bound on it
};

// Rows, sequences and LoRA segments of a step. Rows of one sequence are consecutive and in order.
struct BatchArrays {
  // [num_rows] each.
  std::span<const int32_t> tokens;
  std::span<const int32_t> positions;
  std::span<const int32_t> row_page;  // where the row's key and value go
  std::span<const int32_t> row_slot;
  // Sequences, as AttentionArgs has them.
  std::span<const int32_t> row_begin;   // [num_sequences + 1]
  std::span<const int32_t> page_begin;  // [num_sequences + 1]
  std::span<const int32_t> pages;       // of all sequences
  std::span<const int32_t> kv_tokens;   // [num_sequences]
  // The last so many sequences are of rows that were given, as a prompt's are, the others of drawn
  // rows: see AttentionArgs.
  int32_t num_given = 0;
  // The rows that logits are asked for, at most logits_rows_max.
  std::span<const int32_t> logits_rows;
  // Rows with an adapter; empty for a step of base rows, which then does no LoRA work at all.
  std::span<const LoraSegment> lora_segments;
  // The same for rows of prompts: on a GPU their B joins the GEMM (LoraPlace::kInside), which pays
  // for the many rows of a prompt and not for decode's few. It rounds in another order, so which of
  // the two a row is in must be the row's own matter and never its batch's.
  std::span<const LoraSegment> lora_prompt_segments;
  // The rest of both kinds of segments where a bridge computes for adapters under way.
  std::span<const LoraSegment> settled_segments;
  std::span<const LoraSegment> settled_prompt_segments;
  // Rows of logits (places in logits_rows, not in the step) of adapters that change the head.
  // Empty: the step's logits are the base's product alone.
  std::span<const LoraSegment> head_segments;
  // Rows that are adapters' virtual tokens, whatever `tokens` has there, as VirtualEmbedding takes
  // them; and positions before the sequences' rows: VirtualKv writes their keys and values first.
  // One run a sequence at most.
  std::span<const VirtualRun> virtual_embeddings;
  std::span<const VirtualRun> virtual_kv;
};

// Which weights a step computes with, and what else takes part. The host reads it when it launches.
struct BatchWeights {
  LoraTable lora;
  const VirtualRows* virtual_rows = nullptr;  // by adapter slot; for runs of virtual tokens
  // The gate of a step with adapters on their way; null: all have arrived. A step with a gate
  // is not recorded.
  LayerGate* gate = nullptr;
  // Computes for these adapters until they are there; null: the step waits at the gate.
  LoraBridge* bridge = nullptr;
  // Products that have LoRA of lora_segments computed beside them (LoraBeside): faster for
  // a few adapters; the bits are the same. Ignored where the device or the number of rows forbids
  // it.
  LoraBesideScope lora_beside = LoraBesideScope::kNone;
};

// A step as kernels read it: arrays where they run, which on the CPU are the HostBatch's own, and
// what was found out while the host could look at them. On a GPU long segments are cut.
struct DeviceBatch : BatchArrays, BatchWeights {
  // The following members are for a GPU alone. Both kinds of segments, where a batch has both:
  // LoraShrink treats them alike.
  std::span<const LoraSegment> lora_all_segments;
  const uint32_t* step = nullptr;  // the number of this Put, from 1; see LoraBeside::step
  // Sequences of one row, as AttentionArgs has their splits, for layers that attend to all
  // positions and for those that do to a window.
  struct Splits {
    const AttentionSplit* splits = nullptr;
    const int32_t* count = nullptr;
  };
  Splits full_splits;
  Splits window_splits;
  // Bounds that launches are sized by, as the host cannot look at the arrays any more.
  GemmEpilogue::RowRange lora_rows;   // all of lora_segments lie in them
  int32_t lora_segment_rows_max = 0;  // of one of lora_segments
  int32_t sequence_rows_max = 0;      // rows of one sequence before the last num_given
  int32_t kv_tokens_max = 0;
  int32_t virtual_run_tokens_max = 0;  // of both kinds

  std::span<const LoraSegment> SegmentsOf(LoraRows rows) const;
};

}  // namespace graft
