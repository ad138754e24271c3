// The scheduler's waiting line: whose adapter is there, who may run ahead of whom, and for how
// long.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/scheduler.h"

namespace graft {
namespace {

// Requests in line that are looked at for what can run ahead, and those whose adapters are asked
// for before their turn has come.
constexpr size_t kWaitingLookedAt = 1024;
constexpr int32_t kPrefetchesMax = 16;

}  // namespace

void Scheduler::UpdateAdapters() {
  for (const auto& [content, status] : adapters_.Update()) FailWaiting(content, status);
}

// Whoever runs on a content has it; whoever waits for it waits in vain.
void Scheduler::FailWaiting(int32_t content, const Status& status) {
  for (auto& sequence : waiting_) {
    if (sequence->adapter.content() != content) continue;
    sequence->finish_reason = FinishReason::kError;
    sequence->status = status;
    failed_.push_back(std::move(sequence));
  }
  std::erase(waiting_, nullptr);
}

std::vector<std::unique_ptr<Sequence>> Scheduler::TakeFailed() {
  return std::exchange(failed_, {});
}

void Scheduler::AdmitWaiting(int32_t rows_left) {
  const int64_t now_ns = clock_.NowNs();
  Admission& admission = admission_;
  admission = {.rows_left = rows_left};
  if (options_.cold_start == ColdStart::kAuto) {
    admission.num_planned = static_cast<int32_t>(
        std::count_if(running_.begin(), running_.end(),
                      [](const auto& sequence) { return sequence->num_planned > 0; }));
    admission.stall = StallOfPlanned();
  }
  admission.turn_is_over = turn_begin_ns_ >= 0 && now_ns - turn_begin_ns_ >= options_.turn_ns;
  WalkLine(admission);
  if (!admission.has_blocked) {
    turn_begin_ns_ = -1;
  } else if (turn_begin_ns_ < 0 || admission.turn_is_over) {
    turn_begin_ns_ = now_ns;
  }
  if (admission.turn_is_over) ++stats_.turns;
}

void Scheduler::WalkLine(Admission& admission) {
  while (!admission.has_stopped && admission.idx < std::min(waiting_.size(), kWaitingLookedAt)) {
    const Next next = ConsiderWaiting(admission.idx, admission);
    admission.has_stopped = next == Next::kStop;
    if (next == Next::kPassed) ++admission.idx;
  }
}

// The walk goes on where it ended, but nobody can begin, or be preempted, any more.
void Scheduler::LoadAhead() {
  if (options_.cold_start == ColdStart::kBlocking) return;
  admission_.rows_left = 0;
  admission_.turn_is_over = false;
  WalkLine(admission_);
}

Scheduler::Next Scheduler::ConsiderWaiting(size_t idx, Admission& admission) {
  Sequence& next = *waiting_[idx];
  const bool can_run = admission.rows_left > 0 && !free_slots_.empty();
  if (!can_run && admission.num_prefetches >= kPrefetchesMax) return Next::kStop;
  if (next.adapter.content() >= 0) {
    if (!can_run) ++admission.num_prefetches;
    if (WaitsForAdapter(next, can_run, admission)) {
      if (next.finish_reason != FinishReason::kNone) return Next::kAdmitted;  // failed, and gone
      return options_.cold_start == ColdStart::kBlocking ? Next::kStop : Next::kPassed;
    }
    next.prefix_key.adapter_hash = adapters_.HashOf(next.adapter.content());
  }
  if (!can_run) return Next::kPassed;
  // At the turn's end those who found no room go first; others run ahead again in the next step.
  if (admission.has_blocked && admission.turn_is_over) return Next::kPassed;
  const Status cut = CutToPool(next);
  if (!cut.ok()) {
    next.finish_reason = FinishReason::kError;
    next.status = cut;
    failed_.push_back(std::move(waiting_[idx]));
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(idx));
    return Next::kAdmitted;
  }
  PageList matched;
  if (CanReusePages(next)) {
    // The last token is always computed: its logits are what the step is for.
    matched = tree_.Match(next.prefix_key, std::span(next.tokens).first(next.tokens.size() - 1));
  }
  if (!FitsNow(next, matched, admission.pages_kept)) {
    if (options_.cold_start == ColdStart::kBlocking) return Next::kStop;
    // Nobody behind it gets a page; but their adapters may come as far as the host.
    admission.lacks_pages = true;
    admission.rows_left = 0;
    return Next::kPassed;
  }
  std::unique_ptr<Sequence> sequence = std::move(waiting_[idx]);
  waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(idx));
  Start(std::move(sequence), std::move(matched));
  PlanChunk(next, admission.rows_left);
  CHECK_GT(next.num_planned, 0) << "admitted without a page";
  admission.rows_left -= next.num_planned;
  ++admission.num_planned;
  return Next::kAdmitted;
}

