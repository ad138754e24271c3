#include "cache/room_shares.h"

#include "base/check.h"

namespace graft {
namespace {

constexpr size_t Index(Evictable kind) { return static_cast<size_t>(kind); }

// Keeps a slot of a tenant of great weight above the lowest bucket.
constexpr double kSlotUnits = 1 << 20;

}  // namespace

int32_t RoomShares::Enter(const std::string& tenant, double weight) {
  const auto [it, is_new] = holder_of_tenant_.try_emplace(tenant, kNobody);
  if (is_new) {
    if (free_.empty()) {
      free_.push_back(static_cast<int32_t>(holders_.size()));
      holders_.emplace_back();
    }
    it->second = free_.back();
    free_.pop_back();
    at(it->second).tenant = tenant;
    at(it->second).is_known = true;
  }
  Holder& holder = at(it->second);
  const bool has_changed = holder.weight != weight || holder.is_past;
  holder.weight = weight;
  holder.is_past = false;
  if (holder.num_requests++ == 0) leaving_.Remove(it->second);
  if (has_changed) Place(it->second);
  return it->second;
}

void RoomShares::Leave(int32_t number) {
  Holder& holder = at(number);
  CHECK_GT(holder.num_requests, 0) << "tenant '" << holder.tenant << "'";
  if (--holder.num_requests > 0) return;
  holder.left_ns = clock_.NowNs();
  leaving_.Put(number, 0);
  ForgetIfEmpty(number);
}

void RoomShares::AddPages(int32_t holder, int32_t num_pages) {
  if (holder == kNobody) return;
  at(holder).num_pages += num_pages;
  CHECK_GE(at(holder).num_pages, 0);
  Place(holder);
  ForgetIfEmpty(holder);
}

void RoomShares::AddAdapter(int32_t holder, int64_t bytes, int32_t change) {
  if (holder == kNobody) return;
  at(holder).num_adapters += change;
  at(holder).adapter_bytes += change * bytes;
  CHECK(at(holder).num_adapters >= 0 && at(holder).adapter_bytes >= 0);
  Place(holder);
  ForgetIfEmpty(holder);
}

void RoomShares::AddFetch(int32_t holder, int32_t change) {
  if (holder == kNobody) return;
  at(holder).num_fetches += change;
  CHECK_GE(at(holder).num_fetches, 0);
  ForgetIfEmpty(holder);
}

void RoomShares::SetEvictable(int32_t holder, Evictable kind, bool has_some) {
  if (holder == kNobody || at(holder).has_some[Index(kind)] == has_some) return;
  at(holder).has_some[Index(kind)] = has_some;
  if (has_some) return Place(holder);
  by_pages_[Index(kind)].Remove(holder);
  if (kind == Evictable::kAdapters) by_slots_.Remove(holder);
}

// Puts the holder where it belongs by what it holds now.
void RoomShares::Place(int32_t number) {
  const Holder& holder = at(number);
  if (!holder.has_some[0] && !holder.has_some[1]) return;
  const auto bucket_of = [&holder](double held) {
    return holder.is_past ? HeaviestOrder::kFirstBucket
                          : HeaviestOrder::BucketOf(held / holder.weight);
  };
  const int64_t bytes = holder.num_pages * page_bytes_ + holder.adapter_bytes;
  const int32_t by_bytes = bucket_of(static_cast<double>(bytes));
  for (const Evictable kind : {Evictable::kPrefixes, Evictable::kAdapters}) {
    if (holder.has_some[Index(kind)]) by_pages_[Index(kind)].Put(number, by_bytes);
  }
  if (holder.has_some[Index(Evictable::kAdapters)]) {
    by_slots_.Put(number, bucket_of(holder.num_adapters * kSlotUnits));
  }
}

void RoomShares::ForgetIfEmpty(int32_t number) {
  Holder& holder = at(number);
  if (!holder.is_empty()) return;
  CHECK(!holder.has_some[0] && !holder.has_some[1]) << "tenant '" << holder.tenant << "'";
  leaving_.Remove(number);
  holder_of_tenant_.erase(holder.tenant);
  holder = Holder();
  free_.push_back(number);
}

// Each holder that left is marked as past once.
void RoomShares::NotePast() {
  if (leaving_.First() < 0) return;
  const int64_t now_ns = clock_.NowNs();
  for (int32_t first = leaving_.First(); first >= 0; first = leaving_.First()) {
    if (now_ns - at(first).left_ns < kept_ns_) return;
    leaving_.Remove(first);
    at(first).is_past = true;
    Place(first);
  }
}

int32_t RoomShares::GiverOfPages(bool of_prefixes, bool of_adapters) {
  NotePast();
  const HeaviestOrder& prefixes = by_pages_[Index(Evictable::kPrefixes)];
  const HeaviestOrder& adapters = by_pages_[Index(Evictable::kAdapters)];
  if (!of_prefixes) return of_adapters ? adapters.First() : kNobody;
  if (!of_adapters || adapters.FirstBucket() <= prefixes.FirstBucket()) return prefixes.First();
  return adapters.First();
}

int32_t RoomShares::GiverOfSlot() {
  NotePast();
  return by_slots_.First();
}

Status RoomShares::CheckIntegrity() const {
  int32_t num_known = 0;
  for (size_t i = 0; i < holders_.size(); ++i) {
    const Holder& holder = holders_[i];
    const auto number = static_cast<int32_t>(i);
    const std::string name = "tenant '" + holder.tenant + "'";
    for (const Evictable kind : {Evictable::kPrefixes, Evictable::kAdapters}) {
      if (by_pages_[Index(kind)].Has(number) != holder.has_some[Index(kind)]) {
        return InternalError(name + " is in an order against what it has");
      }
    }
    if (by_slots_.Has(number) != holder.has_some[Index(Evictable::kAdapters)]) {
      return InternalError(name + " is in the order of slots against what it has");
    }
    if (holder.is_known == holder.is_empty()) return InternalError(name + " is known for nothing");
    if (!holder.is_known) continue;
    ++num_known;
    const auto found = holder_of_tenant_.find(holder.tenant);
    if (found == holder_of_tenant_.end() || found->second != number) {
      return InternalError(name + " is not found by its name");
    }
    const bool is_leaving = holder.num_requests == 0 && !holder.is_past;
    if (leaving_.Has(number) != is_leaving) return InternalError(name + " left unnoticed");
  }
  if (num_known != num_holders()) return InternalError("a holder is lost");
  return OkStatus();
}

}  // namespace graft
