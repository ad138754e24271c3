// StepPlan (the lower waist, downwards): everything that one step does, as plain integers. The
// scheduler makes it. The executor that reads it knows tensors but no requests. Rows are in the
// plan's order: sequences that use one adapter are adjacent (base rows first), so that segments are
// found in one scan.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/token_set.h"

namespace graft {

// An adapter's place in the executor's table; kNoAdapter is the base model.
using AdapterSlot = int32_t;
inline constexpr AdapterSlot kNoAdapter = -1;

// Which rows' hidden states, behind the final norm, become a sequence's one vector: those of its
// prompt's last row, or the mean of all rows of its prompt, none of which it may share then.
enum class RowPooling : uint8_t { kNone, kLast, kMean };

// How to sample for one sequence; constant over its life. Mirrors request/SamplingParams in
// integers and floats only, so that the lower waist does not depend on the upper one.
struct SamplingSpec {
  float temperature = 0.0f;
  float top_p = 1.0f;
  int32_t top_k = 0;
  float min_p = 0.0f;
  uint64_t seed = 0;
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  std::vector<std::pair<int32_t, float>> logit_bias;
  TokenSet allowed_tokens;    // nothing else is drawn; empty: all are
  int32_t num_logprobs = -1;  // -1: none
};

// What stands in StepPlan::tokens for an adapter's virtual token `idx`: a position of its own in
// front of the prompt. Below -1, which is a token that is not known yet.
inline constexpr int32_t VirtualTokenId(int32_t idx) { return -2 - idx; }

// A sequence that enters the executor. Its sampler state is created in `sequence_slot`, in place of
// that of the sequence which had the slot before. A sequence that was preempted enters again with
// its output so far in `output_tokens`.
struct SequenceStart {
  int32_t sequence_slot = 0;
  SamplingSpec sampling;
  std::vector<int32_t> prompt_tokens;
  std::vector<int32_t> output_tokens;
  int32_t num_virtual_tokens = 0;  // positions before the prompt's first token: its adapter's own
};

// One sequence's rows in this step.
struct PlannedSequence {
  int32_t sequence_slot = 0;  // [0, sequences_max)
  AdapterSlot adapter_slot = kNoAdapter;
  int32_t token_begin = 0;  // into StepPlan::tokens
  int32_t num_tokens = 0;   // 1 in decode, a chunk in prefill; drafts are counted, too
  // So many of the last rows are drafts: predicted tokens that may not come. A token is drawn after
  // the row before them, and after each draft as long as the draw before it was that draft. The
  // sequence has drawn at least once before, and its draws need no counts and no bans.
  int32_t num_drafts = 0;
  int32_t num_prompt_rows = 0;  // all, where they are of the prompt; 0 where they were drawn
  int32_t num_base_rows = 0;    // the first so many are the base model's, whatever the adapter
  int32_t position_begin = 0;   // position of its first row; rows before it are in the KV pages
  // The first so many rows are of virtual tokens: embeddings of the adapter, not of `tokens`.
  int32_t num_virtual_rows = 0;
  // So many positions before position_begin hold virtual tokens of which the adapter has keys and
  // values: they are written into the pages before the rows are computed.
  int32_t num_virtual_kv = 0;
  int32_t page_begin = 0;  // into StepPlan::pages
  int32_t num_pages = 0;   // covers position_begin + num_tokens positions
  bool samples = false;    // draw a token after the last row that is no draft
  // Token ids that must not be drawn: their logits become -inf.
  int32_t banned_begin = 0;  // into StepPlan::banned_tokens
  int32_t num_banned = 0;
  bool has_mask = false;  // the executor asks its MaskSource what may be drawn
  // Log-probability of every row's successor among prompt_tokens (prompt_logprobs requests only).
  bool prompt_logprobs = false;
  RowPooling pooling = RowPooling::kNone;
};

struct StepPlan {
  uint64_t step_id = 0;
  std::vector<SequenceStart> starts;  // before anything else
  std::vector<PlannedSequence> sequences;
  std::vector<int32_t> tokens;         // rows of all sequences
  std::vector<int32_t> pages;          // page ids of all sequences
  std::vector<int32_t> banned_tokens;  // of all sequences
  int32_t num_drafts = 0;              // of all sequences
  // This step begins while the step before it still runs, before that step's tokens are known. Its
  // sequences are those of that step in the same order, each with one more row, and each draws. The
  // executor puts in the tokens, which are -1 here. Between the two steps no slot is given or
  // freed. A draw depends on the token before it only through the model or through a mask; with a
  // mask nothing is drawn before Executor::Continue. Neither step has drafts, nor prompt_logprobs,
  // which are formed from memory that the later step overwrites.
  bool ahead = false;
  // Where rows of adapters are still on their way, what they add is computed without the device, as
  // far as the executor can. If false, or if it cannot, the step waits for the rows.
  bool bridges = false;

  // Clears all but the plan's number; its memory stays.
  void Clear() {
    starts.clear();
    sequences.clear();
    tokens.clear();
    pages.clear();
    banned_tokens.clear();
    num_drafts = 0;
    ahead = bridges = false;
  }
};

}  // namespace graft
