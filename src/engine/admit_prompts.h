// AdmitPrompts: the second pass over a request decides whether it begins in this step, once its
// adapter is there. The request needs a row of the step (StepRoom), one of the batch slots, and
// pages for all its tokens (PagesMissing). Prompts that were begun in earlier steps go on by the
// same rules for rows. A request that finds no pages is passed by; requests behind it get pages as
// far as Shortage allows. Engine thread only.
#pragma once

#include <cstdint>

#include "engine/adapter_turn.h"
#include "engine/early_starts.h"
#include "engine/give_way.h"
#include "engine/sequences.h"
#include "engine/shortage.h"
#include "engine/step_room.h"
#include "engine/verdict.h"

namespace graft {

class AdmitPrompts {
 public:
  // All are borrowed.
  AdmitPrompts(Sequences& sequences, StepRoom& room, const AdapterTurn& turn, Shortage& pages,
               const Shortage& adapter_room, EarlyStarts& early, GiveWay& give_way)
      : sequences_(sequences),
        room_(room),
        turn_(turn),
        pages_(pages),
        adapter_room_(adapter_room),
        early_(early),
        give_way_(give_way) {}

  // A plan begins.
  void Begin() { pages_kept_ = 0; }

  // A prompt that was begun in an earlier step: gives it a chunk of rows.
  Verdict::Why GoOn(Sequence& sequence);
  // What keeps a request of the line from beginning, but for its adapter and its own pages:
  // kBehind, kNoRows or kNoPlace. kBegins: nothing does.
  Verdict::Why Prospect(const Sequence& sequence) const;
  // A request of the line with its adapter there, or arriving, and a prospect of kBegins. It
  // begins, waits, or fails; in the first case and the last it has left the line.
  Verdict::Why Decide(Sequence& sequence);
  // The request waits for its adapter: further ones leave it its pages.
  void KeepPagesFor(const Sequence& sequence) {
    pages_kept_ += sequences_.PagesFor(sequence.num_tokens() + 1);
  }

 private:
  int32_t RowsFor(const Sequence& sequence) const;
  void NoteRows(const Sequence& sequence);
  Status CutToPool(Sequence& sequence) const;
  const PrefixMatch& Find(Sequence& sequence);
  int32_t PagesMissing(const Sequence& sequence, const PrefixMatch& match) const;
  bool TakesRoom(const Sequence& sequence, const PrefixMatch& match);
  bool IsEarly(Sequence& sequence);

  Sequences& sequences_;
  StepRoom& room_;
  const AdapterTurn& turn_;
  Shortage& pages_;
  const Shortage& adapter_room_;
  EarlyStarts& early_;
  GiveWay& give_way_;
  int32_t pages_kept_ = 0;  // for requests that wait for their adapters, which are on their way
};

}  // namespace graft
