// FakeExecutor: a deterministic executor for tests, with integers in place of tensors, but real
// pages. Every position stores a digest of the position before it, its token, its adapter's content
// and its tenant. A drawn token is a hash of all digests that the plan's page table leads to. So a
// stale page, a wrong page table, a prefix shared across adapters or tenants, or a draw with a
// wrong index gives other tokens than ReferenceOutput. So does an adapter that a KV write has gone
// over: adapters lie in the same pages, and each of their steps reads them there. The executor also
// checks the plan against the rules of step/. One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "request/request.h"
#include "step/adapter_rows.h"
#include "step/executor.h"

namespace graft {

// Prompt tokens from here on make the step's result not finite.
inline constexpr int32_t kPoisonToken = 1;

// The tokens that a request must produce, computed without any pages. Its adapter_hash is a content
// ("" for base) that acts from activation_position on. `eos_token_ids` and the request's stops end
// the output; `context_tokens_max` cuts it. The adapter puts `num_virtual_tokens` in front of the
// prompt.
std::vector<int32_t> ReferenceOutput(const Request& request, std::span<const int32_t> eos_token_ids,
                                     const ExecutorLimits& limits, int32_t num_virtual_tokens = 0);

// The logprob that the fake gives prompt token `position` of a request (by its tokens up to there).
float ReferencePromptLogprob(const Request& request, int32_t position,
                             int32_t num_virtual_tokens = 0);

// Tenants are told apart by the seed's upper half: the plan does not name them.
uint64_t SeedOfTenant(const std::string& tenant, uint32_t seed);

class FakeExecutor : public Executor {
 public:
  explicit FakeExecutor(const ExecutorLimits& limits, BridgeRates bridge_rates = {});

  const ExecutorLimits& limits() const override { return limits_; }
  BridgeRates bridge_rates() const override { return bridge_rates_; }
  void SetMasks(MaskSource* masks) override { masks_ = masks; }
  void Begin(const StepPlan& plan) override;
  void Continue() override;
  // Does once what it was told to do beside a step. A timeout passes once in each step, and what is
  // ahead has not been computed before Finish.
  bool Wait(const std::atomic<bool>& interrupted, int64_t timeout_ns) override;
  StepResult Finish() override;

  // `late`: after the timeout, if there is one.
  void DoBesideNextStep(std::function<void()> work, bool late = false) {
    beside_ = std::move(work);
    is_beside_late_ = late;
  }
  // The next step comes to nothing, and one that is ahead of it, too.
  void FailNextStep() { fails_ = true; }
  // What steps say of the device from now on, StepTimes::idle_ns.
  void SetIdleNs(int64_t idle_ns) { idle_ns_ = idle_ns; }
  // Whether others have the device behind the steps from now on, and StepTimes::others_ns.
  void SetOthers(bool follow, int64_t ns) {
    is_followed_ = follow;
    others_ns_ = ns;
  }
  bool IsFollowed() const override { return is_followed_; }
  // The last that a wait was given, but kNever.
  int64_t last_timeout_ns() const { return last_timeout_ns_; }
  // What an adapter slot computes with, by content hash, and where its rows lie; they arrive in
  // these pages later. "" when freed: a plan that names a freed slot fails a CHECK.
  void SetAdapter(int32_t slot, const std::string& content,
                  const std::vector<PageExtent>& extents = {});
  // The rows are written now, unless a step has waited for them. The slot is as it was set.
  void FinishArrival(int32_t slot);
  // Steps so far that named a slot with rows that had not arrived.
  int64_t num_gated_steps() const { return num_gated_steps_; }

  // Steps so far that computed such a slot from its content, and what each such step takes longer.
  int64_t num_bridged_steps() const { return num_bridged_steps_; }
  void set_bridge_ns(int64_t bridge_ns) { bridge_ns_ = bridge_ns; }
  // What each row of a step takes.
  void set_row_ns(int64_t row_ns) { row_ns_ = row_ns; }
  // What steps that are not begun ahead take besides.
  void set_gap_ns(int64_t gap_ns) { gap_ns_ = gap_ns; }

