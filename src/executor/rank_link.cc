#include "executor/rank_link.h"

#include "executor/rank_batch.h"

namespace graft {

Status RankLink::Start(const RankSetup& setup) {
  {
    const std::lock_guard lock(mutex_);
    message_.Clear();
    message_.Add(RankOrder::kSetup);
    message_.Add(setup);
    RETURN_IF_ERROR(communicator_.Send(message_.bytes()));
    ++num_reports_;
  }
  return communicator_.AwaitReports(1, /*hurried=*/false);
}

void RankLink::Send(const MessageWriter& message) {
  const Status status = communicator_.Send(message.bytes());
  if (!status.ok()) EndRank(0, status);
}

void RankLink::LookForStopped(int64_t waited_ns) {
  const Status status = communicator_.LookForStopped(waited_ns);
  if (!status.ok()) EndRank(0, status);
}

void RankLink::Forward(const HostBatch& batch, bool replay) {
  const std::lock_guard lock(mutex_);
  message_.Clear();
  message_.Add(replay ? RankOrder::kReplay : RankOrder::kForward);
  WriteBatch(batch, &message_);
  Send(message_);
}

void RankLink::Record(int32_t rank_max, bool lora) {
  const std::lock_guard lock(mutex_);
  message_.Clear();
  message_.Add(RankOrder::kRecord);
  message_.Add(rank_max);
  message_.Add(lora);
  Send(message_);
}

void RankLink::Logits(std::span<const int32_t> rows, const Transformer::HeadLora& head) {
  const std::lock_guard lock(mutex_);
  message_.Clear();
  message_.Add(RankOrder::kLogits);
  message_.AddAll(rows);
  message_.AddAll(head.segments);
  message_.Add(head.lora.rank_max);
  Send(message_);
}

uint32_t RankLink::Copy(const CopyOrder& order, const HostAdapter& adapter) {
  const std::lock_guard lock(mutex_);
  message_.Clear();
  message_.Add(RankOrder::kCopy);
  message_.Add(++num_reports_);
  message_.Add(order.slot);
  message_.AddAll(std::span(order.extents));
  message_.Add(adapter.facts.rank_max);
  message_.Add(adapter.facts.num_layers);
  message_.Add(adapter.facts.has_virtual_kv);
  message_.Add(adapter.virtual_tokens);
  message_.AddAll(std::span(adapter.matrices));
  std::vector<HostAdapter::Stretch> stretches = adapter.stretches;
  for (HostAdapter::Stretch& stretch : stretches) {
    // From the memory's beginning, wherever a rank has it.
    stretch.data = reinterpret_cast<const char*>(stretch.data - host_memory_);
  }
  message_.AddAll(std::span<const HostAdapter::Stretch>(stretches));
  Send(message_);
  return num_reports_;
}

void RankLink::AwaitCopied(uint32_t number) {
  const Status status = communicator_.AwaitReports(number, /*hurried=*/true);
  if (!status.ok()) EndRank(0, status);
}

}  // namespace graft
