// Items that can be evicted, in the order of last use: one list for each holder, longest unused
// first. Items and holders (RoomShares) are small numbers. An item enters when it becomes idle,
// nearly always at the end of its holder's list. Then every change is O(1), and allocates nothing
// except for new items and holders. Invariant: within a list no item was used before the one in
// front of it. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "cache/room_shares.h"

namespace graft {

class IdleOrder {
 public:
  // The item, which is in no line, enters its holder's, behind all that were used no later.
  void Put(int32_t item, int32_t holder, uint64_t used_at);
  // The item, which is in a line, leaves it.
  void Remove(int32_t item);

  // The holder of a line that the item is in; kNobody: it is in none.
  int32_t HolderOf(int32_t item) const {
    const auto idx = static_cast<size_t>(item);
    return item >= 0 && idx < nodes_.size() ? nodes_[idx].holder : kNobody;
  }
  bool Has(int32_t item) const { return HolderOf(item) != kNobody; }
  // The holder's item that went unused longest; -1: it has none.
  int32_t Oldest(int32_t holder) const {
    const auto idx = static_cast<size_t>(holder);
    return holder >= 0 && idx < lines_.size() ? lines_[idx].oldest : -1;
  }
  int32_t size() const { return size_; }
  // Items that others were compared with so far, to find their places. For tests.
  int64_t num_visits() const { return num_visits_; }

  // Lines, links and counts agree. For tests.
  Status CheckIntegrity() const;

 private:
  struct Node {
    int32_t holder = kNobody;
    int32_t before = -1;  // items beside it in its line, used longer ago and later
    int32_t after = -1;
    uint64_t used_at = 0;
  };
  struct Line {
    int32_t oldest = -1;
    int32_t newest = -1;
  };

  Node& at(int32_t item) { return nodes_[static_cast<size_t>(item)]; }
  const Node& at(int32_t item) const { return nodes_[static_cast<size_t>(item)]; }

  std::vector<Node> nodes_;  // by item
  std::vector<Line> lines_;  // by holder
  int32_t size_ = 0;
  int64_t num_visits_ = 0;
};

}  // namespace graft
