// Sequences: the scheduler's sequences, waiting and running, and what they hold of the device:
// pages, slots, adapters. The scheduler's other parts decide; this class carries out and keeps
// account. Invariants: running sequences are in the order of arrival. A page belongs to the
// sequences that refer to it, to the prefix tree or to adapters, or is free. What a step begun
// ahead may still read or write is not reused before that step is done. Engine thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cache/content_table.h"
#include "cache/page_pool.h"
#include "cache/prefix_tree.h"
#include "cache/room_shares.h"
#include "engine/fair_line.h"
#include "engine/residency.h"
#include "engine/scheduler_options.h"
#include "engine/sequence.h"
#include "step/adapter_loader.h"
#include "step/executor.h"
#include "step/step_plan.h"

namespace graft {

class Sequences {
 public:
  using List = std::vector<std::unique_ptr<Sequence>>;

  // All referred to must outlive it.
  Sequences(const SchedulerOptions& options, const ExecutorLimits& limits, ContentTable& table,
            AdapterLoader& loader, const Clock& clock, Residency::OnForget on_forget);

  // Both with what was left open decided.
  const SchedulerOptions& options() const { return options_; }
  const ExecutorLimits& limits() const { return limits_; }
  const PagePool& pool() const { return pool_; }
  PrefixTree& tree() { return tree_; }
  const PrefixTree& tree() const { return tree_; }
  const Residency& adapters() const { return adapters_; }
  Residency& adapters() { return adapters_; }
  const RoomShares& shares() const { return shares_; }
  const SchedulerStats& stats() const { return stats_; }
  SchedulerStats& stats() { return stats_; }
  const FairLine& line() const { return line_; }
  FairLine& line() { return line_; }
  const List& running() const { return running_; }
  bool empty() const { return line_.empty() && running_.empty(); }
  bool has_slot() const { return num_free_slots() > 0; }
  int32_t num_free_slots() const { return static_cast<int32_t>(free_slots_.size()); }

  int32_t PagesFor(int32_t num_tokens) const {
    return (num_tokens + limits_.page_tokens - 1) / limits_.page_tokens;
  }
  // Results that are made of a whole prompt need the whole prompt computed.
  bool CanReusePages(const Sequence& sequence) const {
    return options_.prefix_cache && !sequence.wants_whole_prompt();
  }
  // The number of leading tokens in pages that it may share with other sequences.
  int32_t SharableTokens(const Sequence& sequence, int32_t num_tokens) const {
    const bool shares_all = options_.shares_drawn_pages ||
                            (sequence.adapter.content() < 0 && !options_.tells_base_rows);
    return shares_all ? num_tokens : std::min(num_tokens, sequence.num_prompt_tokens);
  }
  // Its leading pages that are in the prefix tree, or belong there.
  int32_t NumIndexable(const Sequence& sequence) const {
    if (!options_.prefix_cache) return 0;
    return SharableTokens(sequence, sequence.num_computed) / limits_.page_tokens;
  }
  // The most tokens of a sequence that the whole pool can hold the KV of.
  int64_t tokens_max() const { return int64_t{pool_.quota(PageUse::kKv)} * limits_.page_tokens; }
  // Before the first sequence: so many pages are adapters' alone and the others KV's alone, to
  // compare with one pool for both.
  void SplitPool(int32_t adapter_pages);

  // Puts the sequence into the line.
  void Add(std::unique_ptr<Sequence> sequence);
  // Takes these out, wherever they stand, and gives back what they hold; unknown ids are ignored.
  List Remove(std::span<const RequestId> ids);
  List RemoveAll();
  // Tick moves the pool's time on. UpdateAdapters books the loader's work; sequences that cannot
  // have their adapter fail.
  void Tick() { pool_.Tick(); }
  void UpdateAdapters();
  // Takes one out of the line, for the reason that `status` gives.
  void FailWaiting(const Sequence& sequence, const Status& status);
  // Fails the newest of the tenant's that wait and have drawn nothing; false: there is none.
  bool FailNewestWaiting(const std::string& tenant, const Status& status);
  List TakeFailed() { return std::exchange(failed_, {}); }
  bool has_failed() const { return !failed_.empty(); }

