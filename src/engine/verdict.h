// Verdict: what a plan decides about a request when it looks at it, and why. Plain data. The passes
// of a plan (AdmissionWalk) write one list of verdicts, in the order in which the requests had
// their turn. A verdict says nothing of what came after that turn: a sequence that goes on or
// begins may be preempted for a later request, or left out for one that runs alone.
#pragma once

#include <cstdint>

#include "request/request.h"

namespace graft {

struct Verdict {
  enum class Why : uint8_t {
    // The request was given rows in the step.
    kGoesOn,       // a chunk of its prompt, which was begun in an earlier step
    kBegins,       // its first rows
    kBeginsEarly,  // its first rows, while its adapter still arrives on the device
    // The request can never run: it leaves the line, and Scheduler::TakeFailed has the reason.
    kFails,
    // Its adapter is not there (WantAdapters).
    kAdapterComing,  // it is being fetched or copied
    kAdapterQueued,  // others' fetches have all places
    kNoAdapterRoom,  // it finds no slot or no pages
    kNotAskedFor,    // the plan has asked for as many adapters ahead of time as it may
    // Its adapter is there, but the step has no room for the request (AdmitPrompts).
    kNoRows,    // others have the step's rows
    kNoPlace,   // as many sequences run as may
    kNoPages,   // its tokens find no pages
    kBehind,    // a request that it must not overtake lacks pages
    kTurnEnds,  // at the end of a turn those that had no room for their adapters go first
    // It decodes, but has no row, so that a step which ends a prompt stays short (GiveWay).
    kGivesWay,
  };

  RequestId request;
  Why why = Why::kGoesOn;
};

// Whether a request with this verdict waits no more.
inline bool HasLeftLine(Verdict::Why why) {
  using Why = Verdict::Why;
  return why == Why::kBegins || why == Why::kBeginsEarly || why == Why::kFails;
}

}  // namespace graft
