// One request inside the engine, from Submit to its last event. Plain data, engine thread only; the
// scheduler moves it between waiting and running and owns it in both.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/content_table.h"
#include "cache/page_pool.h"
#include "cache/prefix_tree.h"
#include "engine/answer_bounds.h"
#include "engine/prompt_lookup.h"
#include "request/request.h"
#include "request/request_times.h"
#include "request/token_event.h"
#include "request/token_stream.h"
#include "step/step_plan.h"

namespace graft {

struct AdapterCounters;
struct KeyLine;

// The order of requests: by when they were accepted, on any machine, then by when they came here.
struct ArrivalOrder {
  int64_t arrival_ns = 0;
  uint64_t number = 0;
  auto operator<=>(const ArrivalOrder&) const = default;
};

struct Sequence {
  // What was asked.
  RequestId id = 0;
  std::string tenant;
  std::string key_id;  // of the tenant's
  float tenant_weight = 1.0f;
  int32_t priority = 0;  // larger goes first, among those of its key
  // Its hash, and from where on the adapter acts, are sure once the adapter was resident.
  PrefixKey prefix_key;
  bool knows_adapter = false;       // they are
  int32_t activation_position = 0;  // asked for; 0: as the adapter says
  SamplingParams sampling;
  int64_t arrival_ns = 0;  // when it was accepted, maybe on another machine
  // Tokens that are given, those that its adapter puts in front among them.
  int32_t num_prompt_tokens = 0;
  int32_t output_tokens_max = 0;  // tokens_max, cut where the context ends
  RowPooling pooling = RowPooling::kNone;
  int32_t draft_tokens_max = 0;          // in a step; 0: none are foreseen
  bool runs_alone = false;               // no other row is in its steps, until it draws here
  std::unique_ptr<AnswerBounds> bounds;  // null: any tokens will do
  std::shared_ptr<TokenStream> stream;
  ContentLease adapter;
  // The counters of its tokens, set at Submit, so that a step looks up nothing. Shared with the
  // table of series, which lets go of counters that no sequence uses any more.
  std::shared_ptr<const AdapterCounters> counters;

  // Where it stands. `tokens` is the adapter's virtual tokens, the prompt, then output.
  std::vector<int32_t> tokens;
  ArrivalOrder order;                     // smaller goes first
  KeyLine* line = nullptr;                // where it waits, and what it is served is counted
  int32_t holder = -1;                    // its tenant's number, by which it holds room
  int32_t num_served = 0;                 // leading tokens that were counted as served
  int32_t num_unbooked = 0;               // served tokens that its line does not know of yet
  size_t unbooked_idx = 0;                // among the sequences with such
  int32_t sequence_slot = -1;             // -1: waiting
  AdapterSlot adapter_slot = kNoAdapter;  // while it runs
  int32_t num_virtual_tokens = 0;         // known once the adapter was there
  bool has_virtual_kv = false;            // their keys and values are written, not computed
  bool started = false;                   // the executor knows it (since its slot was given)
  PageList pages;                         // of positions [0, pages.size() * page_tokens)
  int32_t num_computed = 0;               // leading tokens with their KV in `pages`
  int32_t num_indexed_pages = 0;          // leading pages that are in the prefix tree
  int32_t num_planned = 0;                // rows in the plan being made or run, without drafts
  std::vector<int32_t> drafts;            // foreseen tokens with a row in that plan
  int32_t num_new_tokens = 0;             // drawn in the last step that had a row of it
  bool has_drawn = false;                 // a token, in this engine
  bool waited_for_adapter = false;        // beside steps in which it could have run
  bool is_displaced = false;              // given up, its place in the queue is another's
  FinishReason finish_reason = FinishReason::kNone;
  Status status;
  PrefixMatch prefix_match;              // what was found last for it, while it waits
  std::unique_ptr<PromptLookup> lookup;  // null: nothing is foreseen

  // What the client is told.
  int32_t cached_tokens = -1;  // prompt tokens found in the prefix cache at first; -1: not yet run
  int64_t last_token_ns = -1;  // -1: none was drawn here
  std::unique_ptr<RequestTimes> times;  // null: it is not traced
  std::vector<TokenLogprob> prompt_logprobs;
  std::vector<std::vector<TokenLogprob>> prompt_top_logprobs;

  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_output_tokens() const { return num_tokens() - num_prompt_tokens; }
  // The position of the next row: what the adapter has keys and values of takes none.
  int32_t next_position() const {
    return has_virtual_kv ? std::max(num_computed, num_virtual_tokens) : num_computed;
  }
  int32_t num_pending() const { return num_tokens() - next_position(); }
  // What the client sent, and is told of.
  int32_t num_asked_tokens() const { return num_prompt_tokens - num_virtual_tokens; }
  std::span<const int32_t> output() const {
    return std::span(tokens).subspan(static_cast<size_t>(num_prompt_tokens));
  }
  // The rows before the adapter acts, among so many from a position on.
  int32_t NumBaseRows(int32_t position, int32_t num_rows) const {
    return std::clamp(prefix_key.active_from - position, 0, num_rows);
  }
  // Prompt log-probabilities travel with the first output token; afterwards (when a preempted
  // sequence is computed again) they are not wanted any more.
  bool wants_prompt_logprobs() const {
    return sampling.prompt_logprobs && num_output_tokens() == 0;
  }
  // Something is made of every row of its prompt.
  bool wants_whole_prompt() const {
    return wants_prompt_logprobs() || pooling == RowPooling::kMean;
  }
};

}  // namespace graft
