// A machine of a simulation. Its runners share cores, caches and memory: the more of them compute,
// the longer each step takes, as `graft profile --serve-runners` measured. One thread.
#pragma once

#include <cstdint>
#include <vector>

namespace graft {

class SimRunner;

class SimMachine {
 public:
  // A step of the runner begins while others of the machine run, which are slower from now on.
  void Begin(SimRunner* runner);
  // The runner computes no more, or is gone; once for each Begin.
  void End(SimRunner* runner);
  int32_t num_busy() const { return static_cast<int32_t>(busy_.size()); }

 private:
  std::vector<SimRunner*> busy_;  // in the order in which they began
};

}  // namespace graft
