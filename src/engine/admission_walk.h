// Which requests in line run from the next step on: a walk along the line, from the first, with the
// rows that a plan has left. A request whose adapter is not on the device is passed by, or begins
// while the rows arrive. Younger requests may run ahead of it while its adapter is on its way, and
// until the turn ends where the adapter finds no room (docs/adapters-paging.md). Otherwise nobody
// overtakes. Beside a step the walk goes on, to load adapters alone. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/cold_start_choice.h"
#include "engine/sequences.h"

namespace graft {

class AdmissionWalk {
 public:
  // All are borrowed; `costs` are those of the steps so far.
  AdmissionWalk(Sequences& sequences, const ColdStartCosts& costs, const Clock& clock)
      : sequences_(sequences), costs_(costs), clock_(clock) {}

  // For a plan in which the running sequences have their rows, num_rows, already.
  void Admit(int32_t rows_left, int32_t num_rows);
  // While the plan runs: asks for the adapters of requests that came since, as a plan
  // would.
  void LoadAhead();
  // For a plan that was made ahead: such a plan admits no request.
  void Skip() { state_ = {}; }

  // How many sequences of the last plan begin while their adapter arrives.
  int32_t num_early() const { return state_.num_early; }
  // Nothing may run until a load has ended (ColdStart::kBlocking): an event of the loader says so.
  bool stops_for_load() const { return state_.stops_for_load; }
  // A request's adapter finds no room, and other requests run ahead until the turn ends.
  bool is_turn() const { return turn_begin_ns_ >= 0; }
  // What the planned rows lose to adapters on their way.
  ArrivalStall StallOfPlanned();

 private:
  // What the walk knows so far.
  struct State {
    size_t idx = 0;  // of whom it looks at
    int32_t rows_left = 0;
    int32_t num_rows = 0;     // planned
    int32_t num_planned = 0;  // sequences
    int32_t num_early = 0;    // that begin while their adapter arrives
    ArrivalStall stall;       // the step's, as far as is known
    bool turn_is_over = false;
    bool has_made_room = false;   // at the turn's end, for the first who had none
    bool has_blocked = false;     // somebody's adapter finds no room
    bool lacks_pages = false;     // somebody whose adapter is there does
    bool stops_for_load = false;  // the steps do
    bool has_stopped = false;     // nobody further back gets anything
    int32_t num_prefetches = 0;  // requests whose adapters were asked for though they could not run
    int32_t pages_kept = 0;      // for older requests whose adapters are on their way
  };
  enum class Next : uint8_t { kAdmitted, kPassed, kStop };

  ColdStart cold_start() const { return sequences_.options().cold_start; }
  void Walk();
  Next Consider(size_t idx);
  bool WaitsForAdapter(Sequence& sequence, bool can_run);
  bool BeginsWhileArriving(const Sequence& sequence);
  void CountColdStart(Sequence& sequence);
  bool IsNamed(int32_t content) const;
  const PrefixMatch& Find(Sequence& sequence);
  bool FitsNow(const Sequence& sequence, const PrefixMatch& match);
  Status CutToPool(Sequence& sequence) const;
  std::vector<const Sequence*> WhoMakesRoom(const Sequence& sequence);
  bool CouldMakeRoom(int32_t content, std::span<const Sequence* const> sequences);

  Sequences& sequences_;
  const ColdStartCosts& costs_;
  const Clock& clock_;
  State state_;                 // of the last plan
  int64_t turn_begin_ns_ = -1;  // -1: everybody who waits for an adapter has room for it
};

}  // namespace graft
