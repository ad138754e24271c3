#include "executor/rank_worker.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/log.h"
#include "executor/rank_batch.h"

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
      pool_(MakeKvLayout(ShardConfig(parts.model, parts.communicator.num_ranks()),
                         setup.limits.page_tokens, parts.weights.types.kv),
            setup.limits.num_pages, parts.stream.device),
      transformer_(ShardConfig(parts.model, parts.communicator.num_ranks()), parts.weights, pool_,
                   setup.transformer, parts.stream, &parts.exchange),
      loras_(parts.model, setup.limits.adapters_max, parts.stream.device),
      arrivals_(parts.stream.device, parts.model.num_layers, setup.limits.adapters_max),
      copier_(
          parts.model, pool_, loras_, parts.stream.device, /*copies_at_once=*/1,
          AdapterSlicer(parts.model, {parts.communicator.rank(), parts.communicator.num_ranks()},
                        parts.weights.types)),
      sequences_max_(setup.limits.sequences_max),
      draft_tokens_max_(setup.limits.draft_tokens_max),
      done_{StreamEvent(parts.stream.device), StreamEvent(parts.stream.device)},
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
  for (const int64_t part : locked_) UnlockPages(parts_.host_memory.data() + part);
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
      return Forward(order, /*replay=*/false);
    case RankOrder::kReplay:
      return Forward(order, /*replay=*/true);
    case RankOrder::kRecord:
      return Record(order);
    case RankOrder::kLogits:
      return Logits(order);
    case RankOrder::kCopy:
      return BeginCopy(order);
    case RankOrder::kSetup:
      break;
  }
  CHECK(false) << "a second setup";
}

// A lack of memory costs the step's requests, as on one rank.
void RankWorker::Try(int64_t num_rows, bool has_logits, const std::function<void()>& part) {
  try {
    part();
  } catch (const std::bad_alloc& error) {
    parts_.communicator.Fail("rank " + std::to_string(parts_.communicator.rank()) + ": " +
                             error.what());
    transformer_.GiveUp(num_rows, has_logits, parts_.stream);
  }
}

LoraTable RankWorker::Adapters() const {
  return {loras_.matrices(0, LoraModule::kQ), loras_.matrices_stride(), /*rank_max=*/0};
}

void RankWorker::Forward(MessageReader& order, bool replay) {
  HostBatch batch = ReadBatch(Adapters(), loras_.virtual_rows(), order);
  const auto num_rows = static_cast<int64_t>(batch.tokens.size());
  // What a step is copied from serves the one after the next (BatchUpload::Put).
  StreamEvent& done = done_[num_steps_++ % done_.size()];
  done.Wait();
  parts_.exchange.CheckAfterStep();
  batch.avoids_copy_engine = arrivals_.num_under_way() > 0;
  if (replay) {
    Try(graphs_->PaddedRows(static_cast<int32_t>(num_rows)), true,
        [&] { graphs_->Run(batch, parts_.stream); });
    return done.Record(parts_.stream);
  }
  Try(num_rows, !batch.logits_rows.empty(), [&] {
    gate_.Reset();
    for (const auto& segments : {batch.lora_segments, batch.lora_prompt_segments}) {
      for (const LoraSegment& segment : segments) gate_.Add(segment.adapter_slot, arrivals_);
    }
    if (!gate_.is_open()) batch.gate = &gate_;
    transformer_.Forward(batch, parts_.stream);
  });
  done.Record(parts_.stream);
}

void RankWorker::Record(MessageReader& order) {
  const auto rank_max = order.Take<int32_t>();
  const bool lora = order.Take<bool>();
  graphs_ = std::make_unique<DecodeGraphs>(transformer_, sequences_max_, draft_tokens_max_,
                                           lora ? Adapters() : LoraTable{});
  graphs_->Record(rank_max, parts_.stream);
}

void RankWorker::Logits(MessageReader& order) {
  const auto rows = order.TakeSpan<int32_t>();
  Transformer::HeadLora head{.segments = order.TakeSpan<LoraSegment>(), .lora = Adapters()};
  head.lora.rank_max = order.Take<int32_t>();
  Try(0, true, [&] { transformer_.Logits(rows, parts_.stream, head); });
}

void RankWorker::BeginCopy(MessageReader& order) {
  CopyJob job;
  job.number = order.Take<uint32_t>();
  job.order.slot = order.Take<AdapterSlot>();
  job.order.extents = order.TakeAll<PageExtent>();
  HostAdapter adapter;
  adapter.facts.rank_max = order.Take<int32_t>();
  adapter.facts.num_layers = order.Take<int32_t>();
  adapter.facts.has_virtual_kv = order.Take<bool>();
  adapter.virtual_tokens = order.Take<HostAdapter::Virtual>();
  adapter.matrices = order.TakeAll<HostAdapter::Matrix>();
  adapter.stretches = order.TakeAll<HostAdapter::Stretch>();
  for (HostAdapter::Stretch& stretch : adapter.stretches) {
    const auto begin = static_cast<int64_t>(reinterpret_cast<intptr_t>(stretch.data));
    LockHostMemory(begin, stretch.bytes);
    stretch.data = parts_.host_memory.data() + begin;
  }
  arrivals_.Begin(job.order.slot, HostStore::Held::Of(std::move(adapter)));
  const std::lock_guard lock(mutex_);
  copies_.push_back(std::move(job));
  copy_came_.notify_one();
}

// Page-locked in this process, too, so that copies to a GPU run beside its steps. What the machine
// cannot lock is copied all the same, more slowly.
void RankWorker::LockHostMemory(int64_t begin, int64_t bytes) {
  constexpr int64_t kPartBytes = int64_t{64} << 20;
  if (parts_.stream.device.is_cpu()) return;
  const auto end = static_cast<int64_t>(parts_.host_memory.size());
  for (int64_t part = begin / kPartBytes * kPartBytes; part < begin + bytes; part += kPartBytes) {
    if (!tried_to_lock_.insert(part).second) continue;
    try {
      LockPages(parts_.host_memory.data() + part, std::min(kPartBytes, end - part));
      locked_.insert(part);
    } catch (const std::bad_alloc& error) {
      LOG_WARN("copies of some adapters hold up steps: {}", error.what());
    }
  }
}

void RankWorker::CopyAdapters() {
  UseDevice(parts_.stream.device);
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
    // Rank 0 gives the slot to no other adapter before this.
    parts_.communicator.Report(job.number);
  }
}

void RankWorker::EndArrivals() {
  const std::lock_guard lock(mutex_);
  for (const AdapterSlot slot : arrived_) arrivals_.End(slot);
  arrived_.clear();
}

}  // namespace graft
