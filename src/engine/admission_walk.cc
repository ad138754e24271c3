#include "engine/admission_walk.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace graft {
namespace {

// Requests in line whose adapters are asked for before their turn has come.
constexpr int32_t kPrefetchesMax = 16;

}  // namespace

void AdmissionWalk::Admit(int32_t rows_left, int32_t num_rows) {
  const int64_t now_ns = clock_.NowNs();
  state_ = {.rows_left = rows_left, .num_rows = num_rows};
  if (cold_start() == ColdStart::kAuto) {
    state_.num_planned = static_cast<int32_t>(
        std::count_if(sequences_.running().begin(), sequences_.running().end(),
                      [](const auto& sequence) { return sequence->num_planned > 0; }));
    state_.stall = StallOfPlanned();
  }
  state_.turn_is_over = is_turn() && now_ns - turn_begin_ns_ >= sequences_.options().turn_ns;
  Walk();
  if (!state_.has_blocked) {
    turn_begin_ns_ = -1;
  } else if (!is_turn() || state_.turn_is_over) {
    turn_begin_ns_ = now_ns;
  }
  if (state_.turn_is_over) ++sequences_.stats().turns;
}

void AdmissionWalk::Walk() {
  const auto looked_at = static_cast<size_t>(sequences_.options().waiting_looked_at);
  while (!state_.has_stopped && state_.idx < std::min(sequences_.waiting().size(), looked_at)) {
    const Next next = Consider(state_.idx);
    state_.has_stopped = next == Next::kStop;
    if (next == Next::kPassed) ++state_.idx;
  }
}

// The walk goes on where it ended, but nobody can begin, or be preempted, any more.
void AdmissionWalk::LoadAhead() {
  if (cold_start() == ColdStart::kBlocking) return;
  sequences_.adapters().ReadClock();
  state_.rows_left = 0;
  state_.turn_is_over = false;
  Walk();
}

AdmissionWalk::Next AdmissionWalk::Consider(size_t idx) {
  Sequence& next = *sequences_.waiting()[idx];
  const bool can_run = state_.rows_left > 0 && sequences_.has_slot();
  if (!can_run && state_.num_prefetches >= kPrefetchesMax) return Next::kStop;
  if (next.adapter.content() >= 0) {
    if (!can_run) ++state_.num_prefetches;
    if (WaitsForAdapter(next, can_run)) {
      return cold_start() == ColdStart::kBlocking ? Next::kStop : Next::kPassed;
    }
    next.prefix_key.adapter_hash = sequences_.adapters().HashOf(next.adapter.content());
  }
  if (!can_run) return Next::kPassed;
  // At the turn's end those who found no room go first; others run ahead again in the next step.
  if (state_.has_blocked && state_.turn_is_over) return Next::kPassed;
  const Status cut = CutToPool(next);
  if (!cut.ok()) {
    sequences_.FailWaiting(idx, cut);
    return Next::kAdmitted;
  }
  const PrefixMatch before = next.prefix_match;
  const PrefixMatch match = Find(next);
  if (!FitsNow(next, match)) {
    // Looked up, they count as used.
    if (match.generation != before.generation) sequences_.tree().Share(match);
    if (cold_start() == ColdStart::kBlocking) return Next::kStop;
    // Nobody behind it gets a page; but their adapters may come as far as the host.
    state_.lacks_pages = true;
    state_.rows_left = 0;
    return Next::kPassed;
  }
  CountColdStart(next);
  sequences_.Start(idx, sequences_.tree().Share(match));
  sequences_.PlanChunk(next, state_.rows_left);
  CHECK_GT(next.num_planned, 0) << "admitted without a page";
  state_.rows_left -= next.num_planned;
  state_.num_rows += next.num_planned;
  ++state_.num_planned;
  return Next::kAdmitted;
}

// What was found for it stays true until a page comes or goes just there: who waits for room is not
// looked up anew in every step.
const PrefixMatch& AdmissionWalk::Find(Sequence& sequence) {
  PrefixTree& tree = sequences_.tree();
  if (!sequences_.CanReusePages(sequence) || tree.IsCurrent(sequence.prefix_match)) {
    return sequence.prefix_match;
  }
  // The last token is always computed: its logits are what the step is for.
  const int32_t num_sharable = sequences_.SharableTokens(sequence, sequence.num_tokens() - 1);
  const auto tokens = std::span(sequence.tokens).first(static_cast<size_t>(num_sharable));
  sequence.prefix_match = tree.Find(sequence.prefix_key, tokens);
  sequences_.stats().prefix_pages_searched += 1 + sequence.prefix_match.num_pages;
  return sequence.prefix_match;
}

// Asks for its adapter; one that arrives is waited for by the step. Pages are given in the order of
// the line: behind somebody without room nobody gets any.
bool AdmissionWalk::WaitsForAdapter(Sequence& sequence, bool can_run) {
  using Answer = AdapterResidency::Answer;
  AdapterResidency& adapters = sequences_.adapters();
  const int32_t content = sequence.adapter.content();
  const bool has_pages = !state_.has_blocked && !state_.lacks_pages;
  const auto* const make_room = has_pages ? &sequences_.make_room() : nullptr;
  Answer answer = adapters.Want(content, make_room);
  if (answer == Answer::kNoRoom && make_room != nullptr && state_.turn_is_over &&
      !std::exchange(state_.has_made_room, true)) {
    for (const Sequence* const younger : WhoMakesRoom(sequence)) sequences_.Preempt(*younger);
    answer = adapters.Want(content, make_room);
  }
  if (answer == Answer::kReady) return false;
  if (answer == Answer::kNoRoom && !state_.lacks_pages) state_.has_blocked = true;
  if (cold_start() == ColdStart::kBlocking && answer != Answer::kNoRoom && adapters.is_busy()) {
    state_.stops_for_load = true;
    return true;
  }
  if (answer == Answer::kArriving && can_run && BeginsWhileArriving(sequence)) return false;
  sequence.waited_for_adapter |= can_run;
  if (answer == Answer::kComing || answer == Answer::kArriving) {
    state_.pages_kept += sequences_.PagesFor(sequence.num_tokens() + 1);
  }
  return true;
}

