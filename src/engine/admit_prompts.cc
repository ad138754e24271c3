#include "engine/admit_prompts.h"

#include <algorithm>
#include <string>
#include <utility>

namespace graft {

int32_t AdmitPrompts::RowsFor(const Sequence& sequence) const {
  const TenantLine& tenant = sequences_.line().TenantOf(sequence);
  return room_.RowsFor(&tenant, tenant.num_rows, tenant.share.weight);
}

void AdmitPrompts::NoteRows(const Sequence& sequence) {
  const int32_t num_rows = sequence.num_planned;
  sequences_.line().AddRows(sequence, num_rows);
  const TenantLine& tenant = sequences_.line().TenantOf(sequence);
  room_.Add(&tenant, tenant.num_rows, tenant.share.weight, num_rows,
            num_rows == sequence.num_pending());
  early_.NotePlanned();
}

// A prompt that finds no page takes those of another sequence (VictimFor). Where it would be the
// victim itself, it has no rows in this step. The oldest sequence that runs has to go on in any
// case. If even that one finds no page, idle adapters that requests of this step wait for give up
// theirs.
Verdict::Why AdmitPrompts::GoOn(Sequence& sequence) {
  const int32_t rows_max = RowsFor(sequence);
  if (rows_max <= 0) return Verdict::Why::kNoRows;
  sequences_.PlanChunk(sequence, rows_max);
  while (sequence.num_planned == 0) {
    const Sequence& victim = sequences_.VictimFor(sequence);
    if (&victim == &sequence) break;
    sequences_.Preempt(victim);
    sequences_.PlanChunk(sequence, rows_max);
  }
  if (sequence.num_planned == 0 && sequences_.running().front().get() == &sequence) {
    sequences_.adapters().LetWantedGo();
    sequences_.PlanChunk(sequence, rows_max);
  }
  if (sequence.num_planned == 0) return Verdict::Why::kNoPages;
  NoteRows(sequence);
  return Verdict::Why::kGoesOn;
}

Verdict::Why AdmitPrompts::Prospect(const Sequence& sequence) const {
  const FairLine& line = sequences_.line();
  const TenantLine& tenant = line.TenantOf(sequence);
  if (pages_.KeepsFrom(tenant)) return Verdict::Why::kBehind;
  if (RowsFor(sequence) <= 0) return Verdict::Why::kNoRows;
  const bool has_place = sequences_.has_slot() || line.GiverOfPlace(tenant) != nullptr;
  return has_place ? Verdict::Why::kBegins : Verdict::Why::kNoPlace;
}

Verdict::Why AdmitPrompts::Decide(Sequence& sequence) {
  TenantLine& tenant = sequences_.line().TenantOf(sequence);
  // Those that ran ahead of a request without room run ahead again in the next step.
  if (turn_.is_over() && adapter_room_.KeepsFrom(tenant)) return Verdict::Why::kTurnEnds;
  const Status cut = CutToPool(sequence);
  if (!cut.ok()) {
    sequences_.FailWaiting(sequence, cut);
    return Verdict::Why::kFails;
  }
  const int32_t rows_max = RowsFor(sequence);
  const uint64_t generation_before = sequence.prefix_match.generation;
  const PrefixMatch match = Find(sequence);
  if (!TakesRoom(sequence, match)) {
    // Pages that were looked up count as used.
    if (match.generation != generation_before) sequences_.tree().Share(match);
    pages_.Note(tenant, sequence);
    return Verdict::Why::kNoPages;
  }
  const bool is_early = IsEarly(sequence);
  sequences_.Start(sequence, sequences_.tree().Share(match));
  sequences_.PlanChunk(sequence, rows_max);
  CHECK_GT(sequence.num_planned, 0) << "admitted without a page";
  NoteRows(sequence);
  return is_early ? Verdict::Why::kBeginsEarly : Verdict::Why::kBegins;
}

// Whether it begins while its adapter arrives; counts those that waited until theirs was there.
bool AdmitPrompts::IsEarly(Sequence& sequence) {
  const int32_t content = sequence.adapter.content();
  const bool is_early = content >= 0 && sequences_.adapters().is_arriving(content);
  const bool has_waited = std::exchange(sequence.waited_for_adapter, false);
  if (has_waited && !is_early) ++sequences_.stats().join_later_starts;
  return is_early;
}

// A match stays true until a page comes or goes just there: a request that waits for room is not
// looked up anew in every step.
const PrefixMatch& AdmitPrompts::Find(Sequence& sequence) {
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

// A sequence and its adapter share the pool. An answer that would not fit ends earlier, as at the
// end of the context.
Status AdmitPrompts::CutToPool(Sequence& sequence) const {
  const ExecutorLimits& limits = sequences_.limits();
  const int32_t beside = sequences_.adapters().NumPagesBeside(sequence.adapter.content());
  const int32_t num_pages =
      std::min(sequences_.pool().quota(PageUse::kKv), limits.num_pages - beside);
  const int64_t tokens = int64_t{num_pages} * limits.page_tokens;
  const int64_t wanted = sequence.num_prompt_tokens + (sequence.output_tokens_max > 0 ? 1 : 0);
  if (wanted > tokens) {
    const std::string in_front =
        sequence.num_virtual_tokens == 0
            ? ""
            : " and " + std::to_string(sequence.num_virtual_tokens) + " of the adapter in front";
    return InvalidArgumentError(
        "the pool has room for " + std::to_string(std::max<int64_t>(tokens, 0)) +
        " tokens beside the request's adapter, its prompt has " +
        std::to_string(sequence.num_asked_tokens()) + in_front +
        "; shorten it, or start the server with a larger pool (--pool-gib)");
  }
  sequence.output_tokens_max = static_cast<int32_t>(
      std::min<int64_t>(sequence.output_tokens_max, tokens - sequence.num_prompt_tokens));
  return OkStatus();
}

// The pages that a request lacks to begin. It needs pages for all its tokens and one more. Those
// that it shares with the prefix tree it has. Pages that running prefills will still take, one of
// growth for each running sequence, and those of requests that wait for adapters on their way are
// kept for these. With less the sequence would soon be preempted again, or begin again in the very
// plan that preempted it. While nothing runs and no adapter is on its way it may always begin: then
// all else can be evicted, in the next step at the latest.
int32_t AdmitPrompts::PagesMissing(const Sequence& sequence, const PrefixMatch& match) const {
  const PagePool& pool = sequences_.pool();
  const Residency& adapters = sequences_.adapters();
  const int32_t by_pages =
      pool.num_free() + pool.num_cached() + adapters.packer().num_reclaimable();
  const int32_t by_quota =
      pool.quota(PageUse::kKv) - pool.num_used(PageUse::kKv) + pool.num_cached();
  const int32_t available = std::min(by_pages, by_quota);
  const bool is_alone = sequences_.running().empty() && !adapters.is_copying();
  // Keys and values that an adapter brings are written in one step.
  int32_t needed = std::max(1, sequences_.PagesFor(sequence.next_position() + 1) - match.num_pages);
  if (!is_alone) {
    needed = sequences_.PagesFor(sequence.num_tokens() + 1) - match.num_pages + pages_kept_;
    for (const auto& other : sequences_.running()) {
      needed += 1 + std::max(0, sequences_.PagesFor(other->num_tokens()) - other->pages.size());
    }
  }
  // Its own leading pages could be evicted, too, but must not be.
  return needed + sequences_.tree().NumCached(match) - available;
}

// Free pages and a free place, or those of other tenants, which are preempted for it.
bool AdmitPrompts::TakesRoom(const Sequence& sequence, const PrefixMatch& match) {
  const int32_t num_missing = PagesMissing(sequence, match);
  if (num_missing > 0) {
    if (!give_way_.GivePages(sequence, num_missing)) return false;
    if (PagesMissing(sequence, match) > 0) return false;
  }
  return sequences_.has_slot() || give_way_.GivePlace(sequence);
}

}  // namespace graft
