#include "adapters/paged_loader.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/thread_name.h"

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

int64_t BytesOutsideStore(const HostStore::Held& held) {
  return held.is_in_store() ? 0 : held->weight_bytes;
}

}  // namespace

PagedLoader::PagedLoader(const ModelConfig& config, PeftBackend& backend, KvPool& pool,
                         LoraStore& loras, const Device& device, Metrics& metrics,
                         int32_t copies_at_once, const FetchLimits& limits,
                         const LoaderRanks& ranks)
    : backend_(backend),
      loras_(loras),
      device_(device),
      limits_(limits),
      other_ranks_(ranks.others),
      arrivals_(device, config.num_layers, loras.adapters_max()),
      copier_(config, pool, loras, device, copies_at_once, ranks.slicer),
      fetch_seconds_(LoadSeconds(metrics, "fetch")),
      copy_seconds_(LoadSeconds(metrics, "copy")),
      copied_bytes_(metrics.Counter("graft_adapter_copied_bytes_total",
                                    "Bytes of adapters copied to the device")),
      hanging_gauge_(metrics.Gauge("graft_adapter_fetches_hanging",
                                   "Fetches that were given up and whose storage has not answered "
                                   "yet")),
      bytes_gauge_(metrics.Gauge("graft_adapter_fetch_bytes",
                                 "Bytes of memory that fetches take besides the host's store")),
      line_(limits),
      arriving_bytes_(static_cast<size_t>(loras.adapters_max())),
      rank_copies_(static_cast<size_t>(loras.adapters_max())) {
  CHECK(limits.threads > 0 && limits.threads_more >= 0 && limits.bytes_max > 0);
  CHECK(limits.slow_ns < INT64_MAX / 2 && limits.give_up_ns < INT64_MAX / 2);
  {
    const std::lock_guard lock(mutex_);
    for (int32_t i = 0; i < limits.threads; ++i) {
      readers_.emplace_back([this] { FetchFolders(); });
    }
  }
  watching_ = std::thread([this] { WatchFetches(); });
  copying_ = std::thread([this] {
    NameThread("adapter copy");
    UseDevice(device_);
    CopyInTurns();
  });
  backend_.reads_beside().Watch(this, [this] {
    const std::lock_guard lock(mutex_);
    WakeReader();
    TellBytes();
  });
}

PagedLoader::~PagedLoader() {
  backend_.reads_beside().Unwatch(this);
  {
    const std::lock_guard lock(mutex_);
    CHECK_EQ(num_under_way_, 0) << "orders outlive their engine";
    stopping_ = true;
    fetch_came_.notify_all();
    watched_changed_.notify_one();
    copy_came_.notify_one();
  }
  // After this thread has ended, no reader is added.
  watching_.join();
  for (std::thread& reader : readers_) reader.join();
  copying_.join();
}

// Under the lock: wakes a thread, or adds one. Where all are busy, the next that ends its fetch
// looks for another.
void PagedLoader::FindReader() {
  if (std::ssize(readers_) > line_.num_with_thread()) {
    fetch_came_.notify_one();
  } else if (readers_.size() < static_cast<size_t>(limits_.threads + limits_.threads_more)) {
    readers_.emplace_back([this] { FetchFolders(); });
  }
}

// Under the lock, whenever a fetch may have found a thread or room. The thread that takes one wakes
// the next.
void PagedLoader::WakeReader() {
  if (line_.HasNext(BytesBesideLine())) FindReader();
}

void PagedLoader::FetchFolders() {
  NameThread("adapter reader");
  std::unique_lock lock(mutex_);
  for (;;) {
    AdapterFetch* fetch = nullptr;
    fetch_came_.wait(lock, [&] {
      fetch = line_.TakeNext(BytesBesideLine(), SteadyClock::Get().NowNs());
      return stopping_ || fetch != nullptr;
    });
    if (fetch == nullptr) return;
    WakeReader();
    watched_changed_.notify_one();  // it may hang from here on
    if (fetch->phase == FetchPhase::kLooking) {
      Look(*fetch, lock);
    } else {
      TellBytes();
      Read(*fetch, lock);
      line_.Erase(*fetch);
      TellBytes();
    }
  }
}

// What was given up while it was looked at ends here.
void PagedLoader::Look(AdapterFetch& fetch, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const int64_t bytes = BytesToFetch(fetch.order);
  lock.lock();
  if (fetch.is_given_up) {
    hanging_gauge_.Decrement();
    line_.Erase(fetch);
  } else {
    line_.SetSize(fetch, bytes, SteadyClock::Get().NowNs());
  }
}

Result<HostStore::Held> PagedLoader::FetchNow(const FetchOrder& order) {
  return order.parts.empty() ? backend_.FetchForRequests(order.path, order.hash)
                             : backend_.FetchSum(order.parts, on_read_);
}

