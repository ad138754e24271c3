#include "adapters/fetch_line.h"

#include <algorithm>
#include <utility>

namespace graft {
namespace {

// What was given up has stopped, and may do so for hours.
bool TakesRoom(const AdapterFetch& fetch) {
  return fetch.phase == FetchPhase::kReading && !fetch.is_given_up && fetch.bytes > 0;
}

}  // namespace

void FetchLine::Add(FetchOrder order, std::optional<CopyOrder> copy, int64_t now_ns) {
  const int32_t holder = order.holder;
  if (!IsInLine(holder)) turns_.push_back(holder);
  fetches_.push_back({.order = std::move(order),
                      .copy = std::move(copy),
                      .ordered_ns = now_ns,
                      .since_ns = now_ns});
}

AdapterFetch* FetchLine::TakeNext(int64_t held_bytes, int64_t now_ns) {
  AdapterFetch* const fetch = FindNext(held_bytes);
  if (fetch == nullptr) return nullptr;
  fetch->since_ns = now_ns;
  if (fetch->phase == FetchPhase::kOrdered) {
    fetch->phase = FetchPhase::kLooking;
    return fetch;
  }
  fetch->is_beyond = !HasRoom(*fetch, held_bytes);
  fetch->phase = FetchPhase::kReading;
  EndTurn(fetch->order.holder);
  return fetch;
}

void FetchLine::SetSize(AdapterFetch& fetch, int64_t bytes, int64_t now_ns) {
  fetch.phase = FetchPhase::kSized;
  fetch.bytes = bytes;
  fetch.since_ns = now_ns;
}

void FetchLine::Erase(const AdapterFetch& fetch) {
  const int32_t holder = fetch.order.holder;
  fetches_.remove_if([&fetch](const AdapterFetch& other) { return &other == &fetch; });
  if (!IsInLine(holder)) std::erase(turns_, holder);
}

int64_t FetchLine::num_with_thread() const {
  return std::ranges::count_if(fetches_, &AdapterFetch::has_thread);
}

int64_t FetchLine::bytes() const {
  int64_t bytes = 0;
  for (const AdapterFetch& fetch : fetches_) {
    if (fetch.phase == FetchPhase::kReading) bytes += fetch.bytes;
  }
  return bytes;
}

AdapterFetch* FetchLine::FindNext(int64_t held_bytes) {
  bool is_kept = false;
  for (const int32_t holder : turns_) {
    AdapterFetch* const first = MayHaveThread(holder) ? FirstInLine(holder) : nullptr;
    if (first == nullptr) continue;
    if (first->phase == FetchPhase::kOrdered || first->bytes == 0) return first;
    if (!is_kept && HasRoom(*first, held_bytes)) return first;
    if (MayGoBeyond(*first, is_kept)) return first;
    is_kept = true;  // for this one
  }
  return nullptr;
}

// Those that are looked at keep no others waiting: their storage may not answer.
AdapterFetch* FetchLine::FirstInLine(int32_t holder) {
  const auto first = std::ranges::find_if(fetches_, [holder](const AdapterFetch& fetch) {
    return fetch.order.holder == holder && !fetch.has_thread();
  });
  return first == fetches_.end() ? nullptr : &*first;
}

// Threads that hang on a folder do not count.
bool FetchLine::MayHaveThread(int32_t holder) const {
  const auto num_busy = std::ranges::count_if(fetches_, [holder](const AdapterFetch& fetch) {
    return fetch.order.holder == holder && fetch.has_thread() && !fetch.is_slow &&
           !fetch.is_given_up;
  });
  return num_busy < limits_.threads;
}

bool FetchLine::HasRoom(const AdapterFetch& fetch, int64_t held_bytes) const {
  return held_bytes + BytesThatCount() + fetch.bytes <= limits_.bytes_max;
}

// Beside slow ones alone. `is_kept`: what room there is is another's, which is before it in turn.
bool FetchLine::MayGoBeyond(const AdapterFetch& fetch, bool is_kept) const {
  int32_t num_beyond = 0;
  bool is_holders_only = true;
  for (const AdapterFetch& other : fetches_) {
    if (!TakesRoom(other)) continue;
    if (!other.is_slow) return false;
    if (other.is_beyond) ++num_beyond;
    if (other.order.holder == fetch.order.holder) is_holders_only = false;
  }
  return is_holders_only || (!is_kept && num_beyond < limits_.beyond_max);
}

int64_t FetchLine::BytesThatCount() const {
  int64_t bytes = 0;
  for (const AdapterFetch& fetch : fetches_) {
    if (TakesRoom(fetch)) bytes += fetch.bytes;
  }
  return bytes;
}

void FetchLine::EndTurn(int32_t holder) {
  std::erase(turns_, holder);
  if (IsInLine(holder)) turns_.push_back(holder);
}

bool FetchLine::IsInLine(int32_t holder) const {
  return std::ranges::any_of(fetches_, [holder](const AdapterFetch& fetch) {
    return fetch.order.holder == holder && fetch.phase != FetchPhase::kReading;
  });
}

}  // namespace graft
