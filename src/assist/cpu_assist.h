// CpuAssist: while an adapter's rows are copied to the device, workers on the host compute what the
// adapter adds to each projection (CaraServe, section 4), so that a prefill need not wait for the
// copy. The stream never stops: it hands over rows and waits for answers by flags in memory that
// both sides see. The device computes every layer that has all its rows when it is launched. Engine
// thread only; the workers have their own threads or processes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapters/host_store.h"
#include "adapters/page_arrivals.h"
#include "assist/assist_exchange.h"
#include "assist/assist_profile.h"
#include "assist/assist_workers.h"
#include "base/metrics.h"
#include "executor/step_bridge.h"
#include "model/forward_batch.h"
#include "tensor/allocations.h"
#include "tensor/buffer.h"
#include "tensor/shared_memory.h"

namespace graft {

struct CpuAssistOptions {
  int32_t num_workers = 1;  // at most kHostFlagsMax
  // What starts a worker process (see RunAssistProcess); empty: workers are threads. Processes read
  // adapters from shared memory of the host store alone.
  std::vector<std::string> command;
  // To compare with: the host waits until the stream has handed over x, and for the answers, which
  // it copies to the device.
  bool synchronises = false;
  // To compare with: kernels split their work over so many threads, in worker threads alone.
  int worker_threads = 1;
};

// Workers, as many as asked for; 0: by the machine's cores.
int ChooseAssistWorkers(int asked);

class CpuAssist : public StepBridge {
 public:
  // For steps of up to `rows_max` rows of a model in `types`. `store`, `arrivals` and `metrics` are
  // borrowed. Measures what the work costs, and starts the workers.
  static Result<std::unique_ptr<CpuAssist>> Create(const CpuAssistOptions& options,
                                                   const ModelConfig& config,
                                                   const ServedTypes& types, int32_t rows_max,
                                                   const HostStore& store,
                                                   const PageArrivals& arrivals,
                                                   const Device& device, Metrics& metrics);

  // What Create allocates for that; without what a worker process takes for itself.
  static BytesNeeded BytesFor(const CpuAssistOptions& options, const ModelConfig& config,
                              const ServedTypes& types, int32_t rows_max, const Device& device);

  // It cannot compute for more than kHostSegmentsMax stretches of rows, nor in processes for what
  // found no room in the host store.
  void Enter(HostBatch* batch) override;
  int32_t num_layers_taken() const override { return num_layers_taken_; }
  bool TakesLayer(int32_t layer) override;
  void Begin(int32_t layer, LoraModule first, const LoraArgs& args, Stream& stream) override;
  void Finish(const LoraArgs& args, Stream& stream) override;

  const AssistWorkers& workers() const { return *workers_; }
  const AssistProfile& profile() const { return profile_; }
  const BridgeRates& rates() const { return rates_; }

 private:
  // Rows of an adapter under way.
  struct Pending {
    LoraSegment rows;
    const PageArrival* arrival = nullptr;
  };

  CpuAssist(const HostStore& store, const PageArrivals& arrivals, Metrics& metrics);
  void Sort(std::span<const LoraSegment> segments, std::vector<LoraSegment>* settled);
  bool CanTake() const;
  // The address at which the device reads the answers.
  const float* TakeAnswers(const HostWaitArgs& wait, int64_t columns, Stream& stream);
  // Fills the job and rows_ for the pending rows of a projection; false: the adapters leave its
  // modules alone.
  bool FillJob(int32_t layer, LoraModule first, const LoraArgs& args, AssistJob* job);
  void AddSegment(const Pending& pending, std::span<const HostAdapter::Matrix> matrices,
                  float scale, AssistJob* job, int32_t* num_places);
  void PlaceRows(const HostAdapter& adapter, int64_t begin, int64_t row_bytes, int32_t count,
                 uint64_t* places) const;

  const HostStore& store_;
  const PageArrivals& arrivals_;
  bool in_processes_ = false;
  AssistProfile profile_;
  BridgeRates rates_;
  SharedMemory shared_;  // of processes; of threads:
  PinnedBuffer pinned_;
  std::unique_ptr<AssistExchange> exchange_;
  std::unique_ptr<AssistWorkers> workers_;
  Buffer num_done_;  // HostExport's
  Buffer delta_;     // the answers' copy, if it synchronises
  prometheus::Counter& rows_total_;
  prometheus::Counter& layers_total_;

  // For the current step.
  int32_t num_layers_taken_ = 0;
  std::vector<Pending> pending_;
  std::vector<LoraSegment> settled_;
  std::vector<LoraSegment> settled_prompts_;
  // For the current projection.
  std::vector<AssistPart> parts_;
  HostSegments rows_;
  uint32_t number_ = 0;
  int32_t num_shares_ = 0;  // 0: there is no job
};

}  // namespace graft