void PagedLoader::Read(AdapterFetch& fetch, std::unique_lock<std::mutex>& lock) {
  const FetchOrder& order = fetch.order;
  const int64_t begin_ns = fetch.since_ns;
  lock.unlock();
  Result<HostStore::Held> held = FetchNow(order);
  fetch_seconds_.Observe(NsToSeconds(SteadyClock::Get().NowNs() - begin_ns));
  lock.lock();
  fetch.is_done = true;
  if (fetch.is_given_up) {
    hanging_gauge_.Decrement();
    lock.unlock();
    held = UnavailableError("nobody waits for it");  // let go outside the lock
    lock.lock();
    return;
  }
  if (!held.ok()) return Announce(EventOf(fetch, held.status()));
  lock.unlock();
  if (fetch.copy.has_value()) {
    BeginCopy(*fetch.copy, std::move(*held));
    lock.lock();
    return;
  }
  LoadEvent event = EventOf(fetch, OkStatus());
  event.facts = (*held)->facts;
  if (order.hash.empty() && order.parts.empty() && on_read_) on_read_(order.key, event.facts);
  lock.lock();
  if (MayHold(*held)) {
    held_[order.content] = std::move(*held);
  } else {
    lock.unlock();
    *held = {};
    lock.lock();
  }
  Announce(std::move(event));
}

// Under the lock. Contents that wait for pages of the device keep others out of the store, and take
// memory where the store has no room for them. What is let go is read again for its copy, unless
// the store still has it.
bool PagedLoader::MayHold(const HostStore::Held& held) const {
  if (held_.empty()) return true;
  if (std::ssize(held_) >= limits_.held_max) return false;
  return held.is_in_store() || BytesBesideLine() + held->weight_bytes <= limits_.bytes_max;
}

// What is in the store takes none, or all its parts do.
int64_t PagedLoader::BytesToFetch(const FetchOrder& order) const {
  if (!order.hash.empty() && backend_.FactsOf(order.hash).has_value()) return 0;
  if (order.parts.empty()) return backend_.BytesToFetch(order.path);
  int64_t bytes = 0;
  for (const AdapterPart& part : order.parts) bytes += backend_.BytesToFetch(part.path);
  return bytes;
}

// What was fetched and is kept for a copy, or is being copied, and what is read outside the line.
int64_t PagedLoader::BytesBesideLine() const {
  int64_t bytes = backend_.reads_beside().bytes();
  bytes += std::reduce(arriving_bytes_.begin(), arriving_bytes_.end());
  for (const auto& [content, held] : held_) bytes += BytesOutsideStore(held);
  return bytes;
}

// All that reading takes, of slow fetches and of those given up, too.
void PagedLoader::TellBytes() {
  bytes_gauge_.Set(static_cast<double>(line_.bytes() + BytesBesideLine()));
}

LoadEvent PagedLoader::EventOf(const AdapterFetch& fetch, Status status) {
  LoadEvent event;
  event.kind = fetch.copy.has_value() ? LoadEvent::Kind::kCopied : LoadEvent::Kind::kFetched;
  event.content = fetch.order.content;
  event.status = std::move(status);
  return event;
}

void PagedLoader::WatchFetches() {
  NameThread("adapter watch");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const int64_t wait_ns = GiveUpLate(SteadyClock::Get().NowNs());
    if (wait_ns == INT64_MAX) {
      watched_changed_.wait(lock);
    } else {
      watched_changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
    }
  }
}

int64_t PagedLoader::GiveUpLate(int64_t now_ns) {
  int64_t next_ns = INT64_MAX;
  const auto is_past = [&](int64_t time_ns) {
    const int64_t left_ns = time_ns - now_ns;
    if (left_ns > 0) next_ns = std::min(next_ns, left_ns);
    return left_ns <= 0;
  };
  std::list<AdapterFetch>& fetches = line_.fetches();
  for (auto it = fetches.begin(); it != fetches.end();) {
    AdapterFetch& fetch = *it++;  // it may go
    if (fetch.is_done || fetch.is_given_up) continue;
    if (fetch.has_thread() && !fetch.is_slow && is_past(line_.SlowFromNs(fetch))) TellSlow(fetch);
    if (is_past(line_.GiveUpFromNs(fetch))) GiveUp(fetch, now_ns);
  }
  WakeReader();
  return next_ns;
}

