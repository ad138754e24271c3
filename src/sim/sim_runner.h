// A runner of a simulation: the real engine, with its scheduler and caches, over an executor and a
// loader that only take time. It asks for the events that it has to be called at. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/metrics.h"
#include "cache/content_table.h"
#include "engine/engine.h"
#include "sim/sim_executor.h"
#include "sim/sim_loader.h"
#include "sim/virtual_time.h"

namespace graft {

struct SimRunnerOptions {
  CostModel costs;
  ExecutorLimits limits = {.sequences_max = 32,
                           .step_tokens_max = 512,
                           .context_tokens_max = 4096,
                           .num_pages = 8192,
                           .page_bytes = int64_t{8} << 20,
                           .page_tokens = 16,
                           .vocab_size = kSimVocabSize,
                           .adapters_max = 256};
  // Without a prefix cache prompts have lengths, and no contents.
  EngineOptions engine = {.scheduler = {.cold_start = ColdStart::kJoinLater,
                                        .prefix_cache = false,
                                        .prefix_hash_key = 1},
                          .requests_max = 1 << 20,
                          .runs_ahead = false};
  SimLoaderOptions loader;
};

class SimRunner;

// A machine of a simulation. Its runners share cores, caches and memory: the more of them compute,
// the longer each step takes, as `graft profile --serve-runners` measured. One thread.
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

class SimRunner {
 public:
  // `number` is its own in events; everything else is borrowed. `machine`: that it shares with
  // others; null: none.
  SimRunner(const SimRunnerOptions& options, const SimAdapters& adapters, VirtualTime& time,
            int64_t number, std::function<int64_t()> fetch_ns, SimMachine* machine);

  // Whatever is under way is lost.
  ~SimRunner();

  int64_t number() const { return number_; }
  // Its steps take so many times what its costs say.
  void set_slowness(double slowness) { executor_.set_slowness(slowness); }

  // Its events go to the stream as they do from any engine.
  Status Submit(Request request, std::shared_ptr<TokenStream> stream);
  // With the next step; its stream hears of it.
  void Cancel(RequestId id);
  // The step is over, see SimEventKind. False: it is not, since its machine made it longer or
  // shorter after it had asked for this event.
  bool OnStepEnd();
  // So many runners of its machine compute, this one included.
  void OnBusy(int32_t num_busy);
  void OnLoads();

  EngineSnapshot Snapshot() const { return engine_.Snapshot(); }
  std::vector<uint64_t> ReadPrefixes() const { return engine_.ReadPrefixes(); }
  std::vector<int32_t> OnDevice() const { return loader_.OnDevice(); }
  std::vector<int32_t> Coming() const { return loader_.Coming(); }
  // Without what is in flight: nothing is left behind.
  Status CheckIntegrity() const { return engine_.CheckIntegrity(); }

 private:
  void BeginIfIdle();
  void LeaveMachine();
  void AskForLoads();

  VirtualTime& time_;
  const int64_t number_;
  ContentTable table_;
  Metrics metrics_;
  SimLoader loader_;
  SimExecutor executor_;
  Engine engine_;
  SimMachine* const machine_;
  bool is_on_machine_ = false;  // it computes
  int64_t asked_ns_ = kNever;   // when it is called for loads next
};

}  // namespace graft
