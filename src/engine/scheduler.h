// The step planner: which sequences get which rows and pages in the next step, and what becomes of
// them when its tokens are there. Iteration-level batching (Orca, Punica 5): a plan holds a row per
// decoding sequence, then chunks of prompts. Whose adapter is not on the device waits beside the
// steps, or begins while its rows arrive; younger requests may run ahead of one that waits: as long
// as its adapter is on its way, and until the turn ends where it finds no room
// (docs/adapters-paging.md). Invariants: first come first served but for that; the oldest sequence
// always advances or its adapter is on its way, so every request ends; a page belongs to the
// sequences that refer to it, to the prefix tree, to adapters, or to nobody. Engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <vector>

#include "base/clock.h"
#include "cache/adapter_table.h"
#include "cache/page_pool.h"
#include "cache/prefix_tree.h"
#include "engine/adapter_residency.h"
#include "engine/cold_start.h"
#include "engine/cold_start_choice.h"
#include "engine/merge_decision.h"
#include "engine/sequence.h"
#include "step/adapter_loader.h"
#include "step/step_plan.h"
#include "step/step_result.h"

namespace graft {

struct SchedulerOptions {
  int32_t sequences_max = 0;      // running at once; at most step_tokens_max
  int32_t step_tokens_max = 0;    // rows of one step
  int32_t prefill_chunk_max = 0;  // rows one sequence prefills in one step; 0: step_tokens_max
  int32_t num_pages = 0;
  // Pages that KV and adapters may each hold; 0: as many as there are.
  int32_t kv_pages_max = 0;
  int32_t adapter_pages_max = 0;
  int64_t page_bytes = 0;
  int32_t page_tokens = 0;
  int32_t adapters_max = 0;  // adapter slots
  // What happens while an adapter loads for a request that could run otherwise.
  ColdStart cold_start = ColdStart::kAuto;
  AssistRates assist_rates;  // the executor's
  // How long younger requests run ahead of one whose adapter finds no room.
  int64_t turn_ns = 0;
  int32_t merge_after_steps = 0;  // see MergeDecision; 0: never
  bool prefix_cache = true;
  std::vector<int32_t> eos_token_ids;
};

struct SchedulerStats {
  int64_t preemptions = 0;
  int64_t prefix_lookup_tokens = 0;  // tokens of admitted sequences that the cache was asked for
  int64_t prefix_hit_tokens = 0;     // of those, found
  // Sequences that began while their adapter arrived, in steps that waited for it and in steps that
  // the CPU computed for, and that waited until it was there.
  int64_t layerwise_starts = 0;
  int64_t cpu_assist_starts = 0;
  int64_t join_later_starts = 0;
  int64_t steps_with_arrivals = 0;  // that waited for layers, or were assisted
  int64_t turns = 0;                // that ended for a request without room
  int64_t merges = 0;               // of adapters into weights
  int64_t merged_steps = 0;         // that ran on merged weights
  int64_t steps_ahead = 0;          // that were begun before the one before them had ended
};

class Scheduler {
 public:
  // All referred to must outlive the scheduler.
  Scheduler(const SchedulerOptions& options, AdapterTable& table, AdapterLoader& loader,
            const Clock& clock);
  ~Scheduler();

  // The sequence waits its turn. It must fit alone: see tokens_max().
  void Add(std::unique_ptr<Sequence> sequence);
  // Takes a sequence out between Commit and Plan, wherever it stands, and frees its pages, once no
  // step reads them; null if unknown.
  std::unique_ptr<Sequence> Remove(RequestId id);
  // The same for whoever came first; not if empty.
  std::unique_ptr<Sequence> RemoveOldest();

  // The next step. Valid until the next call; no sequences if there is nothing to run, or nothing
  // until an adapter is there. If it runs already, the plan that was made ahead.
  const StepPlan& Plan();
  // While the plan runs: the step after it, if it is the same with a row more for each sequence,
  // whatever is drawn (StepPlan::ahead); else null. It is to be begun. A sequence that stops
  // meanwhile has a row in it that is nobody's.
  const StepPlan* PlanAhead();
  // A plan was made ahead, whose turn Plan() has not come to.
  bool is_ahead() const { return is_ahead_; }
  // While the plan runs: loads for sequences that were added since, as the plan would have.
  void LoadAhead();
  // The sequences that the last Plan gave up, with the reason: their adapter cannot be had.
  std::vector<std::unique_ptr<Sequence>> TakeFailed();
  // Whose rows the plan's entry i are; null: it ended since. Valid until the next Plan or Remove,
  // those that finished as long as what TakeFinished returned lives.
  std::span<Sequence* const> planned() const { return planned_; }
  // Books the step's tokens; sequences that ended have a finish reason, and no pages any more.
  void Commit(const StepPlan& plan, const StepResult& result);
  // The sequences that ended in the last Commit.
  std::vector<std::unique_ptr<Sequence>> TakeFinished();

  bool empty() const { return waiting_.empty() && running_.empty(); }
  int32_t num_waiting() const { return static_cast<int32_t>(waiting_.size()); }
  int32_t num_running() const { return static_cast<int32_t>(running_.size()); }
  const PagePool& pool() const { return pool_; }
  const SchedulerStats& stats() const { return stats_; }
  const AdapterResidency& adapters() const { return adapters_; }
  // Tokens of a sequence whose KV the whole pool can hold.
  int64_t tokens_max() const { return int64_t{options_.kv_pages_max} * options_.page_tokens; }

  // Makes the content resident and keeps it there. Before the first Plan.
  Status PinAdapter(int32_t content);

