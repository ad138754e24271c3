#include "executor/paged_loader.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace graft {
namespace {

prometheus::Histogram& LoadSeconds(Metrics& metrics, const std::string& stage) {
  static const std::vector<double> bounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                             0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5};
  return metrics.Histogram("graft_adapter_load_seconds",
                           "Seconds to fetch an adapter into the host's memory, to copy it to the "
                           "device",
                           bounds, {{"stage", stage}});
}

}  // namespace

PagedLoader::PagedLoader(const ModelConfig& config, LoraAdapterBackend& backend, KvPool& pool,
                         LoraStore& loras, const Device& device, Metrics& metrics,
                         int32_t copies_at_once)
    : backend_(backend),
      loras_(loras),
      device_(device),
      arrivals_(device, config.num_layers, loras.adapters_max()),
      copier_(config, pool, loras, device, copies_at_once),
      fetch_seconds_(LoadSeconds(metrics, "fetch")),
      copy_seconds_(LoadSeconds(metrics, "copy")),
      copied_bytes_(metrics.Counter("graft_adapter_copied_bytes_total",
                                    "Bytes of adapters copied to the device")) {
  fetching_ = std::thread([this] { FetchFolders(); });
  copying_ = std::thread([this] {
    UseDevice(device_);
    CopyInTurns();
  });
}

PagedLoader::~PagedLoader() {
  {
    const std::lock_guard lock(mutex_);
    CHECK_EQ(num_under_way_, 0) << "orders outlive their engine";
    stopping_ = true;
    fetches_.came.notify_one();
    copies_wanted_.came.notify_one();
  }
  fetching_.join();
  copying_.join();
}

void PagedLoader::FetchFolders() {
  std::unique_lock lock(mutex_);
  for (;;) {
    fetches_.came.wait(lock, [this] { return stopping_ || !fetches_.orders.empty(); });
    if (fetches_.orders.empty()) return;
    const FetchJob job = std::move(fetches_.orders.front());
    fetches_.orders.pop_front();
    lock.unlock();
    std::optional<LoadEvent> event = ServeFetch(job);
    lock.lock();
    if (event.has_value()) Announce(std::move(*event));
  }
}

// Who is ordered while others are copied takes turns with them from the next layer on.
void PagedLoader::CopyInTurns() {
  std::unique_lock lock(mutex_);
  for (;;) {
    copies_wanted_.came.wait(
        lock, [this] { return stopping_ || !copies_wanted_.orders.empty() || !copier_.empty(); });
    while (!copier_.is_full() && !copies_wanted_.orders.empty()) {
      CopyOrder order = std::move(copies_wanted_.orders.front());
      copies_wanted_.orders.pop_front();
      AdapterArrival& arrival = arrivals_.At(order.slot);
      copier_.Add(std::move(order), arrival);
    }
    if (copier_.empty()) return;
    lock.unlock();
    const std::optional<CopiedAdapter> copied = copier_.CopyLayer();
    lock.lock();
    if (copied.has_value()) FinishCopy(*copied);
  }
}

void PagedLoader::FinishCopy(const CopiedAdapter& copied) {
  copy_seconds_.Observe(NsToSeconds(copied.elapsed_ns));
  copied_bytes_.Increment(static_cast<double>(copied.bytes));
  arrived_.push_back(copied.slot);
  LoadEvent event;
  event.kind = LoadEvent::Kind::kCopied;
  event.content = copied.content;
  event.copy_ns = copied.copy_ns;
  Announce(std::move(event));
}

// Under the lock: the engine that it wakes takes the event, and may be gone right after.
void PagedLoader::Announce(LoadEvent event) {
  --num_under_way_;
  events_.push_back(std::move(event));
  event_came_.notify_one();
  if (waker_) waker_();
}

void PagedLoader::Fetch(FetchOrder order) {
  const std::lock_guard lock(mutex_);
  ++num_under_way_;
  fetches_.orders.push_back({std::move(order), std::nullopt});
  fetches_.came.notify_one();
}

bool PagedLoader::Copy(CopyOrder order) {
  HostStore::Held held = TakeHeld(order.source);
  const bool in_host = static_cast<bool>(held);
  if (in_host) arrivals_.Begin(order.slot, std::move(held));
  const std::lock_guard lock(mutex_);
  ++num_under_way_;
  if (in_host) {
    copies_wanted_.orders.push_back(std::move(order));
    copies_wanted_.came.notify_one();
  } else {
    // By way of the other thread: copies behind it do not wait for its folder.
    FetchOrder source = order.source;
    fetches_.orders.push_back({std::move(source), std::move(order)});
    fetches_.came.notify_one();
  }
  return in_host;
}

HostStore::Held PagedLoader::TakeHeld(const FetchOrder& source) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = held_.find(source.content); it != held_.end()) {
      HostStore::Held held = std::move(it->second);
      held_.erase(it);
      return held;
    }
  }
  return backend_.Find(source.hash);
}

void PagedLoader::Drop(int32_t content) {
  HostStore::Held held;  // let go outside the lock
  const std::lock_guard lock(mutex_);
  const auto it = held_.find(content);
  if (it == held_.end()) return;
  held = std::move(it->second);
  held_.erase(it);
}

std::vector<LoadEvent> PagedLoader::TakeEvents() {
  const std::lock_guard lock(mutex_);
  for (const AdapterSlot slot : arrived_) arrivals_.End(slot);
  arrived_.clear();
  return std::exchange(events_, {});
}

void PagedLoader::WaitForEvent() {
  std::unique_lock lock(mutex_);
  event_came_.wait(lock, [this] { return num_under_way_ == 0 || !events_.empty(); });
}

void PagedLoader::SetWaker(std::function<void()> waker) {
  const std::lock_guard lock(mutex_);
  waker_ = std::move(waker);
}

std::optional<LoadEvent> PagedLoader::ServeFetch(const FetchJob& job) {
  const FetchOrder& order = job.order;
  LoadEvent event;
  event.kind = job.copy.has_value() ? LoadEvent::Kind::kCopied : LoadEvent::Kind::kFetched;
  event.content = order.content;
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  Result<HostStore::Held> held = backend_.Fetch(order.path, order.hash);
  fetch_seconds_.Observe(NsToSeconds(SteadyClock::Get().NowNs() - begin_ns));
  event.status = held.status();
  if (!held.ok()) return event;
  if (job.copy.has_value()) {
    arrivals_.Begin(job.copy->slot, std::move(*held));
    const std::lock_guard lock(mutex_);
    copies_wanted_.orders.push_back(*job.copy);
    copies_wanted_.came.notify_one();
    return std::nullopt;
  }
  event.facts = (*held)->facts;
  if (order.hash.empty() && on_read_) on_read_(order.key, event.facts);
  const std::lock_guard lock(mutex_);
  held_[order.content] = std::move(*held);
  return event;
}

}  // namespace graft
