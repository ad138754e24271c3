#include "sim/sim_loader.h"

#include <algorithm>

#include "base/check.h"

namespace graft {
namespace {

constexpr int32_t kSimRowBytes = 1 << 16;

int64_t MsToNs(double ms) { return static_cast<int64_t>(ms * 1e6); }

}  // namespace

SimLoader::SimLoader(const Clock& clock, const SimAdapters& adapters, SimLoaderOptions options)
    : clock_(clock), adapters_(adapters), options_(std::move(options)) {
  CHECK(options_.host_adapters == 0 || options_.fetch_ns) << "fetches take a time";
}

AdapterFacts SimLoader::FactsOf(int32_t adapter) const {
  AdapterFacts facts;
  facts.hash = SimAdapters::HashOf(adapter);
  facts.rank_max = adapters_.RankOf(adapter);
  const int64_t bytes = std::max<int64_t>(1, options_.bytes_per_rank * facts.rank_max);
  facts.rows = {{kSimRowBytes, static_cast<int32_t>((bytes + kSimRowBytes - 1) / kSimRowBytes)}};
  facts.bytes = RowsBytes(facts.rows);
  facts.num_layers = options_.num_layers;
  return facts;
}

void SimLoader::Keep(int32_t adapter) {
  if (options_.host_adapters == 0) return;
  const auto it = in_host_.find(adapter);
  if (it != in_host_.end()) {
    by_use_.splice(by_use_.end(), by_use_, it->second);
    return;
  }
  in_host_[adapter] = by_use_.insert(by_use_.end(), adapter);
  if (std::ssize(in_host_) <= options_.host_adapters) return;
  in_host_.erase(by_use_.front());
  by_use_.pop_front();
}

void SimLoader::Finish(int64_t ns, Pending pending) {
  pending_.emplace(std::pair(ns, num_orders_++), pending);
}

void SimLoader::Fetch(FetchOrder order) {
  const int32_t adapter = SimAdapters::NumberOf(order.hash);
  const int64_t took_ns = IsInHost(adapter) ? 0 : options_.fetch_ns();
  Finish(clock_.NowNs() + took_ns,
         {.content = order.content, .adapter = adapter, .took_ns = took_ns});
}

bool SimLoader::Copy(CopyOrder order) {
  const int32_t adapter = SimAdapters::NumberOf(order.source.hash);
  const bool usable = held_.erase(order.source.content) > 0 || IsInHost(adapter);
  const int64_t there_ns = clock_.NowNs() + (usable ? 0 : options_.fetch_ns());
  const int64_t took_ns = MsToNs(options_.costs.LoadMs(adapters_.RankOf(adapter)));
  bus_free_ns_ = std::max(there_ns, bus_free_ns_) + took_ns;
  Keep(adapter);
  if (static_cast<size_t>(order.slot) >= slots_.size()) {
    slots_.resize(static_cast<size_t>(order.slot) + 1);
  }
  slots_[static_cast<size_t>(order.slot)] = {adapter, bus_free_ns_};
  Finish(
      bus_free_ns_,
      {.is_copy = true, .content = order.source.content, .adapter = adapter, .took_ns = took_ns});
  return usable;
}

std::optional<AdapterFacts> SimLoader::FindInHost(const std::string& hash) const {
  const int32_t adapter = SimAdapters::NumberOf(hash);
  if (!IsInHost(adapter)) return std::nullopt;
  return FactsOf(adapter);
}

void SimLoader::Free(AdapterSlot slot) { slots_[static_cast<size_t>(slot)] = {}; }

std::vector<LoadEvent> SimLoader::TakeEvents() {
  std::vector<LoadEvent> events;
  while (!pending_.empty() && next_event_ns() <= clock_.NowNs()) {
    const Pending pending = pending_.begin()->second;
    pending_.erase(pending_.begin());
    LoadEvent& event = events.emplace_back();
    event.content = pending.content;
    if (pending.is_copy) {
      event.kind = LoadEvent::Kind::kCopied;
      event.copy_ns = pending.took_ns;
      continue;
    }
    event.kind = LoadEvent::Kind::kFetched;
    event.facts = FactsOf(pending.adapter);
    held_.insert(pending.content);
    Keep(pending.adapter);
  }
  return events;
}

int32_t SimLoader::RankOf(AdapterSlot slot) const {
  return slot == kNoAdapter ? 0 : adapters_.RankOf(slots_[static_cast<size_t>(slot)].adapter);
}

int64_t SimLoader::ArrivalOf(AdapterSlot slot) const {
  return slot == kNoAdapter ? 0 : slots_[static_cast<size_t>(slot)].arrival_ns;
}

std::vector<int32_t> SimLoader::OnDevice() const {
  std::vector<int32_t> adapters;
  for (const Slot& slot : slots_) {
    if (slot.adapter >= 0) adapters.push_back(slot.adapter);
  }
  return adapters;
}

}  // namespace graft
