// ServedTime: the virtual time of parties that share a machine by work, the virtual token counter
// of "Fairness in Serving Large Language Models" (OSDI 2024). A party's position is the number of
// tokens that it was served, divided by its weight. The party that is furthest behind goes next. A
// party that comes back begins no further behind than the party that is furthest behind among the
// others. So no party saves up time in which it wanted nothing, and none loses by what others did
// meanwhile. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace graft {

// What a party has of its machine.
struct Share {
  double weight = 1.0;        // above 0
  double served = 0.0;        // its place in virtual time
  int32_t num_in_flight = 0;  // requests
  int32_t num_running = 0;    // of them
  size_t active_idx = 0;      // among those with requests in flight

  void Charge(double tokens) { served += tokens / weight; }
};

// Whether the taker then has no more of something for its weight than the giver.
inline bool HasNoMore(const Share& taker, double taker_has_then, const Share& giver,
                      double giver_has_then) {
  return taker_has_then * giver.weight <= giver_has_then * taker.weight;
}

// Whether something of the giver's should become the taker's: if the taker then has no more of it
// for its weight than the giver, and was served no more. So nothing goes back and forth.
inline bool MayTake(const Share& taker, double taker_has_then, const Share& giver,
                    double giver_has_then) {
  return taker.served <= giver.served && HasNoMore(taker, taker_has_then, giver, giver_has_then);
}

// The parties with requests in flight. Party has a `share`, and stays where it is.
template <typename Party>
class ServedTime {
 public:
  // One more request of the party is in flight, or one less.
  void Enter(Party& party) {
    Share& share = party.share;
    if (share.num_in_flight++ > 0) return;
    if (!active_.empty()) now_ = std::max(now_, Hindmost());
    share.served = std::max(share.served, now_);
    share.active_idx = active_.size();
    active_.push_back(&party);
  }
  void Leave(Party& party) {
    Share& share = party.share;
    CHECK_GT(share.num_in_flight, 0);
    if (--share.num_in_flight > 0) return;
    active_[share.active_idx] = active_.back();
    active_[share.active_idx]->share.active_idx = share.active_idx;
    active_.pop_back();
  }

  const std::vector<Party*>& active() const { return active_; }
  // Whether the party may be forgotten: if it came back it would begin at the same place, or there
  // is no other party.
  bool IsPast(const Party& party) const {
    return party.share.num_in_flight == 0 && (active_.empty() || party.share.served <= now_);
  }

 private:
  double Hindmost() const {
    double least = active_.front()->share.served;
    for (const Party* const party : active_) least = std::min(least, party->share.served);
    return least;
  }

  std::vector<Party*> active_;
  double now_ = 0.0;  // never goes back
};

}  // namespace graft
