// AdmissionWalk decides which prompts are computed in the next step: which of those begun go on,
// and which waiting requests begin. It walks along the line in which they wait, beginning with the
// tenant that is furthest behind (FairLine). Each request that it looks at goes through two passes,
// WantAdapters and AdmitPrompts. The third, GiveWay, preempts for those that found no room. For
// each request a Verdict says what was decided, and why.
//
// The first two passes alternate, request by request, because each depends on what the other did
// for the requests before. The rows that a tenant was given decide which tenant is next, and
// adapters and requests draw on one pool of pages, which are given in the order of the line.
//
// A request that waits for its adapter is passed by. Shortage and AdapterTurn say which other
// requests may then overtake it, and for how long. Otherwise requests with one API key begin in
// the order of the line. While the step runs, the walk goes on for requests that came since, only
// to load their adapters. Engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/adapter_turn.h"
#include "engine/admit_prompts.h"
#include "engine/early_starts.h"
#include "engine/give_way.h"
#include "engine/sequences.h"
#include "engine/shortage.h"
#include "engine/step_room.h"
#include "engine/verdict.h"
#include "engine/want_adapters.h"

namespace graft {

class AdmissionWalk {
 public:
  // All are borrowed; `costs` are those of the steps so far.
  AdmissionWalk(Sequences& sequences, const ColdStartCosts& costs, const Clock& clock);

  // For a plan in which the decoding sequences have their rows already: num_rows.
  void PlanPrompts(int32_t rows_left, int32_t num_rows);
  // While the plan runs: asks for the adapters of requests that came since, as a plan would.
  void LoadAhead();
  // For a plan that was made ahead: such a plan admits no request.
  void Skip();

  // Those of the last plan. A request that no step had room for is not looked at in every plan. One
  // that was looked at twice has two, and the last one holds.
  std::span<const Verdict> verdicts() const { return verdicts_; }
  // How many sequences of the last plan begin while their adapter arrives.
  int32_t num_early() const;
  // Nothing may run until a load has ended (ColdStart::kBlocking): an event of the loader says so.
  bool stops_for_load() const { return wants_.stops_for_load(); }
  // A request's adapter finds no room, and other requests run ahead until the turn ends.
  bool is_turn() const { return turn_.is_running(); }
  // What the planned rows lose to adapters on their way.
  ArrivalStall StallOfPlanned() { return early_.StallOfPlanned(); }

 private:
  void Begin(int32_t num_rows, int32_t rows_left, bool beside_step);
  bool OfferPrefills();
  void CountRows();
  void Walk(bool has_place);
  Verdict::Why Decide(Sequence& next);
  bool EndsLine(Verdict::Why why) const;
  bool IsLookedAt(const TenantLine& tenant) const;
  void Prefetch();
  void FindFirst();

  Sequences& sequences_;
  const Clock& clock_;
  StepRoom room_;
  AdapterTurn turn_;
  Shortage pages_;
  Shortage adapter_room_;
  EarlyStarts early_;
  GiveWay give_way_;
  WantAdapters wants_;
  AdmitPrompts admits_;
  std::vector<Verdict> verdicts_;  // reused, so that a step allocates nothing once warm
  bool line_has_ended_ = false;    // no request further back gets anything in this plan
  std::vector<Sequence*> first_;   // of the line, with adapters
  uint64_t first_of_change_ = 0;   // of the line, after which they were looked for
};

}  // namespace graft
