// Orders of several parties, taken in turns: those of one party in the order in which they came.
// The caller's lock is held over every call.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace graft {

template <typename Party, typename Order>
class TurnQueue {
 public:
  void Push(const Party& party, Order order) {
    std::deque<Order>& orders = orders_[party];
    if (orders.empty()) turns_.push_back(party);
    orders.push_back(std::move(order));
  }
  // The next order, of the parties that may have one now; nothing where there is none.
  template <typename May>
  std::optional<Order> TakeNext(const May& may) {
    for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
      if (!may(*turn)) continue;
      const Party party = *turn;
      turns_.erase(turn);
      std::deque<Order>& orders = orders_[party];
      Order order = std::move(orders.front());
      orders.pop_front();
      if (orders.empty()) {
        orders_.erase(party);
      } else {
        turns_.push_back(party);
      }
      return order;
    }
    return std::nullopt;
  }
  std::optional<Order> TakeNext() {
    return TakeNext([](const Party&) { return true; });
  }
  bool empty() const { return turns_.empty(); }

 private:
  std::map<Party, std::deque<Order>> orders_;  // by party, none empty
  std::deque<Party> turns_;                    // the parties, the next one first
};

}  // namespace graft
