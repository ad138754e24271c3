#include "sim/sim_loader.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/milliseconds.h"

namespace graft {
namespace {

constexpr int32_t kSimRowBytes = 1 << 16;
// As in adapters/paged_loader.h: a reader that takes so long is left alone, another one reads on.
constexpr int32_t kReaders = 2;
constexpr int32_t kSlowReadersMax = 16;
constexpr int64_t kSlowNs = 2'000'000'000;

}  // namespace

SimLoader::SimLoader(const Clock& clock, const SimAdapters& adapters, const CostModel& costs,
                     const SimLoaderOptions& options, std::function<int64_t()> fetch_ns)
    : clock_(clock),
      adapters_(adapters),
      costs_(costs),
      options_(options),
      fetch_ns_(std::move(fetch_ns)) {
  CHECK(options_.host_adapters == 0 || fetch_ns_) << "fetches take a time";
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
  to_read_.push_back(std::move(order));
  Read(clock_.NowNs());
}

void SimLoader::Read(int64_t now_ns) {
  while (num_reading_ < kReaders && !to_read_.empty()) {
    const FetchOrder order = std::move(to_read_.front());
    to_read_.pop_front();
    const int32_t adapter = SimAdapters::NumberOf(order.hash);
    const int64_t took_ns = IsInHost(adapter) ? 0 : fetch_ns_();
    Pending pending = {.content = order.content, .adapter = adapter, .took_ns = took_ns};
    ++num_reading_;
    pending.had_reader = took_ns <= kSlowNs || num_slow_ == kSlowReadersMax;
    Finish(now_ns + took_ns, pending);
    if (pending.had_reader) continue;
    ++num_slow_;
    pending.kind = LoadEvent::Kind::kSlow;
    Finish(now_ns + kSlowNs, pending);
  }
}

bool SimLoader::Copy(CopyOrder order) {
  const int32_t adapter = SimAdapters::NumberOf(order.source.hash);
  const bool usable = held_.erase(order.source.content) > 0 || IsInHost(adapter);
  const int64_t there_ns = clock_.NowNs() + (usable ? 0 : fetch_ns_());
  const int64_t took_ns = MsToNs(costs_.LoadMs(adapters_.RankOf(adapter)));
  bus_free_ns_ = std::max(there_ns, bus_free_ns_) + took_ns;
  Keep(adapter);
  if (static_cast<size_t>(order.slot) >= slots_.size()) {
    slots_.resize(static_cast<size_t>(order.slot) + 1);
  }
  slots_[static_cast<size_t>(order.slot)] = {adapter, bus_free_ns_};
  Finish(bus_free_ns_, {.kind = LoadEvent::Kind::kCopied,
                        .content = order.source.content,
                        .adapter = adapter,
                        .took_ns = took_ns});
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
  while (!pending_.empty() && (is_ending_ || next_event_ns() <= clock_.NowNs())) {
    const int64_t ns = next_event_ns();
    const Pending pending = pending_.begin()->second;
    pending_.erase(pending_.begin());
    events.push_back(Book(ns, pending));
  }
  return events;
}

LoadEvent SimLoader::Book(int64_t ns, const Pending& pending) {
  LoadEvent event;
  event.kind = pending.kind;
  event.content = pending.content;
  switch (pending.kind) {
    case LoadEvent::Kind::kCopied:
      event.copy_ns = pending.took_ns;
      break;
    case LoadEvent::Kind::kSlow:
      --num_reading_;
      Read(ns);
      break;
    case LoadEvent::Kind::kFetched:
      event.facts = FactsOf(pending.adapter);
      held_[pending.content] = pending.adapter;
      Keep(pending.adapter);
      --(pending.had_reader ? num_reading_ : num_slow_);
      Read(ns);
      break;
  }
  return event;
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

std::vector<int32_t> SimLoader::Coming() const {
  std::set<int32_t> adapters;
  for (const auto& [end, pending] : pending_) {
    if (pending.kind == LoadEvent::Kind::kFetched) adapters.insert(pending.adapter);
  }
  for (const FetchOrder& order : to_read_) adapters.insert(SimAdapters::NumberOf(order.hash));
  for (const auto& [content, adapter] : held_) adapters.insert(adapter);
  return {adapters.begin(), adapters.end()};
}

}  // namespace graft