  // The last plan, for tests that look at one.
  const StepPlan& last_plan() const { return last_plan_; }
  int64_t num_steps() const { return num_steps_; }
  // A hash of all plans so far, to compare two builds by.
  uint64_t plans_hash() const { return plans_hash_; }

 private:
  struct Cell {
    uint64_t digest = 0;
    int32_t position = -1;
  };
  struct SlotState {
    SamplingSpec sampling;
    int64_t num_prompt = 0;  // with the virtual tokens
    int64_t num_drawn = 0;   // output tokens so far
    int32_t num_virtual_tokens = 0;
    std::vector<int32_t> tokens;  // virtual ones, prompt, output
    double pooled = 0.0;          // the sum of the prompt's tokens
    bool poisoned = false;
  };

  void CheckPlan(const StepPlan& plan) const;
  static void CheckDrafts(const StepPlan& plan, const PlannedSequence& planned);
  void CheckAhead(const StepPlan& plan) const;
  static void CheckUntouched(const StepPlan& plan, int32_t slot,
                             const std::vector<PageExtent>& extents);
  void AwaitArrivals(const StepPlan& plan);
  bool IsBridged(const StepPlan& plan) const;
  void ApplyStarts(const StepPlan& plan);
  // What the slot's rows are by now: the content, or something else where they were overwritten.
  uint64_t ReadAdapter(int32_t slot) const;
  size_t UnitOf(const PageExtent& extent, int64_t offset) const;
  void Fail(const StepPlan& plan, StepResult* result);
  static void Pool(const PlannedSequence& planned, size_t position, SlotState& slot,
                   SequenceResult* result);
  SequenceResult RunSequence(const StepPlan& plan, const PlannedSequence& planned);
  // Writes the adapter's keys and values, where the plan says so.
  void WriteVirtualKv(const StepPlan& plan, const PlannedSequence& planned, uint64_t adapter,
                      uint64_t seed);
  void ReadRow(const StepPlan& plan, const PlannedSequence& planned, int32_t row, int32_t token,
               uint64_t adapter, uint64_t seed);
  DrawnToken DrawAfter(const StepPlan& plan, const PlannedSequence& planned, int32_t row);
  bool FillMask(const StepPlan& plan, const PlannedSequence& planned);
  Cell& CellOf(const StepPlan& plan, const PlannedSequence& planned, int32_t position);

  const ExecutorLimits limits_;
  const BridgeRates bridge_rates_;
  std::vector<Cell> cells_;  // [num_pages][page_tokens]
  struct SlotAdapter {
    std::string content;
    std::vector<PageExtent> extents;
    bool is_arriving = false;  // until FinishArrival
    bool is_written = false;
  };
  void WriteRows(SlotAdapter& adapter);
  std::vector<uint64_t> units_;        // of kRowAlignment bytes of all pages, adapters' rows
  std::vector<SlotAdapter> adapters_;  // by slot
  std::vector<std::optional<SlotState>> slots_;  // by sequence slot
  std::deque<const StepPlan*> plans_;            // begun, not finished
  bool fails_ = false;                           // the next step
  bool is_late_ = false;                         // the timeout has passed in this step
  std::function<void()> beside_;
  bool is_beside_late_ = false;
  int64_t idle_ns_ = -1;
  bool is_followed_ = false;
  int64_t others_ns_ = 0;
  int64_t last_timeout_ns_ = -1;
  MaskSource* masks_ = nullptr;
  bool may_ask_ = false;         // for the masks of the step begun first
  std::vector<uint32_t> words_;  // of the mask that was asked for last
  StepPlan last_plan_;
  int64_t num_steps_ = 0;
  uint64_t plans_hash_ = 0;
  int64_t num_gated_steps_ = 0;
  int64_t num_bridged_steps_ = 0;
  int64_t bridge_ns_ = 0;
  int64_t row_ns_ = 10;
  int64_t gap_ns_ = 0;
};

}  // namespace graft