// Asks for its adapter; one that arrives is waited for by the step. Pages are given in the order of
// the line: behind somebody without room nobody gets any.
bool Scheduler::WaitsForAdapter(Sequence& sequence, bool can_run, Admission& admission) {
  using Answer = AdapterResidency::Answer;
  const int32_t content = sequence.adapter.content();
  const bool has_pages = !admission.has_blocked && !admission.lacks_pages;
  const auto* const make_room = has_pages ? &make_room_ : nullptr;
  Answer answer = adapters_.Want(content, make_room);
  if (answer == Answer::kNoRoom && make_room != nullptr && admission.turn_is_over &&
      !std::exchange(admission.has_made_room, true)) {
    for (const Sequence* const younger : WhoMakesRoom(sequence)) Preempt(*younger);
    answer = adapters_.Want(content, make_room);
  }
  while (answer != Answer::kReady && answer != Answer::kNoRoom &&
         options_.cold_start == ColdStart::kBlocking && adapters_.is_busy()) {
    loader_.WaitForEvent();
    UpdateAdapters();
    if (sequence.finish_reason != FinishReason::kNone) return true;
    answer = adapters_.Want(content, make_room);
  }
  if (answer == Answer::kNoRoom && !admission.lacks_pages) admission.has_blocked = true;
  if (answer == Answer::kArriving && can_run && BeginsWhileArriving(sequence, admission)) {
    return false;
  }
  sequence.waited_for_adapter |= answer != Answer::kReady && can_run;
  if (answer == Answer::kComing || answer == Answer::kArriving) {
    admission.pages_kept += PagesFor(sequence.num_tokens() + 1);
  }
  return answer != Answer::kReady;
}

bool Scheduler::BeginsWhileArriving(const Sequence& sequence, Admission& admission) const {
  if (options_.cold_start != ColdStart::kAuto) return BeginsEarly(options_.cold_start);
  const auto arrival = adapters_.ForecastOf(sequence.adapter.content());
  if (!arrival.has_value() || !costs_.steps.is_known()) return admission.num_planned == 0;
  const ColdStartCase step = {
      .arrival = *arrival,
      .num_rows = options_.step_tokens_max - admission.rows_left,
      .num_others = admission.num_planned,
      .stall = admission.stall,
      .num_rows_joining =
          std::min({sequence.num_pending(), admission.rows_left, options_.prefill_chunk_max}),
      .is_adapter_named = IsNamed(sequence.adapter.content())};
  if (!BeginsNow(step, costs_)) return false;
  admission.stall = StallWith(step, costs_);
  return true;
}

bool Scheduler::IsNamed(int32_t content) const {
  return std::any_of(running_.begin(), running_.end(), [content](const auto& sequence) {
    return sequence->num_planned > 0 && sequence->adapter.content() == content;
  });
}

// By those whose adapters still arrive.
ArrivalStall Scheduler::StallOfPlanned() const {
  if (!adapters_.is_copying() || !costs_.steps.is_known()) return {};
  ColdStartCase step;
  for (const auto& sequence : running_) step.num_rows += sequence->num_planned;
  std::set<int32_t> contents;
  for (const auto& sequence : running_) {
    const int32_t content = sequence->adapter.content();
    if (sequence->num_planned == 0 || content < 0 || !adapters_.is_arriving(content)) continue;
    const auto arrival = adapters_.ForecastOf(content);
    if (!arrival.has_value()) continue;
    step.arrival = *arrival;
    step.is_adapter_named = !contents.insert(content).second;
    step.num_rows_joining = sequence->num_planned;
    step.num_rows -= sequence->num_planned;
    step.stall = StallWith(step, costs_);
    step.num_rows += sequence->num_planned;
  }
  return step.stall;
}

