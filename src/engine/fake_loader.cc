#include "engine/fake_loader.h"

#include <algorithm>
#include <tuple>

#include "cache/content_sum.h"

namespace graft {
namespace {

constexpr int64_t kCopyNs = 500;  // half a step of EngineHarness

}  // namespace

std::string FakeLoader::HashOfSum(std::vector<AdapterPart> parts) {
  SortParts(&parts);
  return ContentSumHash(parts);
}

Result<AdapterFacts> FakeLoader::ReadSum(const FetchOrder& order) {
  std::vector<AdapterPart> parts = order.parts;
  for (AdapterPart& part : parts) {
    ASSIGN_OR_RETURN(const AdapterFacts facts, Read({.path = part.path, .hash = part.hash}));
    if (part.hash.empty() && on_read_) on_read_(part.key, facts);
    part.hash = facts.hash;
  }
  const std::string hash = HashOfSum(std::move(parts));
  host_.insert(hash);
  return FactsOf(hash);
}

Result<AdapterFacts> FakeLoader::Read(const FetchOrder& order) {
  if (!order.parts.empty() && host_.count(order.hash) == 0) return ReadSum(order);
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
  return FactsOf(hash);
}

std::optional<AdapterFacts> FakeLoader::FindInHost(const std::string& hash) const {
  if (host_.count(hash) == 0) return std::nullopt;
  return FactsOf(hash);
}

AdapterFacts FakeLoader::FactsOf(const std::string& hash) const {
  AdapterFacts facts;
  facts.hash = hash;
  facts.rank_max = 1;
  facts.rows = {{2 * kRowAlignment, 3}};
  const auto rows = rows_.find(hash);
  if (rows != rows_.end() && !rows->second.empty()) facts.rows = rows->second;
  facts.bytes = RowsBytes(facts.rows);
  facts.num_layers = 4;
  if (const auto found = virtual_tokens_.find(hash); found != virtual_tokens_.end()) {
    std::tie(facts.num_virtual_tokens, facts.has_virtual_kv) = found->second;
  }
  const auto invocation = invocations_.find(hash);
  if (invocation != invocations_.end()) facts.invocation_tokens = invocation->second;
  return facts;
}

void FakeLoader::Fetch(FetchOrder order) {
  const bool hangs = hung_.contains(order.path);
  Pending pending = {delay_, false, false, {std::move(order), kNoAdapter, {}}, OkStatus()};
  if (hangs) {
    hanging_.push_back({std::move(pending)});
  } else {
    pending_.push_back(std::move(pending));
  }
  if (waker_) waker_();
}

void FakeLoader::ReleaseFolder(const std::string& path, const Status& status) {
  hung_.erase(path);
  std::erase_if(hanging_, [&](Hanging& one) {
    if (one.pending.order.source.path != path) return false;
    one.pending.looks_left = 0;
    one.pending.status = status;
    pending_.push_front(std::move(one.pending));
    return true;
  });
}

bool FakeLoader::Copy(CopyOrder order) {
  const bool usable = held_.erase(order.source.content) > 0 || host_.count(order.source.hash) != 0;
  ++num_copies_;
  if (usable) {
    host_.insert(order.source.hash);  // where it is held until the copy ends
    Give(order, *Read(order.source));
  }
  pending_.push_back({delay_, true, usable, std::move(order), OkStatus()});
  if (waker_) waker_();
  return usable;
}

void FakeLoader::Give(const CopyOrder& order, const AdapterFacts& facts) {
  CHECK_EQ(RowsBytes(facts.rows), order.extents.back().source_begin + order.extents.back().bytes);
  executor_.SetAdapter(order.slot, facts.hash, order.extents);
}

void FakeLoader::Drop(int32_t content) { held_.erase(content); }

void FakeLoader::Free(AdapterSlot slot) { executor_.SetAdapter(slot, ""); }

LoadEvent FakeLoader::Finish(const Pending& pending) {
  const FetchOrder& source = pending.order.source;
  LoadEvent event;
  event.kind = pending.is_copy ? LoadEvent::Kind::kCopied : LoadEvent::Kind::kFetched;
  event.content = source.content;
  if (pending.is_copy) event.copy_ns = kCopyNs;
  if (pending.usable) {
    executor_.FinishArrival(pending.order.slot);
    return event;
  }
  event.status = pending.status;
  if (!event.status.ok()) return event;
  Result<AdapterFacts> facts = Read(source);
  event.status = facts.status();
  if (!facts.ok()) return event;
  if (pending.is_copy) {
    Give(pending.order, *facts);
    executor_.FinishArrival(pending.order.slot);
    return event;
  }
  held_.insert(source.content);
  if (on_read_ && source.parts.empty()) on_read_(source.key, *facts);
  event.facts = std::move(*facts);
  return event;
}

std::vector<LoadEvent> FakeLoader::TakeEvents() {
  std::vector<LoadEvent> events;
  for (Hanging& hanging : hanging_) {
    if (std::exchange(hanging.is_announced, true)) continue;
    LoadEvent& event = events.emplace_back();
    event.kind = LoadEvent::Kind::kSlow;
    event.content = hanging.pending.order.source.content;
  }
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