// Those in line are late where what they wait for hangs, and so is what was in line for most of
// its time.
void PagedLoader::GiveUp(AdapterFetch& fetch, int64_t now_ns) {
  const std::string seconds = std::to_string(limits_.give_up_ns / 1'000'000'000) + " s";
  const bool hangs = fetch.has_thread() && now_ns - fetch.since_ns >= limits_.give_up_ns / 2;
  const std::string why =
      hangs ? " could not be read for " + seconds + ": its storage does not answer"
            : " was in line to be read for " + seconds +
                  ": the storage of adapters before it does not answer, or is slow";
  Announce(EventOf(fetch, UnavailableError(fetch.order.path + why +
                                           "; try again later, or load the adapter from a folder "
                                           "elsewhere")));
  if (!fetch.has_thread()) return line_.Erase(fetch);
  fetch.is_given_up = true;
  hanging_gauge_.Increment();
}

void PagedLoader::TellSlow(AdapterFetch& fetch) {
  fetch.is_slow = true;
  if (fetch.copy.has_value()) return;
  LoadEvent event;
  event.kind = LoadEvent::Kind::kSlow;
  event.content = fetch.order.content;
  Push(std::move(event));
}

// The adapter to copy is in the host's memory. The other ranks get their orders before a step with
// the slot can be sent to them.
void PagedLoader::BeginCopy(CopyOrder order, HostStore::Held held) {
  uint32_t rank_copy = 0;
  if (other_ranks_ != nullptr) rank_copy = other_ranks_->Copy(order, *held);
  const int64_t bytes = BytesOutsideStore(held);
  arrivals_.Begin(order.slot, std::move(held));
  const std::lock_guard lock(mutex_);
  SetArriving(order.slot, bytes);
  rank_copies_[static_cast<size_t>(order.slot)] = rank_copy;
  const int32_t holder = order.source.holder;
  copies_wanted_.Push(holder, std::move(order));
  copy_came_.notify_one();
}

// A copy that is ordered while others run takes turns with them from the next layer on.
void PagedLoader::CopyInTurns() {
  std::unique_lock lock(mutex_);
  for (;;) {
    copy_came_.wait(lock,
                    [this] { return stopping_ || !copies_wanted_.empty() || !copier_.empty(); });
    while (!copier_.is_full() && !copies_wanted_.empty()) {
      CopyOrder order = *copies_wanted_.TakeNext();
      PageArrival& arrival = arrivals_.At(order.slot);
      copier_.Add(std::move(order), arrival);
    }
    if (copier_.empty()) return;
    lock.unlock();
    const std::optional<CopiedAdapter> copied = copier_.CopyLayer();
    lock.lock();
    if (!copied.has_value()) continue;
    if (other_ranks_ != nullptr) {
      const uint32_t number = rank_copies_[static_cast<size_t>(copied->slot)];
      lock.unlock();
      other_ranks_->AwaitCopied(number);
      lock.lock();
    }
    FinishCopy(*copied);
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
  Push(std::move(event));
}

void PagedLoader::Push(LoadEvent event) {
  events_.push_back(std::move(event));
  event_came_.notify_one();
  if (waker_) waker_();
}

void PagedLoader::Fetch(FetchOrder order) {
  const std::lock_guard lock(mutex_);
  OrderFetch(std::move(order), std::nullopt);
}

// Under the lock. A thread more for a folder that has one already would hang, too.
void PagedLoader::OrderFetch(FetchOrder order, std::optional<CopyOrder> copy) {
  ++num_under_way_;
  if (HangsAt(order.path)) {
    const Status status = UnavailableError(
        order.path +
        " still cannot be read: its storage does not answer; try again later, or load the adapter "
        "from a folder elsewhere");
    return Announce(EventOf({.order = std::move(order), .copy = std::move(copy)}, status));
  }
  line_.Add(std::move(order), std::move(copy), SteadyClock::Get().NowNs());
  WakeReader();
  watched_changed_.notify_one();  // it may find all threads hanging
}

bool PagedLoader::is_reading() {
  const std::lock_guard lock(mutex_);
  return !std::ranges::all_of(line_.fetches(), &AdapterFetch::is_given_up);
}

bool PagedLoader::HangsAt(const std::string& path) const {
  return std::ranges::any_of(line_.fetches(), [&path](const AdapterFetch& fetch) {
    return fetch.is_given_up && fetch.order.path == path;
  });
}

bool PagedLoader::Copy(CopyOrder order) {
  HostStore::Held held = TakeHeld(order);
  if (held) {
    {
      const std::lock_guard lock(mutex_);
      ++num_under_way_;
    }
    BeginCopy(std::move(order), std::move(held));
    return true;
  }
  // Another thread fetches it first, so that the copies behind it do not wait for its folder.
  const std::lock_guard lock(mutex_);
  FetchOrder source = order.source;
  OrderFetch(std::move(source), std::move(order));
  return false;
}

// Its memory is still taken, by its copy.
HostStore::Held PagedLoader::TakeHeld(const CopyOrder& order) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = held_.find(order.source.content); it != held_.end()) {
      HostStore::Held held = std::move(it->second);
      held_.erase(it);
      SetArriving(order.slot, BytesOutsideStore(held));
      return held;
    }
  }
  return backend_.Find(order.source.hash);
}

// Under the lock, until TakeEvents ends the arrival.
void PagedLoader::SetArriving(AdapterSlot slot, int64_t bytes) {
  arriving_bytes_[static_cast<size_t>(slot)] = bytes;
}

void PagedLoader::Drop(int32_t content) {
  HostStore::Held held;  // let go outside the lock
  const std::lock_guard lock(mutex_);
  const auto it = held_.find(content);
  if (it == held_.end()) return;
  held = std::move(it->second);
  held_.erase(it);
  WakeReader();
  TellBytes();
}

std::vector<LoadEvent> PagedLoader::TakeEvents() {
  const std::lock_guard lock(mutex_);
  for (const AdapterSlot slot : arrived_) {
    arrivals_.End(slot);
    SetArriving(slot, 0);
  }
  if (!arrived_.empty()) {
    WakeReader();
    TellBytes();
  }
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

}  // namespace graft
