// What a scheduler is told at its start, and what it counts. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "engine/cold_start.h"
#include "engine/goal.h"

namespace graft {

struct SchedulerOptions {
  Goal goal = Goal::kLatency;     // what rows of prompts are chosen by, see PromptRows
  int32_t prefill_chunk_max = 0;  // rows one sequence prefills in one step; 0: all of a step's
  // What a step with sequences that decode is expected to take at most, by fewer rows of prompts in
  // it (see PromptBudget); 0: no bound. For Goal::kThroughput every step is.
  int64_t step_ns_max = 0;
  // How many adapters may be under way from their folders, or wait fetched, for requests in line.
  // More would only fill the host's memory before there are pages for them. A slow fetch does not
  // count. A tenant without any of these places may have one of as many extra places.
  int32_t fetches_max = 4;
  // Requests in line, from the first, that a plan looks at for what can run ahead of the others.
  int32_t waiting_looked_at = 1024;
  // What happens while an adapter loads for a request that could run otherwise.
  ColdStart cold_start = ColdStart::kAuto;
  // How long younger requests run ahead of one that has no room for its adapter.
  int64_t turn_ns = 500'000'000;
  // How long a tenant without requests keeps its share of what is cached, see RoomShares.
  int64_t share_kept_ns = 300'000'000'000;
  bool prefix_cache = true;
  // Whether other requests may use pages with drawn rows, if drawn rows round otherwise than prompt
  // rows: pages of adapters and, with tells_base_rows, of the base model, too. If they may, an
  // answer depends on whether the answer before it was drawn here.
  bool shares_drawn_pages = true;
  bool tells_base_rows = false;
  // What the prefix tree hashes under: its own in every process, unless told otherwise.
  uint64_t prefix_hash_key = RandomSeed();
  std::vector<int32_t> eos_token_ids;
};

struct SchedulerStats {
  int64_t preemptions = 0;
  int64_t prefix_lookup_tokens = 0;   // tokens of admitted sequences that the cache was asked for
  int64_t prefix_hit_tokens = 0;      // of those, found
  int64_t prefix_pages_searched = 0;  // looked for in the prefix tree, by their tokens
  // Sequences looked at to find those that were cancelled.
  int64_t removal_visits = 0;
  // Sequences that began while their adapter arrived, in steps that waited for it and in steps that
  // the CPU computed for, and that waited until it was there.
  int64_t layerwise_starts = 0;
  int64_t cpu_assist_starts = 0;
  int64_t join_later_starts = 0;
  int64_t steps_with_arrivals = 0;  // that waited for layers, or were bridged
  int64_t turns = 0;                // that ended for a request without room
  int64_t steps_ahead = 0;          // that were begun before the one before them had ended
  int64_t drafts = 0;               // rows of a sequence in a step, with so many tokens in all:
  int64_t draft_tokens = 0;
  int64_t accepted_draft_tokens = 0;  // of them, that came
};

}  // namespace graft
