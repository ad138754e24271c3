// What must hold of the sequences between steps.
#include <string>
#include <utility>

#include "engine/sequences.h"

namespace graft {

Status Sequences::CheckRunning(const Sequence& sequence) const {
  const std::string name = "request " + ToString(sequence.id);
  if (sequence.finish_reason != FinishReason::kNone) return InternalError(name + " runs on");
  if (sequence.sequence_slot < 0 || sequence.sequence_slot >= limits_.sequences_max) {
    return InternalError(name + " runs without a slot");
  }
  if (sequence.num_pending() < 1 || sequence.num_output_tokens() < 0) {
    return InternalError(name + " has nothing to run");
  }
  const int32_t num_pages = sequence.pages.size();
  // One that was left out of a step keeps the page of the step that was begun ahead.
  const int32_t tokens_max = sequence.num_tokens() + (sequence.bounds != nullptr ? 1 : 0);
  if (num_pages < PagesFor(sequence.num_computed) || num_pages > PagesFor(tokens_max)) {
    return InternalError(name + " has too few or too many pages");
  }
  const int32_t num_full = NumIndexable(sequence);
  if (sequence.num_indexed_pages != num_full) return InternalError(name + " is not indexed");
  for (int32_t i = 0; i < num_pages; ++i) {
    if (pool_.kept(sequence.pages.page(i)) != (i < num_full)) {
      return InternalError(name + " and the prefix tree disagree about a page");
    }
  }
  return OkStatus();
}

Status Sequences::CheckQueues() const {
  if (running_.size() + held_.size() + free_slots_.size() !=
      static_cast<size_t>(limits_.sequences_max)) {
    return InternalError("a sequence slot is lost");
  }
  std::vector<bool> slot_taken(static_cast<size_t>(limits_.sequences_max), false);
  const Sequence* before = nullptr;
  const auto in_order = [&](const Sequence& sequence) {
    const Sequence* const last = std::exchange(before, &sequence);
    return last == nullptr || last->order < sequence.order;
  };
  for (const auto& sequence : running_) {
    RETURN_IF_ERROR(CheckRunning(*sequence));
    const auto slot = static_cast<size_t>(sequence->sequence_slot);
    if (slot_taken[slot]) return InternalError("two sequences in one slot");
    slot_taken[slot] = true;
    if (!in_order(*sequence)) return InternalError("running sequences are out of order");
  }
  const bool hold_nothing = line_.AllOf([](const Sequence& sequence) {
    return sequence.pages.size() == 0 && sequence.sequence_slot == -1 &&
           sequence.num_computed == 0 && sequence.num_indexed_pages == 0 &&
           sequence.adapter_slot == kNoAdapter;
  });
  if (!hold_nothing) return InternalError("a waiting sequence holds something");
  return line_.CheckIntegrity();
}

Status Sequences::CheckIntegrity() const {
  RETURN_IF_ERROR(pool_.CheckIntegrity());
  RETURN_IF_ERROR(tree_.CheckIntegrity());
  RETURN_IF_ERROR(shares_.CheckIntegrity());
  RETURN_IF_ERROR(CheckQueues());
  std::vector<int32_t> references(static_cast<size_t>(pool_.num_pages()), 0);
  std::vector<int32_t> num_running;  // by adapter content
  const auto count = [&](const PageList& pages, int32_t content) {
    for (int32_t i = 0; i < pages.size(); ++i) ++references[static_cast<size_t>(pages.page(i))];
    if (content < 0) return;
    num_running.resize(std::max(num_running.size(), static_cast<size_t>(content) + 1));
    ++num_running[static_cast<size_t>(content)];
  };
  for (const auto& sequence : running_) {
    const int32_t content = sequence->adapter.content();
    if ((content >= 0) != (sequence->adapter_slot != kNoAdapter)) {
      return InternalError("a running sequence lacks its adapter");
    }
    count(sequence->pages, content);
  }
  for (const Holdings& holdings : held_) count(holdings.pages, holdings.content);
  count(replaced_, -1);
  RETURN_IF_ERROR(adapters_.CheckIntegrity(num_running, &references));
  int32_t num_kept = 0;
  for (int32_t page = 0; page < pool_.num_pages(); ++page) {
    num_kept += pool_.kept(page) ? 1 : 0;
    if (references[static_cast<size_t>(page)] != pool_.references(page)) {
      return InternalError("page " + std::to_string(page) + " has references without owners");
    }
  }
  if (num_kept != tree_.num_nodes()) return InternalError("pages kept for nobody");
  return OkStatus();
}

}  // namespace graft
