#include "sim/sim_machine.h"

#include <algorithm>

#include "sim/sim_runner.h"

namespace graft {

void SimMachine::Begin(SimRunner* runner) {
  busy_.push_back(runner);
  for (SimRunner* const one : busy_) one->OnBusy(num_busy());
}

void SimMachine::End(SimRunner* runner) {
  busy_.erase(std::find(busy_.begin(), busy_.end(), runner));
  for (SimRunner* const one : busy_) one->OnBusy(num_busy());
}

}  // namespace graft