  // Between steps: every page, reference and slot is accounted for. For tests and fuzzers.
  Status CheckIntegrity() const;

 private:
  // Planning, in the order of Plan().
  int32_t PlanDecodes(int32_t rows_left);
  int32_t PlanPrefills(int32_t rows_left);
  void UpdateAdapters();
  void FailWaiting(int32_t content, const Status& status);
  void AdmitWaiting(int32_t rows_left);
  // What a plan's walk along the waiting line knows so far.
  struct Admission {
    size_t idx = 0;  // of whom it looks at
    int32_t rows_left = 0;
    int32_t num_planned = 0;  // sequences
    int32_t num_early = 0;    // that begin while their adapter arrives
    ArrivalStall stall;       // the step's, as far as is known
    bool turn_is_over = false;
    bool has_made_room = false;  // at the turn's end, for the first who had none
    bool has_blocked = false;    // somebody's adapter finds no room
    bool lacks_pages = false;    // somebody whose adapter is there does
    bool has_stopped = false;    // nobody further back gets anything
    int32_t num_prefetches = 0;  // requests whose adapters were asked for though they could not run
    int32_t pages_kept = 0;      // for older requests whose adapters are on their way
  };
  enum class Next : uint8_t { kAdmitted, kPassed, kStop };
  void WalkLine(Admission& admission);
  Next ConsiderWaiting(size_t idx, Admission& admission);
  bool WaitsForAdapter(Sequence& sequence, bool can_run, Admission& admission);
  bool BeginsWhileArriving(const Sequence& sequence, Admission& admission) const;
  void CountColdStart(Sequence& sequence);
  bool IsNamed(int32_t content) const;
  ArrivalStall StallOfPlanned() const;
  std::vector<const Sequence*> WhoMakesRoom(const Sequence& sequence);
  bool CouldMakeRoom(int32_t content, std::span<const Sequence* const> sequences);
  Status CutToPool(Sequence& sequence) const;
  // Log-probabilities of a prompt want all of it computed.
  bool CanReusePages(const Sequence& sequence) const {
    return options_.prefix_cache && !sequence.wants_prompt_logprobs();
  }
  bool FitsNow(const Sequence& sequence, const PageList& matched, int32_t pages_kept) const;
  void Start(std::unique_ptr<Sequence> sequence, PageList matched);
  void PlanChunk(Sequence& sequence, int32_t rows_left);
  bool TakePage(Sequence& sequence);
  bool EvictOldest(PageUse use);
  void PreemptNewest() { Preempt(*running_.back()); }
  void Preempt(const Sequence& sequence);
  void BuildPlan();
  void AppendToPlan(Sequence& sequence);
  void Append(const Sequence& sequence, PlannedSequence planned, StepPlan* plan) const;
  void PlanArrivals();
  void PlanMerge();
  bool CanPlanAhead() const;

  // After a step.
  void ObserveCosts(const StepPlan& plan, const StepResult& result);
  void CommitOne(Sequence& sequence, const PlannedSequence& planned, const SequenceResult& result);
  void IndexFullPages(Sequence& sequence);
  bool IsStop(const Sequence& sequence, int32_t token) const;
  void Release(Sequence& sequence);
  // What a running sequence has of the device.
  struct Holdings {
    PageList pages;
    AdapterLease adapter;  // of one that ended
    int32_t content = -1;  // -1: base model
    int32_t sequence_slot = -1;
    bool started = false;
  };
  void GiveBack(Holdings& holdings);

  int32_t PagesFor(int32_t num_tokens) const {
    return (num_tokens + options_.page_tokens - 1) / options_.page_tokens;
  }
  Status CheckRunning(const Sequence& sequence) const;
  Status CheckQueues() const;

  const SchedulerOptions options_;
  PagePool pool_;
  PrefixTree tree_;
  AdapterResidency adapters_;
  const AdapterResidency::MakeRoom make_room_;
  const Clock& clock_;
  AdapterLoader& loader_;
  std::deque<std::unique_ptr<Sequence>> waiting_;   // oldest first
  std::vector<std::unique_ptr<Sequence>> running_;  // oldest first
  std::vector<std::unique_ptr<Sequence>> finished_;
  std::vector<std::unique_ptr<Sequence>> failed_;
  Admission admission_;         // of the last plan
  int64_t turn_begin_ns_ = -1;  // -1: everybody who waits for an adapter has room for it
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> free_slots_;
  uint64_t next_order_ = 0;
  int64_t preemptions_before_ = 0;  // this plan
  ColdStartCosts costs_;
  bool has_arrivals_ = false;      // the plan names an adapter whose rows still arrive
  ArrivalStall arrival_stall_;     // of such a plan, where costs decide
  std::array<StepPlan, 2> plans_;  // reused, so that a step allocates nothing once warm
  StepPlan* plan_ = &plans_[0];    // the next step's, or of the one that runs
  std::vector<Sequence*> planned_;
  std::vector<int32_t> ended_slots_;  // for the next plan
  // The plan made ahead. What it names, and those have let go of since who have a row in it, is
  // given back when it is committed: all that they held, where they ended, or pages that the prefix
  // tree had of others. Until then an adapter could be copied there.
  bool is_ahead_ = false;
  StepPlan* ahead_plan_ = &plans_[1];
  std::vector<Sequence*> ahead_planned_;
  std::vector<Holdings> held_;
  PageList replaced_;
  MergeDecision merge_decision_;
  SchedulerStats stats_;
};

}  // namespace graft
