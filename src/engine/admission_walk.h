// Decides which prompts have rows in the next step: which of those begun go on, and which requests
// of the line begin. It walks along the line, from the hindmost tenant (FairLine), with the rows
// that a plan has left. A request without its adapter on the device is passed by, or begins while
// the rows arrive. Others of its tenant may run ahead of it while its adapter is on its way and,
// where the adapter finds no room, until the turn ends (docs/inside/adapters-paging.md). Other
// tenants may overtake one that lacks room until they have been served as much as it asks for.
// There is no other overtaking. A tenant that runs too little for its weight takes places and pages
// from one that runs too much. Beside a step the walk goes on, to load adapters alone. Engine
// thread only.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/cold_start_choice.h"
#include "engine/sequences.h"
#include "engine/step_room.h"

namespace graft {

class AdmissionWalk {
 public:
  // All are borrowed; `costs` are those of the steps so far.
  AdmissionWalk(Sequences& sequences, const ColdStartCosts& costs, const Clock& clock)
      : sequences_(sequences), costs_(costs), clock_(clock), room_(costs.steps) {}

  // For a plan in which the decoding sequences have their rows already: num_rows.
  void PlanPrompts(int32_t rows_left, int32_t num_rows);
  // While the plan runs: asks for the adapters of requests that came since, as a plan would.
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
  static constexpr double kNobody = std::numeric_limits<double>::infinity();

  // What the walk knows so far.
  struct State {
    int32_t rows_left = 0;
    int32_t num_rows = 0;         // planned
    bool counts_stall = false;    // the next two are right
    int32_t num_planned = 0;      // sequences
    ArrivalStall stall;           // the step's, as far as is known
    int32_t num_early = 0;        // that begin while their adapter arrives
    bool is_beside_step = false;  // no sequence can be taken out of it
    bool turn_is_over = false;
    bool has_made_room = false;   // at the turn's end, for the first that had none
    bool has_blocked = false;     // a request's adapter finds no room
    bool stops_for_load = false;  // the steps stop
    bool has_stopped = false;     // no request further back gets anything
    int32_t num_looked_at = 0;    // in vain
    int32_t num_prefetches = 0;   // adapters asked for, for requests that could not run
    int32_t pages_kept = 0;       // for older requests with adapters on their way
    // Other tenants may overtake one that is blocked, or that lacks pages, up to this place in
    // virtual time.
    double passes_blocked = kNobody;
    double passes_lacking = kNobody;
  };
  enum class Next : uint8_t { kAdmitted, kPassed, kStop };

  ColdStart cold_start() const { return sequences_.options().cold_start; }
  bool OfferPrefills();
  void CountRows();
  void LoadFirst();
  void Walk(bool has_place);
  bool IsLookedAt(const TenantLine& tenant) const;
  void GoOn(Sequence& sequence);
  Next Consider(Sequence& next);
  Next Begin(Sequence& next, int32_t rows_max);
  int32_t RowsFor(const Sequence& sequence) const;
  void NoteRows(const Sequence& sequence);
  void GiveWay();
  bool IsBlocked(const TenantLine& tenant) const;
  bool LacksPages(const TenantLine& tenant) const;
  double ServedOf(const TenantLine& tenant) const;
  double ServedWith(const TenantLine& tenant, const Sequence& sequence) const;
  void CountStall();
  bool WaitsForAdapter(Sequence& sequence, bool can_run);
  bool BeginsWhileArriving(const Sequence& sequence);
  void CountColdStart(Sequence& sequence);
  bool IsNamed(int32_t content) const;
  const PrefixMatch& Find(Sequence& sequence);
  int32_t PagesMissing(const Sequence& sequence, const PrefixMatch& match);
  bool TakesRoom(const Sequence& sequence, const PrefixMatch& match);
  int32_t NumOwnPages(const Sequence& sequence) const;
  std::vector<const Sequence*> WhoGivesPages(const Sequence& sequence, int32_t num_missing) const;
  Status CutToPool(Sequence& sequence) const;
  bool MakesRoomFor(const Sequence& sequence);
  std::vector<const Sequence*> WhoMakesRoom(const Sequence& sequence, bool is_turn);
  bool CouldMakeRoom(int32_t content, std::span<const Sequence* const> sequences);

  Sequences& sequences_;
  const ColdStartCosts& costs_;
  const Clock& clock_;
  StepRoom room_;
  bool gave_way_ = false;         // some that decode, in the last plan
  State state_;                   // of the last plan
  std::vector<Sequence*> first_;  // of the line, with adapters
  uint64_t first_of_change_ = 0;  // of the line, after which they were looked for
  int64_t turn_begin_ns_ = -1;    // -1: every adapter that a request waits for has room
};

}  // namespace graft
