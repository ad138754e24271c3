// Defects that can be put into a hostile simulation, in its own runners and links and never in the
// code under test. The simulation must find each of them; otherwise a seed that finds nothing would
// prove nothing. Plain data.
#pragma once

#include <cstdint>

namespace graft {

enum class Defect : uint8_t {
  kNone,
  kLosesTokens,       // a runner leaves a token out of what it tells
  kDoublesTokens,     // or tells it twice
  kChangesTokens,     // a request that goes on elsewhere draws others
  kMixesArithmetics,  // runners that compute otherwise say that they compute alike
  kForgetsRequests,   // a runner does not take in what it is asked for
  kForgetsCancels,    // a runner does not take in what is cancelled
  kServesTheDead,     // a runner keeps the requests of frontends that have gone
  kHidesSteps,        // a runner does not tell which requests its steps hold
  kForgetsDeaths,     // a link does not tell that its runner has gone, and calls no other
  kForgetsLeases,     // etcd keeps what stands under leases that are over
  kEndsLeasesEarly,   // or ends them before their time
  kIgnoresCompares,   // or makes changes with conditions that do not hold
  kLosesChanges,      // or leaves changes out of what it tells a watch
  kReadsOld,          // or answers reads as it was when it was kept last
  kHidesDoubt,        // a client says that nothing was changed where that is not known
};

}  // namespace graft