bool AdmissionWalk::BeginsWhileArriving(const Sequence& sequence) {
  if (cold_start() != ColdStart::kAuto) return BeginsEarly(cold_start());
  const SchedulerOptions& options = sequences_.options();
  const auto arrival = sequences_.adapters().ForecastOf(sequence.adapter.content());
  if (!arrival.has_value() || !costs_.steps.is_known()) return state_.num_planned == 0;
  const ColdStartCase step = {
      .arrival = *arrival,
      .num_rows = state_.num_rows,
      .num_others = state_.num_planned,
      .stall = state_.stall,
      .num_rows_joining =
          std::min({sequence.num_pending(), state_.rows_left, options.prefill_chunk_max}),
      .is_adapter_named = IsNamed(sequence.adapter.content())};
  if (!BeginsNow(step, costs_)) return false;
  state_.stall = StallWith(step, costs_);
  return true;
}

bool AdmissionWalk::IsNamed(int32_t content) const {
  return std::any_of(sequences_.running().begin(), sequences_.running().end(),
                     [content](const auto& sequence) {
                       return sequence->num_planned > 0 && sequence->adapter.content() == content;
                     });
}

// How long the planned rows stall because their adapters still arrive.
ArrivalStall AdmissionWalk::StallOfPlanned() {
  AdapterResidency& adapters = sequences_.adapters();
  if (!adapters.is_copying() || !costs_.steps.is_known()) return {};
  ColdStartCase step;
  for (const auto& sequence : sequences_.running()) step.num_rows += sequence->num_planned;
  std::set<int32_t> contents;
  for (const auto& sequence : sequences_.running()) {
    const int32_t content = sequence->adapter.content();
    if (sequence->num_planned == 0 || content < 0 || !adapters.is_arriving(content)) continue;
    const auto arrival = adapters.ForecastOf(content);
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

void AdmissionWalk::CountColdStart(Sequence& sequence) {
  const int32_t content = sequence.adapter.content();
  if (content >= 0 && sequences_.adapters().is_arriving(content)) {
    ++state_.num_early;
  } else if (sequence.waited_for_adapter) {
    ++sequences_.stats().join_later_starts;
  }
  sequence.waited_for_adapter = false;
}

// The younger sequences that must make room: if that suffices, those of one adapter that no older
// one uses, the cheapest to compute anew; else all of them, if that suffices; else none.
std::vector<const Sequence*> AdmissionWalk::WhoMakesRoom(const Sequence& sequence) {
  const int32_t content = sequence.adapter.content();
  std::vector<const Sequence*> younger;
  std::map<int32_t, std::vector<const Sequence*>> by_content;
  std::set<int32_t> kept;
  for (const auto& other : sequences_.running()) {
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

bool AdmissionWalk::CouldMakeRoom(int32_t content, std::span<const Sequence* const> sequences) {
  std::vector<int32_t> contents;
  std::unordered_map<int32_t, int32_t> references;  // of theirs, by page
  for (const Sequence* const one : sequences) {
    if (one->adapter.content() >= 0) contents.push_back(one->adapter.content());
    for (int32_t i = 0; i < one->pages.size(); ++i) ++references[one->pages.page(i)];
  }
  // What others share with them stays.
  const auto num_pages = std::count_if(references.begin(), references.end(), [&](const auto& page) {
    return page.second == sequences_.pool().references(page.first);
  });
  return sequences_.adapters().CouldBePlaced(content, contents, static_cast<int32_t>(num_pages));
}

// A sequence and its adapter share the pool. What was promised beyond that ends earlier, as at the
// end of the context.
Status AdmissionWalk::CutToPool(Sequence& sequence) const {
  const SchedulerOptions& options = sequences_.options();
  const int32_t beside = sequences_.adapters().NumPagesBeside(sequence.adapter.content());
  const int32_t num_pages = std::min(options.kv_pages_max, options.num_pages - beside);
  const int64_t tokens = int64_t{num_pages} * options.page_tokens;
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
bool AdmissionWalk::FitsNow(const Sequence& sequence, const PrefixMatch& match) {
  const PagePool& pool = sequences_.pool();
  const AdapterResidency& adapters = sequences_.adapters();
  const int32_t by_pages =
      pool.num_free() + pool.num_cached() + adapters.packer().num_reclaimable();
  const int32_t by_quota =
      pool.quota(PageUse::kKv) - pool.num_used(PageUse::kKv) + pool.num_cached();
  const int32_t available = std::min(by_pages, by_quota);
  const bool is_alone = sequences_.running().empty() && !adapters.is_copying();
  int32_t needed = 1;
  if (!is_alone) {
    needed = sequences_.PagesFor(sequence.num_tokens() + 1) - match.num_pages + state_.pages_kept;
    for (const auto& other : sequences_.running()) {
      needed += 1 + std::max(0, sequences_.PagesFor(other->num_tokens()) - other->pages.size());
    }
  }
  // Its own leading pages could be evicted, too, but must not be.
  return needed <= available && needed + sequences_.tree().NumCached(match) <= available;
}

}  // namespace graft
