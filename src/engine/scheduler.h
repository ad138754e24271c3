// The step planner: which sequences get which rows and pages in the next step, and what becomes of
// them when its tokens are there. Iteration-level batching (Orca, Punica 5): a plan holds a row per
// decoding sequence, then chunks of prompts.
// Invariants: first come first served (every running sequence came before every waiting one); the
// oldest sequence always advances, so every request ends; a page belongs to the sequences that
// refer to it, to the prefix tree, or to nobody. Engine thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <vector>

#include "cache/page_pool.h"
#include "cache/prefix_tree.h"
#include "engine/sequence.h"
#include "step/step_plan.h"
#include "step/step_result.h"

namespace graft {

struct SchedulerOptions {
  int32_t sequences_max = 0;      // running at once; at most step_tokens_max
  int32_t step_tokens_max = 0;    // rows of one step
  int32_t prefill_chunk_max = 0;  // rows one sequence prefills in one step; 0: step_tokens_max
  int32_t num_pages = 0;
  int32_t page_tokens = 0;
  bool prefix_cache = true;
  std::vector<int32_t> eos_token_ids;
};

struct SchedulerStats {
  int64_t preemptions = 0;
  int64_t prefix_lookup_tokens = 0;  // tokens of admitted sequences that the cache was asked for
  int64_t prefix_hit_tokens = 0;     // of those, found
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();

  // The sequence waits its turn. It must fit alone: see tokens_max().
  void Add(std::unique_ptr<Sequence> sequence);
  // Takes a sequence out between steps, wherever it stands, and frees its pages; null if unknown.
  std::unique_ptr<Sequence> Remove(RequestId id);
  // The same for whoever came first; not if empty.
  std::unique_ptr<Sequence> RemoveOldest();

  // The next step. Valid until the next call; no sequences if there is nothing to run.
  const StepPlan& Plan();
  // Whose rows the plan's entry i are. Valid until the next Plan or Remove, those that finished as
  // long as what TakeFinished returned lives.
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
  // Tokens of a sequence whose KV the whole pool can hold.
  int64_t tokens_max() const { return int64_t{options_.num_pages} * options_.page_tokens; }

  // Between steps: every page, reference and slot is accounted for. For tests and fuzzers.
  Status CheckIntegrity() const;

 private:
  // Planning, in the order of Plan().
  int32_t PlanDecodes(int32_t rows_left);
  int32_t PlanPrefills(int32_t rows_left);
  void AdmitWaiting(int32_t rows_left);
  bool FitsNow(const Sequence& sequence, const PageList& matched) const;
  void Start(std::unique_ptr<Sequence> sequence, PageList matched);
  void PlanChunk(Sequence& sequence, int32_t rows_left);
  bool TakePage(Sequence& sequence);
  void PreemptNewest();
  void BuildPlan();
  void AppendToPlan(Sequence& sequence);

  // After a step.
  void CommitOne(Sequence& sequence, const PlannedSequence& planned, const SequenceResult& result);
  void IndexFullPages(Sequence& sequence);
  bool IsStop(const Sequence& sequence, int32_t token) const;
  void Release(Sequence& sequence);

  int32_t PagesFor(int32_t num_tokens) const {
    return (num_tokens + options_.page_tokens - 1) / options_.page_tokens;
  }
  Status CheckRunning(const Sequence& sequence) const;
  Status CheckQueues() const;

  const SchedulerOptions options_;
  PagePool pool_;
  PrefixTree tree_;
  std::deque<std::unique_ptr<Sequence>> waiting_;   // oldest first
  std::vector<std::unique_ptr<Sequence>> running_;  // oldest first, all before waiting_
  std::vector<std::unique_ptr<Sequence>> finished_;
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> free_slots_;
  uint64_t next_order_ = 0;
  StepPlan plan_;  // reused, so that a step allocates nothing once warm
  std::vector<Sequence*> planned_;
  std::vector<int32_t> ended_slots_;  // for the next plan
  SchedulerStats stats_;
};

}  // namespace graft
