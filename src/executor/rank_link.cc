#include "executor/rank_link.h"

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

void RankLink::Forward(const HostBatch& batch) {
  CHECK(batch.drawn_tokens == nullptr && batch.assist == nullptr && batch.merged == nullptr &&
        batch.virtual_embeddings.empty() && batch.virtual_kv.empty())
      << "ranks do not compute that";
  const std::lock_guard lock(mutex_);
  message_.Clear();
  message_.Add(RankOrder::kForward);
  for (const auto& values :
       {batch.tokens, batch.positions, batch.row_page, batch.row_slot, batch.row_begin,
        batch.page_begin, batch.pages, batch.kv_tokens, batch.logits_rows}) {
    message_.AddAll(values);
  }
  message_.AddAll(batch.lora_segments);
  message_.AddAll(batch.lora_prompt_segments);
  message_.Add(batch.num_given);
  message_.Add(batch.lora.rank_max);
  Send(message_);
}

void RankLink::Logits(std::span<const int32_t> rows) {
  const std::lock_guard lock(mutex_);
  message_.Clear();
  message_.Add(RankOrder::kLogits);
  message_.AddAll(rows);
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
