// RankLink: rank 0's connection to the other ranks of its model. It sends them the steps that they
// compute with it, and orders to copy adapters out of the host store, which lies in memory that all
// ranks map. Orders are followed in sequence: a step that names an adapter comes behind the order
// to copy it. If a rank fails, the process ends (EndRank). Any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "adapters/host_adapter.h"
#include "adapters/rank_copies.h"
#include "executor/rank_message.h"
#include "model/forward_batch.h"
#include "model/transformer.h"
#include "step/adapter_loader.h"
#include "tensor/communicator.h"

namespace graft {

class RankLink : public RankCopies {
 public:
  // Borrowed; `host_memory` is where the host store's shared memory begins.
  RankLink(Communicator& communicator, const char* host_memory)
      : communicator_(communicator), host_memory_(host_memory) {}

  // Waits until all ranks have their weights and what the setup asks for. Says why not.
  Status Start(const RankSetup& setup);

  // The other ranks compute the step with the caller, which does so right after this; from a graph
  // where it is a `replay`.
  void Forward(const HostBatch& batch, bool replay);
  // They record the graphs that DecodeGraphs::Record does, with the caller.
  void Record(int32_t rank_max, bool lora);
  // The same for Transformer::Logits.
  void Logits(std::span<const int32_t> rows, const Transformer::HeadLora& head);

  // After a step's last exchange, and after those of further logits: which other rank found no
  // memory, so that the step means nothing; "" where all did. Once.
  std::string TakeFailure() { return communicator_.TakeFailure(); }

  // For a caller that has waited so long for a step to end.
  void LookForStopped(int64_t waited_ns);

  uint32_t Copy(const CopyOrder& order, const HostAdapter& adapter) override;
  void AwaitCopied(uint32_t number) override;

 private:
  void Send(const MessageWriter& message);  // under the lock

  Communicator& communicator_;
  const char* const host_memory_;
  std::mutex mutex_;  // guards what follows
  MessageWriter message_;
  // Asked for: the first says that a rank is there, others are of copies.
  uint32_t num_reports_ = 0;
};

}  // namespace graft
