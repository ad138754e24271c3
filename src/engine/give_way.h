// GiveWay: which running sequences give way to others. For a request that finds no batch slot, no
// pages or no room for its adapter, it preempts sequences of tenants that have more of that for
// their weight and were served no less (MayTake), so that nothing goes back and forth. At the end
// of a turn it preempts younger sequences. After the other passes, decoding sequences give up their
// rows, so that a step which ends a prompt stays short. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/adapter_turn.h"
#include "engine/sequences.h"
#include "engine/step_room.h"
#include "engine/verdict.h"

namespace graft {

class GiveWay {
 public:
  // All are borrowed. `room` has the rows of the plan.
  GiveWay(Sequences& sequences, const AdapterTurn& turn, const StepRoom& room)
      : sequences_(sequences), turn_(turn), room_(room) {}

  // A plan begins. Where `beside_step`, the step runs already: none can be taken out of it.
  void Begin(bool beside_step) {
    is_beside_step_ = beside_step;
    has_made_room_ = false;
  }

  // Preempts sequences so that the adapter of this request, which waits, finds room. False: none is
  // preempted; so it is below.
  bool GiveRoomForAdapter(const Sequence& sequence);
  // Preempts sequences of other tenants, which then hold so many pages less in all.
  bool GivePages(const Sequence& sequence, int32_t num_missing);
  // Preempts a sequence of another tenant.
  bool GivePlace(const Sequence& sequence);

  // Called after all prompts have their rows. Each tenant with a prompt that ends in the step gets
  // its first token by the step. If other tenants have so many decoding sequences that the step
  // would take more than twice as long as without them, the newest of these sequences give up their
  // rows. They have their rows in the next step, in which no sequence gives way.
  void GiveRows(std::vector<Verdict>* verdicts);

 private:
  // Sequences that run, chosen to be preempted. Valid until others are chosen.
  using Givers = std::span<const Sequence* const>;

  Givers GiversOfRoom(const Sequence& sequence, bool ends_turn);
  bool CouldMakeRoom(int32_t content, Givers givers);
  Givers GiversOfPages(const Sequence& sequence, int32_t num_missing);
  int32_t NumOwnPages(const Sequence& sequence) const;
  bool HasMany(const TenantLine& tenant) const {
    return tenant.num_decoding > room_.AsOthers(&tenant, tenant.share.weight);
  }

  Sequences& sequences_;
  const AdapterTurn& turn_;
  const StepRoom& room_;
  bool is_beside_step_ = false;
  bool has_made_room_ = false;  // at this turn's end
  bool gave_rows_ = false;      // some that decode did, in the last plan with a walk
  // Scratch, so that a step allocates nothing once warm.
  std::vector<const Sequence*> givers_;
  std::vector<const Sequence*> by_content_;
  std::vector<int32_t> kept_, contents_, pages_;
  std::vector<TenantLine*> many_;
};

}  // namespace graft
