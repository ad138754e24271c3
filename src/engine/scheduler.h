// Scheduler plans the steps: which sequences get which rows and pages in the next step. It also
// books the step's tokens. Batching is per iteration (Orca; Punica, section 5): a plan holds a row
// per decoding sequence, then chunks of prompts, both of those begun and of newly admitted requests
// (AdmissionWalk). RunAhead makes the plan of a step that begins before the step before it has
// ended.
// Invariants: tenants are served in the order of FairLine, and requests of one tenant and key in
// the order of arrival, except for adapters on their way and for turns. The oldest running sequence
// always advances, or its adapter is on its way, so every request ends. Engine thread only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/content_table.h"
#include "engine/admission_walk.h"
#include "engine/answer_bounds.h"
#include "engine/cold_start_choice.h"
#include "engine/draft_planner.h"
#include "engine/prompt_rows.h"
#include "engine/run_ahead.h"
#include "engine/scheduler_options.h"
#include "engine/sequences.h"
#include "step/adapter_loader.h"
#include "step/executor.h"
#include "step/mask_source.h"
#include "step/step_plan.h"
#include "step/step_result.h"

namespace graft {

class Scheduler : public MaskSource {
 public:
  // All referred to must outlive the scheduler.
  // `on_forget`: see Residency.
  Scheduler(const SchedulerOptions& options, const Executor& executor, ContentTable& table,
            AdapterLoader& loader, const Clock& clock, Residency::OnForget on_forget = {});

  // See Sequences::SplitPool.
  void SplitPool(int32_t adapter_pages) { sequences_.SplitPool(adapter_pages); }

  // The sequence waits its turn. It must fit into a context of the limits.
  void Add(std::unique_ptr<Sequence> sequence) { sequences_.Add(std::move(sequence)); }
  // Takes sequences out between Commit and Plan, wherever they stand, and frees their pages, once
  // no step reads them; unknown ids are ignored.
  Sequences::List Remove(std::span<const RequestId> ids) { return sequences_.Remove(ids); }
  Sequences::List RemoveAll() { return sequences_.RemoveAll(); }
  // Gives up the newest of the tenant's requests that wait and have drawn nothing. False: none.
  bool FailNewestWaiting(const std::string& tenant, const Status& status) {
    return sequences_.FailNewestWaiting(tenant, status);
  }

  // The next step. Valid until the next call; no sequences if there is nothing to run, or nothing
  // until the loader has an event. The plan that was made ahead, if that runs already.
  const StepPlan& Plan();
  // Called while the plan runs. Returns the plan of the next step, if it is the same plan with one
  // more row for each sequence whatever is drawn (StepPlan::ahead); else null. The caller must
  // begin it. A sequence that stops meanwhile still has a row in it.
  const StepPlan* PlanAhead() { return ahead_.Plan(*plan_, planned_); }
  // Sequences that run were left out of the last Plan, as their masks are being made beside the
  // steps; the engine is woken when one is made.
  bool awaits_masks() const { return num_awaiting_masks_ > 0; }
  // A plan was made ahead and Plan() has not returned it yet.
  bool is_ahead() const { return sequences_.is_ahead(); }
  // While the plan runs: loads for sequences that were added since, as the plan would have.
  void LoadAhead() { walk_.LoadAhead(); }
  // The sequences that the last Plan gave up, with the reason: their adapter cannot be had.
  Sequences::List TakeFailed() { return sequences_.TakeFailed(); }
  // Those that gave their pages to others since the last call, and still wait.
  std::vector<RequestId> TakeEvicted() { return sequences_.TakeEvicted(); }
  // The sequence of the plan's entry i; null: it ended since. Valid until the next Plan or Remove,
  // and those that finished as long as what TakeFinished returned lives.
  std::span<Sequence* const> planned() const { return planned_; }
  // What the last Plan decided about the prompts and requests that it looked at.
  std::span<const Verdict> verdicts() const { return walk_.verdicts(); }
  // The mask of a sequence of the plan. False also if the sequence has ended: its draw is dropped.
  bool FillMask(const StepPlan& plan, size_t idx, std::span<uint32_t> words) override;
  // Books the step's tokens; sequences that ended have a finish reason, and no pages any more.
  void Commit(const StepPlan& plan, const StepResult& result);
  // The sequences that ended in the last Commit.
  Sequences::List TakeFinished() { return sequences_.TakeFinished(); }

  // The model's tokens that end an answer.
  const std::vector<int32_t>& end_token_ids() const { return options_.eos_token_ids; }
  // The executor's, less what the pool has no room for.
  const ExecutorLimits& limits() const { return sequences_.limits(); }
  bool empty() const { return sequences_.empty(); }
  int32_t num_waiting() const { return static_cast<int32_t>(sequences_.line().size()); }
  int32_t num_running() const { return static_cast<int32_t>(sequences_.running().size()); }
  const PagePool& pool() const { return sequences_.pool(); }
  const PrefixDigest& prefixes() const { return sequences_.tree().digest(); }
  const SchedulerStats& stats() const { return sequences_.stats(); }
  const Residency& adapters() const { return sequences_.adapters(); }

  // Makes the content resident and keeps it there. Before the first Plan.
  Status PinAdapter(int32_t content) {
    return sequences_.adapters().Pin(content, sequences_.make_room());
  }

  // Between steps: every page, reference and slot is accounted for. For tests and fuzzers.
  Status CheckIntegrity() const { return sequences_.CheckIntegrity(); }

 private:
  // Planning, in the order of Plan().
  int32_t PlanDecodes(int32_t rows_left);
  void LeaveAlone();
  void TakeOverAhead();
  void BuildPlan();
  void AppendToPlan(Sequence& sequence);
  void PlanArrivals();

  // After a step.
  void ObserveCosts(const StepPlan& plan, const StepResult& result);
  static void Fail(Sequence& sequence, Status status);
  void CommitLeftOut(Sequence& sequence, const PlannedSequence& planned);
  void CommitOne(Sequence& sequence, const PlannedSequence& planned, const SequenceResult& result);
  void AddToken(Sequence& sequence, int32_t token) const;
  void CountServed(Sequence& sequence, int32_t computed_before);
  bool IsStop(const Sequence& sequence, int32_t token) const;

  Sequences sequences_;
  const SchedulerOptions& options_;  // of sequences_
  ColdStartCosts costs_;
  PromptRows prompt_rows_;
  AdmissionWalk walk_;
  DraftPlanner drafts_;
  RunAhead ahead_;
  int32_t num_awaiting_masks_ = 0;  // of those that run, when they were planned
  int64_t preemptions_before_ = 0;  // this plan
  bool has_arrivals_ = false;       // the plan names an adapter that still arrives
  ArrivalStall arrival_stall_;      // of such a plan, where costs decide
  StepPlan first_plan_;             // reused, so that a step allocates nothing once warm
  StepPlan* plan_ = &first_plan_;   // the next step's, or of the one that runs
  std::vector<Sequence*> planned_;
  std::vector<Sequence*> decoding_;                              // scratch
  std::atomic<int64_t> masks_left_ns_{AnswerBounds::kAllNsMax};  // of the step; any thread
};

}  // namespace graft
