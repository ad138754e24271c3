#include "engine/fake_loader.h"

#include <algorithm>

namespace graft {

Result<AdapterFacts> FakeLoader::Read(const FetchOrder& order) {
  const auto folder = folders_.find(order.path);
  std::string hash = order.hash;
  if (host_.count(hash) == 0) {
    ++num_fetches_;
    if (folder != folders_.end()) hash = folder->second;
    if (hash.empty()) return NotFoundError(order.path + " is broken");
    if (!order.hash.empty() && hash != order.hash) {
      return FailedPreconditionError(order.path + " has changed");
    }
    host_.insert(hash);
  }
  AdapterFacts facts;
  facts.hash = hash;
  facts.rank_max = 1;
  facts.rows = {{2 * kRowAlignment, 3}};
  const auto rows = rows_.find(hash);
  if (rows != rows_.end() && !rows->second.empty()) facts.rows = rows->second;
  facts.bytes = RowsBytes(facts.rows);
  return facts;
}

void FakeLoader::Fetch(FetchOrder order) {
  pending_.push_back({delay_, false, {std::move(order), kNoAdapter, {}}});
  if (waker_) waker_();
}

void FakeLoader::Copy(CopyOrder order) {
  held_.erase(order.source.content);
  ++num_copies_;
  pending_.push_back({delay_, true, std::move(order)});
  if (waker_) waker_();
}

void FakeLoader::Drop(int32_t content) { held_.erase(content); }

void FakeLoader::Free(AdapterSlot slot) { executor_.SetAdapter(slot, ""); }

LoadEvent FakeLoader::Finish(const Pending& pending) {
  const FetchOrder& source = pending.order.source;
  LoadEvent event;
  event.kind = pending.is_copy ? LoadEvent::Kind::kCopied : LoadEvent::Kind::kFetched;
  event.content = source.content;
  Result<AdapterFacts> facts = Read(source);
  event.status = facts.status();
  if (!facts.ok()) return event;
  if (pending.is_copy) {
    CHECK_EQ(RowsBytes(facts->rows),
             pending.order.extents.back().source_begin + pending.order.extents.back().bytes);
    executor_.SetAdapter(pending.order.slot, facts->hash, pending.order.extents);
    return event;
  }
  held_.insert(source.content);
  if (on_read_) on_read_(source.key, *facts);
  event.facts = std::move(*facts);
  return event;
}

std::vector<LoadEvent> FakeLoader::TakeEvents() {
  std::vector<LoadEvent> events;
  for (Pending& pending : pending_) --pending.looks_left;
  while (!pending_.empty() && pending_.front().looks_left <= 0) {
    const Pending pending = std::move(pending_.front());
    pending_.pop_front();
    events.push_back(Finish(pending));
  }
  if (!pending_.empty() && waker_) waker_();  // the engine is to look again
  return events;
}

void FakeLoader::WaitForEvent() {
  if (!pending_.empty()) pending_.front().looks_left = 0;
}

}  // namespace graft
