// RankProcesses: the processes of a model that several ranks compute together (--tensor-parallel).
// This process is rank 0, with the engine and everything above it. The others are forked from it,
// read their slices of the weights, and follow rank 0 (RankWorker). They end with rank 0. A rank
// that dies, or does not answer, ends the server with one line that says which and why. Made and
// destroyed on the main thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "runtime/runtime_options.h"
#include "tensor/communicator.h"
#include "tensor/shared_memory.h"

namespace graft {

class RankProcesses {
 public:
  // Forks the other ranks, so nothing may have started a thread before. Null if the options ask for
  // one rank. What the model or the options cannot do on several ranks is refused first. `shape`:
  // as for LoadShard.
  static Result<std::unique_ptr<RankProcesses>> Start(const RuntimeOptions& options,
                                                      const std::string& shape = "");
  // Kills the ranks; they hold nothing that is needed later.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  Communicator& communicator() { return *communicator_; }
  // What adapters are kept in, mapped by all ranks at the same address: for one host store.
  SharedMemory TakeHostMemory() { return std::move(host_memory_); }
  // From here on the end of a rank ends the process. Before, only waits for the ranks fail.
  void BeginServing() { is_serving_ = true; }
  // Their processes, rank 1 first.
  const std::vector<pid_t>& processes() const { return processes_; }

 private:
  RankProcesses() = default;
  Status Prepare(const RuntimeOptions& options, const std::string& shape);
  Status Fork(const RuntimeOptions& options, const std::string& shape, int32_t rank);
  void Watch(int32_t rank);

  SharedMemory memory_;  // the communicator's
  SharedMemory host_memory_;
  std::unique_ptr<Communicator> communicator_;
  std::vector<pid_t> processes_;
  std::atomic<bool> is_serving_{false};
  std::atomic<bool> is_stopping_{false};
  std::vector<std::thread> watching_;  // one for each
};

}  // namespace graft