  // The adapter of a sequence in line was fetched: what it is, from where on it acts, and the
  // virtual tokens that it puts in front. Fails where the context has no room for them.
  Status LearnAdapter(Sequence& sequence) const;
  // One of the line runs from now on; `matched` has its leading tokens.
  void Start(const Sequence& sequence, PageList matched);
  // As many rows as the step, the chunk limit and the pages to be had allow; may be none.
  void PlanChunk(Sequence& sequence, int32_t rows_left);
  // One page more: a free one, or one that eviction frees. False: all are in use.
  bool TakePage(Sequence& sequence);
  // Puts a running sequence back to its place in the line. Its tokens stay.
  void Preempt(const Sequence& sequence);
  // The sequence to preempt where this one lacks a page, maybe itself: the newest of the least
  // priority, of the tenant with most pages for its weight. The oldest of all gives way to none.
  const Sequence& VictimFor(const Sequence& sequence) const;
  // This tenant's newest sequence that runs.
  const Sequence& NewestOf(const TenantLine& tenant) const;
  std::vector<RequestId> TakeEvicted() { return std::exchange(evicted_, {}); }
  // What Want and Pin of the adapters evict with.
  const Residency::MakeRoom& make_room() const { return make_room_; }

  // Adds its rows to a plan, with the pages that they read and write.
  void AppendRows(const Sequence& sequence, PlannedSequence planned, StepPlan* plan) const;
  // Gives back the pages that only drafts were in; no other sequence refers to them.
  void TrimPages(Sequence& sequence) const {
    sequence.pages.Truncate(PagesFor(sequence.num_tokens()));
  }
  // Puts the pages that are full into the prefix tree.
  void IndexFullPages(Sequence& sequence);
  // Ends the running sequences that have a finish reason.
  void EndFinished();
  List TakeFinished() { return std::exchange(finished_, {}); }
  bool has_finished() const { return !finished_.empty(); }

  // A step was begun ahead with a row for each of these sequences. What the sequences release from
  // now on is kept until that step is done. A sequence that ends before then is null in EndAhead's
  // list.
  void BeginAhead(const std::vector<Sequence*>& planned);
  bool is_ahead() const { return is_ahead_; }
  // The step's turn comes: `planned` becomes the sequences that its rows belong to.
  void EndAhead(std::vector<Sequence*>* planned);
  // The step that runs is done: what was kept for it is given back.
  void GiveBackHeld();

  // Between steps: every page, reference and slot is accounted for. For tests and fuzzers.
  Status CheckIntegrity() const;

 private:
  Status AddVirtualTokens(Sequence& sequence) const;
  // What a running sequence has of the device.
  struct Holdings {
    PageList pages;
    ContentLease adapter;  // of one that ended
    int32_t content = -1;  // -1: base model
    int32_t sequence_slot = -1;
  };
  void Release(Sequence& sequence);
  void Leave(Sequence& sequence);
  void GiveBack(Holdings& holdings);
  void FailWaitingFor(int32_t content, const Status& status);
  void Fail(std::unique_ptr<Sequence> sequence, const Status& status);
  bool EvictFor(PageUse use);
  Status CheckRunning(const Sequence& sequence) const;
  Status CheckQueues() const;

  const SchedulerOptions options_;
  ExecutorLimits limits_;
  RoomShares shares_;
  PagePool pool_;
  PrefixTree tree_;
  Residency adapters_;
  const Residency::MakeRoom make_room_;
  FairLine line_;
  List running_;  // oldest first
  List finished_;
  List failed_;
  std::vector<RequestId> evicted_;  // preempted, and not started again
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> free_slots_;
  uint64_t next_number_ = 0;
  // What sequences with a row in a step begun ahead have released while it runs: all pages of
  // sequences that ended, and pages given up for equal ones of the prefix tree. If these were free
  // earlier, an adapter could be copied into them.
  bool is_ahead_ = false;
  std::vector<Sequence*> ahead_planned_;
  std::vector<Holdings> held_;
  PageList replaced_;
  SchedulerStats stats_;
};

}  // namespace graft