void Scheduler::CountColdStart(Sequence& sequence) {
  if (adapters_.is_arriving(sequence.adapter.content())) {
    ++admission_.num_early;
  } else if (sequence.waited_for_adapter) {
    ++stats_.join_later_starts;
  }
  sequence.waited_for_adapter = false;
}

// Of those who came later: the sequences of one adapter that is nobody else's, if that is enough,
// and then those that are computed anew for the least; else all of them, if that is.
std::vector<const Sequence*> Scheduler::WhoMakesRoom(const Sequence& sequence) {
  const int32_t content = sequence.adapter.content();
  std::vector<const Sequence*> younger;
  std::map<int32_t, std::vector<const Sequence*>> by_content;
  std::set<int32_t> kept;
  for (const auto& other : running_) {
    if (other->order < sequence.order) {
      kept.insert(other->adapter.content());
      continue;
    }
    younger.push_back(other.get());
    by_content[other->adapter.content()].push_back(other.get());
  }
  if (!CouldMakeRoom(content, younger)) return {};
  int64_t least_tokens = std::numeric_limits<int64_t>::max();
  for (auto& [other, sequences] : by_content) {
    if (other < 0 || kept.contains(other)) continue;
    int64_t tokens = 0;
    for (const Sequence* const one : sequences) tokens += one->num_computed;
    if (tokens >= least_tokens || !CouldMakeRoom(content, sequences)) continue;
    least_tokens = tokens;
    younger = sequences;
  }
  return younger;
}

bool Scheduler::CouldMakeRoom(int32_t content, std::span<const Sequence* const> sequences) {
  std::vector<int32_t> contents;
  std::unordered_map<int32_t, int32_t> references;  // of theirs, by page
  for (const Sequence* const one : sequences) {
    if (one->adapter.content() >= 0) contents.push_back(one->adapter.content());
    for (int32_t i = 0; i < one->pages.size(); ++i) ++references[one->pages.page(i)];
  }
  // What others share with them stays.
  const auto num_pages = std::count_if(references.begin(), references.end(), [&](const auto& page) {
    return page.second == pool_.references(page.first);
  });
  return adapters_.CouldBePlaced(content, contents, static_cast<int32_t>(num_pages));
}

// A sequence and its adapter share the pool. What was promised beyond that ends earlier, as at the
// end of the context.
Status Scheduler::CutToPool(Sequence& sequence) const {
  const int32_t beside = adapters_.NumPagesBeside(sequence.adapter.content());
  const int32_t num_pages = std::min(options_.kv_pages_max, options_.num_pages - beside);
  const int64_t tokens = int64_t{num_pages} * options_.page_tokens;
  const int64_t wanted = sequence.num_prompt_tokens + (sequence.output_tokens_max > 0 ? 1 : 0);
  if (wanted > tokens) {
    return InvalidArgumentError(
        "the pool has room for " + std::to_string(std::max<int64_t>(tokens, 0)) +
        " tokens beside the request's adapter, its prompt has " +
        std::to_string(sequence.num_prompt_tokens) +
        "; shorten it, or start the server with a larger pool (--pool-gib)");
  }
  sequence.output_tokens_max = static_cast<int32_t>(
      std::min<int64_t>(sequence.output_tokens_max, tokens - sequence.num_prompt_tokens));
  return OkStatus();
}

// Room for all its tokens and one more, after what running prefills will still take and a page of
// growth for everyone: else it would soon be preempted again, or bounce straight back in the plan
// that preempted it. Alone it may always start, once no adapter is on its way: then all else can be
// evicted, at the latest in the next step.
bool Scheduler::FitsNow(const Sequence& sequence, const PageList& matched,
                        int32_t pages_kept) const {
  const int32_t by_pages =
      pool_.num_free() + pool_.num_cached() + adapters_.packer().num_reclaimable();
  const int32_t by_quota =
      pool_.quota(PageUse::kKv) - pool_.num_used(PageUse::kKv) + pool_.num_cached();
  const int32_t available = std::min(by_pages, by_quota);
  if (running_.empty() && !adapters_.is_copying()) return available > 0;
  int32_t promised = pages_kept;
  for (const auto& other : running_) {
    promised += 1 + std::max(0, PagesFor(other->num_tokens()) - other->pages.size());
  }
  const int32_t wanted = PagesFor(sequence.num_tokens() + 1) - matched.size();
  return wanted + promised <= available;
}

}  // namespace graft
