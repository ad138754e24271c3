// How many runners a fleet should have, and which of them could go. Ask for more if no runner is
// lightly loaded, and give back those without load (Punica, section 5.1). A runner takes time to
// start, so the load that counts is that at the end of a start. Pure: the owner passes the time.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "placement/fleet.h"

namespace graft {

struct ScaleOptions {
  double startup_seconds = 30.0;  // from a runner's order until it serves
  double batch_share = 1.0;       // of a runner's batch that requests are meant to fill
};

// What is told to the system that can start and end runners.
struct ScaleHint {
  int32_t runners = 0;  // that take requests
  int32_t runners_wanted = 1;
  double startup_seconds = 0.0;    // that is counted with
  std::vector<std::string> spare;  // addresses of those that may go
  bool consolidates = false;       // these are emptied

  bool operator==(const ScaleHint&) const = default;
};

// How many runners the requests in flight fill, the larger of two measures. The first is the tokens
// a second that they draw, as a share of what full batches draw; a half-full batch is faster, so it
// has more than half of the work of a full one. The second is the pages that they hold.
// `num_waiting`: requests that are on no runner.
double RunnersFilled(const Fleet& fleet, int64_t num_waiting, double batch_share,
                     const CostModel& costs);

// Runners that take requests.
int32_t NumOpen(const Fleet& fleet);

// ScaleAdvisor: from how many runners were filled of late, how many are wanted. That is enough for
// the trend's value at the time when a runner that is ordered now serves, plus 2.25 standard
// deviations from the trend for chance. An advisor's first values count as no trend, because the
// first request would look like a steep rise. A runner that is wanted once stays wanted for as long
// as a start takes, and for 10 s at least, because giving it back earlier saves less than its
// start.
class ScaleAdvisor {
 public:
  // Once a second. `num_runners`: that there are.
  void Observe(double runners_filled, int32_t num_runners, const ScaleOptions& options,
               int64_t now_ns);
  // 1 at least. For a start's time after the first call no trend counts, and no fewer are
  // wanted than there are.
  int32_t wanted() const { return wanted_; }

 private:
  struct Sample {
    double seconds = 0.0;
    double value = 0.0;
  };
  double Forecast(double startup_seconds) const;

  std::deque<Sample> filled_;
  std::deque<Sample> needed_;  // runners, falling: those that a later one does not exceed
  double began_seconds_ = 0.0;
  bool has_begun_ = false;
  int32_t wanted_ = 1;
};

// Numbers in names count as numbers: "runner-9" before "runner-10".
bool ComesBefore(const std::string& name, const std::string& other);

// The open runners beyond the number wanted: the last by name, which are those that Kubernetes
// takes away from a StatefulSet.
std::vector<size_t> RunnersToSpare(std::span<const std::string> names,
                                   std::span<const uint8_t> is_open, int32_t num_wanted);

// A request on a runner that could be emptied and given back. Its requests would then be computed
// anew elsewhere, with the tokens that they have drawn (Punica, sections 5.1 and 5.3). This costs
// the other runners a prompt for each request. It saves the runner's time until the last of its
// requests would have ended there. The functions below are pure.
struct MovableRequest {
  int64_t tokens = 0;           // prompt and what it has drawn
  int64_t tokens_left_max = 0;  // that it may still draw
  int32_t rank = 0;             // its adapter's largest; 0: base, or it is not known
};

// Whether moving the request costs its client, and the requests beside it, less than half of the
// time that it still takes where it is.
bool IsWorthMoving(const Fleet& fleet, size_t runner, const MovableRequest& request,
                   const CostModel& costs);

// Whether the other runners have room for all of the runner's requests, and moving the requests
// costs less than half of the time by which the runner is free earlier. `is_target`: by runner,
// whether requests may go there.
bool IsWorthEmptying(const Fleet& fleet, size_t runner, std::span<const MovableRequest> requests,
                     std::span<const uint8_t> is_target, const CostModel& costs);

}  // namespace graft
