#include "executor/rank_worker.h"

#include <utility>

namespace graft {

Status RankWorker::Serve(const Parts& parts) {
  std::vector<char> message;
  RETURN_IF_ERROR(parts.communicator.Receive(&message));
  MessageReader order(message);
  CHECK(order.Take<RankOrder>() == RankOrder::kSetup) << "an order to a rank that is not there";
  return RankWorker(parts, order.Take<RankSetup>()).FollowOrders();
}

RankWorker::RankWorker(const Parts& parts, const RankSetup& setup)
    : parts_(parts),
      pool_(
          MakeKvLayout(ShardConfig(parts.model, parts.communicator.num_ranks()),
                       setup.limits.page_tokens, KvDType(parts.weights.dtype, parts.stream.device)),
          setup.limits.num_pages, parts.stream.device),
      transformer_(ShardConfig(parts.model, parts.communicator.num_ranks()), parts.weights, pool_,
                   setup.transformer, parts.stream, &parts.communicator),
      loras_(parts.model, setup.limits.adapters_max, parts.stream.device),
      arrivals_(parts.stream.device, parts.model.num_layers, setup.limits.adapters_max),
      copier_(
          parts.model, pool_, loras_, parts.stream.device, /*copies_at_once=*/1,
          AdapterSlicer(parts.model, {parts.communicator.rank(), parts.communicator.num_ranks()},
                        parts.weights.dtype)),
      copying_([this] { CopyAdapters(); }) {
  parts_.communicator.Report(1);
}

RankWorker::~RankWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    copy_came_.notify_one();
  }
  copying_.join();
}

Status RankWorker::FollowOrders() {
  std::vector<char> message;
  for (;;) {
    RETURN_IF_ERROR(parts_.communicator.Receive(&message));
    EndArrivals();
    MessageReader order(message);
    Follow(order);
  }
}

void RankWorker::Follow(MessageReader& order) {
  switch (order.Take<RankOrder>()) {
    case RankOrder::kForward:
      return Forward(order);
    case RankOrder::kLogits:
      transformer_.Logits(order.TakeAll<int32_t>(), parts_.stream);
      return;
    case RankOrder::kCopy:
      return BeginCopy(order);
    case RankOrder::kSetup:
      break;
  }
  CHECK(false) << "a second setup";
}

void RankWorker::Forward(MessageReader& order) {
  std::vector<int32_t> values[9];
  for (std::vector<int32_t>& each : values) each = order.TakeAll<int32_t>();
  const std::vector<LoraSegment> segments = order.TakeAll<LoraSegment>();
  const std::vector<LoraSegment> prompt_segments = order.TakeAll<LoraSegment>();
  HostBatch batch;
  batch.tokens = values[0];
  batch.positions = values[1];
  batch.row_page = values[2];
  batch.row_slot = values[3];
  batch.row_begin = values[4];
  batch.page_begin = values[5];
  batch.pages = values[6];
  batch.kv_tokens = values[7];
  batch.logits_rows = values[8];
  batch.lora_segments = segments;
  batch.lora_prompt_segments = prompt_segments;
  batch.num_given = order.Take<int32_t>();
  batch.lora = {loras_.matrices(0, LoraModule::kQ), loras_.matrices_stride(),
                order.Take<int32_t>()};
  gate_.Reset();
  for (const auto* all : {&segments, &prompt_segments}) {
    for (const LoraSegment& segment : *all) gate_.Add(segment.adapter_slot, arrivals_);
  }
  if (!gate_.is_open()) batch.gate = &gate_;
  transformer_.Forward(batch, parts_.stream);
}

void RankWorker::BeginCopy(MessageReader& order) {
  CopyJob job;
  job.number = order.Take<uint32_t>();
  job.order.slot = order.Take<AdapterSlot>();
  job.order.extents = order.TakeAll<PageExtent>();
  HostAdapter adapter;
  adapter.facts.rank_max = order.Take<int32_t>();
  adapter.facts.num_layers = order.Take<int32_t>();
  adapter.matrices = order.TakeAll<HostAdapter::Matrix>();
  adapter.stretches = order.TakeAll<HostAdapter::Stretch>();
  for (HostAdapter::Stretch& stretch : adapter.stretches) {
    stretch.data = parts_.host_memory + reinterpret_cast<intptr_t>(stretch.data);
  }
  arrivals_.Begin(job.order.slot, HostStore::Held::Of(std::move(adapter)));
  const std::lock_guard lock(mutex_);
  copies_.push_back(std::move(job));
  copy_came_.notify_one();
}

void RankWorker::CopyAdapters() {
  std::unique_lock lock(mutex_);
  for (;;) {
    copy_came_.wait(lock, [this] { return stopping_ || !copies_.empty(); });
    if (stopping_) return;
    CopyJob job = std::move(copies_.front());
    copies_.pop_front();
    lock.unlock();
    const AdapterSlot slot = job.order.slot;
    copier_.Add(std::move(job.order), arrivals_.At(slot));
    while (!copier_.CopyLayer().has_value()) {
    }
    lock.lock();
    arrived_.push_back(slot);
    // Rank 0 lets nobody have the slot before this.
    parts_.communicator.Report(job.number);
  }
}

void RankWorker::EndArrivals() {
  const std::lock_guard lock(mutex_);
  for (const AdapterSlot slot : arrived_) arrivals_.End(slot);
  arrived_.clear();
}

}  // namespace graft
