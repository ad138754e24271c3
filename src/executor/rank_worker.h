// RankWorker: one of the ranks behind rank 0. It holds a slice of the model, of every page and of
// every adapter, and computes the steps that rank 0's RankLink sends. It decides nothing: rank 0
// has the engine, draws the tokens, and knows what each page is for. The main thread computes.
// Another thread copies adapters into pages meanwhile, layer by layer, and steps wait for the
// layers that they read.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "adapters/page_arrivals.h"
#include "adapters/page_copier.h"
#include "executor/decode_graphs.h"
#include "executor/rank_message.h"
#include "layers/lora_store.h"
#include "layers/rank_exchange.h"
#include "model/kv_pool.h"
#include "model/transformer.h"
#include "tensor/communicator.h"

namespace graft {

class RankWorker {
 public:
  // What a rank has once it is there: borrowed. `model` is the whole model's shape, `host_memory`
  // the host store's, as this process has it.
  struct Parts {
    Communicator& communicator;
    RankExchange& exchange;
    const ModelConfig& model;
    const ModelWeights& weights;
    Stream& stream;
    std::span<char> host_memory = {};
  };

  // Waits for the setup, and follows orders from then on, until nothing comes any more: says why.
  static Status Serve(const Parts& parts);

 private:
  struct CopyJob {
    CopyOrder order;
    uint32_t number = 0;
  };

  RankWorker(const Parts& parts, const RankSetup& setup);
  ~RankWorker();
  Status FollowOrders();
  void Follow(MessageReader& order);
  // Computes a part of a step of so many rows.
  void Try(int64_t num_rows, bool has_logits, const std::function<void()>& part);
  LoraTable Adapters() const;
  void Forward(MessageReader& order, bool replay);
  void Record(MessageReader& order);
  void Logits(MessageReader& order);
  void BeginCopy(MessageReader& order);
  void LockHostMemory(int64_t begin, int64_t bytes);
  void CopyAdapters();
  void EndArrivals();

  const Parts parts_;
  KvPool pool_;
  Transformer transformer_;
  LoraStore loras_;
  PageArrivals arrivals_;
  PageCopier copier_;  // the copying thread's
  ArrivalGate gate_;
  const int32_t sequences_max_;
  const int32_t draft_tokens_max_;
  std::unique_ptr<DecodeGraphs> graphs_;  // once they were asked for
  std::array<StreamEvent, 2> done_;       // of steps, taking turns
  uint64_t num_steps_ = 0;
  // Parts of the host store's memory, by where they begin.
  std::set<int64_t> tried_to_lock_;
  std::set<int64_t> locked_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable copy_came_;
  std::deque<CopyJob> copies_;
  std::vector<AdapterSlot> arrived_;
  bool stopping_ = false;
  std::thread copying_;
};

}  // namespace graft
