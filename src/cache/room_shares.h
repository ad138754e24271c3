// RoomShares: how much of the device's room each tenant holds: pages of KV, bytes of adapters in
// pages, slots of adapters, and places among the fetches. If room is short, the tenant that holds
// most for its weight gives up what it has cached or idle. So a tenant that floods the server
// evicts its own. Pages and adapters in use count, too. A tenant that has had no request for long
// gives first. A holder is the number of a tenant, from its first request on until it has no
// request and holds nothing. Every change is O(1). Engine thread only.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cache/heaviest_order.h"

namespace graft {

// The holder of what belongs to no tenant, such as an adapter that stays for ever.
inline constexpr int32_t kNobody = -1;

// What a holder may have that can be evicted.
enum class Evictable : uint8_t { kPrefixes, kAdapters };

class RoomShares {
 public:
  // `clock` is borrowed. A tenant without requests keeps its share for `kept_ns`.
  RoomShares(const Clock& clock, int64_t page_bytes, int64_t kept_ns)
      : clock_(clock), page_bytes_(page_bytes > 0 ? page_bytes : 1), kept_ns_(kept_ns) {}

  // A request of the tenant comes, or is gone for good.
  int32_t Enter(const std::string& tenant, double weight);
  void Leave(int32_t holder);

  // Changes of what a holder has; without effect for kNobody.
  void AddPages(int32_t holder, int32_t num_pages);                // of KV
  void AddAdapter(int32_t holder, int64_t bytes, int32_t change);  // change: 1 or -1, with a slot
  void AddFetch(int32_t holder, int32_t change);
  int32_t num_fetches(int32_t holder) const { return at(holder).num_fetches; }

  // Whether the holder has something of the kind that can be evicted.
  void SetEvictable(int32_t holder, Evictable kind, bool has_some);
  // The holder that is to give up something of one of these kinds: of the holders that have some,
  // the one that holds most in pages. -1: none has any.
  int32_t GiverOfPages(bool of_prefixes, bool of_adapters);
  // The holder of most slots, to give up an idle adapter for its slot; -1: none has one.
  int32_t GiverOfSlot();

  int32_t num_holders() const { return static_cast<int32_t>(holder_of_tenant_.size()); }
  int32_t num_pages(int32_t holder) const { return at(holder).num_pages; }
  int32_t num_adapters(int32_t holder) const { return at(holder).num_adapters; }
  // For tests.
  Status CheckIntegrity() const;

 private:
  struct Holder {
    std::string tenant;
    double weight = 1.0;
    int32_t num_requests = 0;
    int32_t num_pages = 0;  // of KV
    int32_t num_adapters = 0;
    int32_t num_fetches = 0;
    int64_t adapter_bytes = 0;
    int64_t left_ns = 0;    // when its last request was gone
    bool is_known = false;  // the number is in use
    bool is_past = false;   // it had none for long
    bool has_some[2] = {};  // by Evictable
    bool is_empty() const { return num_requests + num_pages + num_adapters + num_fetches == 0; }
  };

  const Holder& at(int32_t holder) const { return holders_[static_cast<size_t>(holder)]; }
  Holder& at(int32_t holder) { return holders_[static_cast<size_t>(holder)]; }
  void Place(int32_t holder);
  void ForgetIfEmpty(int32_t holder);
  void NotePast();

  const Clock& clock_;
  const int64_t page_bytes_;
  const int64_t kept_ns_;
  std::vector<Holder> holders_;  // by number
  std::vector<int32_t> free_;
  std::unordered_map<std::string, int32_t> holder_of_tenant_;
  HeaviestOrder by_pages_[2];  // by Evictable: those that have some
  HeaviestOrder by_slots_;     // those that have idle adapters
  HeaviestOrder leaving_;      // without requests and not past, in one bucket: first left is first
};

}  // namespace graft
