#include "engine/want_adapters.h"

namespace graft {

std::optional<Verdict::Why> WantAdapters::Decide(Sequence& sequence, bool can_run) {
  if (sequence.adapter.content() < 0) return std::nullopt;
  early_.Count();
  if (!can_run) ++num_prefetches_;
  if (const auto waits = Ask(sequence, can_run); waits.has_value()) return waits;
  const Status learned = sequences_.LearnAdapter(sequence);
  if (learned.ok()) return std::nullopt;
  sequences_.FailWaiting(sequence, learned);
  return Verdict::Why::kFails;
}

std::optional<Verdict::Why> WantAdapters::Prefetch(Sequence& sequence) {
  const auto waits = Ask(sequence, /*can_run=*/false);
  if (!waits.has_value()) {
    sequence.prefix_key.adapter_hash = sequences_.adapters().HashOf(sequence.adapter.content());
  }
  return waits;
}

std::optional<Verdict::Why> WantAdapters::Ask(Sequence& sequence, bool can_run) {
  using Answer = Residency::Answer;
  using Why = Verdict::Why;
  const ColdStart cold_start = sequences_.options().cold_start;
  const Answer answer = WantFor(sequence);
  if (answer == Answer::kReady) return std::nullopt;
  if (cold_start == ColdStart::kBlocking && answer != Answer::kNoRoom &&
      sequences_.adapters().is_busy()) {
    stops_for_load_ = true;
    return Why::kAdapterComing;
  }
  if (answer == Answer::kArriving && can_run && early_.BeginsNow(sequence)) return std::nullopt;
  sequence.waited_for_adapter |= can_run;
  if (answer == Answer::kNoRoom) return Why::kNoAdapterRoom;
  return answer == Answer::kQueued ? Why::kAdapterQueued : Why::kAdapterComing;
}

// Pages are given in the order of the line. So an adapter gets none where its request stands behind
// one that lacks pages or room for an adapter, and it comes no further than the host's memory.
Residency::Answer WantAdapters::WantFor(const Sequence& sequence) {
  using Answer = Residency::Answer;
  Residency& adapters = sequences_.adapters();
  TenantLine& tenant = sequences_.line().TenantOf(sequence);
  const int32_t content = sequence.adapter.content();
  const bool is_behind_pages = pages_.KeepsFrom(tenant);
  const bool may_have_pages = !is_behind_pages && !adapter_room_.KeepsFrom(tenant);
  const auto* const make_room = may_have_pages ? &sequences_.make_room() : nullptr;
  Answer answer = adapters.Want(content, sequence.holder, make_room);
  if (answer == Answer::kNoRoom && may_have_pages && give_way_.GiveRoomForAdapter(sequence)) {
    answer = adapters.Want(content, sequence.holder, make_room);
  }
  if (answer == Answer::kNoRoom && !is_behind_pages) adapter_room_.Note(tenant, sequence);
  return answer;
}

}  // namespace graft
