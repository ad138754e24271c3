#include "executor/paged_loader.h"

#include <algorithm>
#include <chrono>
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

}  // namespace

PagedLoader::PagedLoader(const ModelConfig& config, LoraAdapterBackend& backend, KvPool& pool,
                         LoraStore& loras, const Device& device, Metrics& metrics,
                         int32_t copies_at_once, const FetchLimits& limits,
                         const LoaderRanks& ranks)
    : backend_(backend),
      loras_(loras),
      device_(device),
      limits_(limits),
      ranks_(ranks.link),
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
      rank_copies_(static_cast<size_t>(loras.adapters_max())) {
  CHECK(limits.threads > 0 && limits.threads_more >= 0 && limits.bytes_max > 0);
  CHECK(limits.slow_ns < INT64_MAX / 2 && limits.give_up_ns < INT64_MAX / 2);
  {
    const std::lock_guard lock(mutex_);
    for (int32_t i = 0; i < limits.threads; ++i) {
      readers_.emplace_back([this] { FetchFolders(); });
    }
  }
  watching_ = std::thread([this] { WatchReadings(); });
  copying_ = std::thread([this] {
    NameThread("adapter copy");
    UseDevice(device_);
    CopyInTurns();
  });
}

PagedLoader::~PagedLoader() {
  {
    const std::lock_guard lock(mutex_);
    CHECK_EQ(num_under_way_, 0) << "orders outlive their engine";
    stopping_ = true;
    fetches_.came.notify_all();
    watched_changed_.notify_one();
    copies_wanted_.came.notify_one();
  }
  // After this thread has ended, no reader is added.
  watching_.join();
  for (std::thread& reader : readers_) reader.join();
  copying_.join();
}

// Under the lock: wakes a thread, or adds one, for an order in line. False: all are busy.
bool PagedLoader::FindReader() {
  if (readers_.size() > readings_.size()) {
    fetches_.came.notify_one();
    return true;
  }
  if (readers_.size() == static_cast<size_t>(limits_.threads + limits_.threads_more)) return false;
  readers_.emplace_back([this] { FetchFolders(); });
  return true;
}

// Whether the holder may have one more thread. Threads that hang on a folder do not count.
bool PagedLoader::MayRead(int32_t holder) const {
  const auto num_reading =
      std::count_if(readings_.begin(), readings_.end(), [holder](const Reading& reading) {
        return reading.job.order.holder == holder && !reading.is_slow;
      });
  return num_reading < limits_.threads;
}

void PagedLoader::FetchFolders() {
  NameThread("adapter reader");
  const auto may_read = [this](int32_t holder) { return MayRead(holder); };
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<FetchJob> job;
    fetches_.came.wait(lock, [&] {
      job = fetches_.orders.TakeNext(may_read);
      return stopping_ || job.has_value();
    });
    if (!job.has_value()) return;
    job->since_ns = SteadyClock::Get().NowNs();
    const auto reading = readings_.insert(readings_.end(), {.job = std::move(*job)});
    if (fetches_.orders.Has(may_read)) FindReader();
    watched_changed_.notify_one();
    Read(*reading, lock);
    readings_.erase(reading);
    room_came_.notify_all();
    TellBytes();
  }
}

Result<HostStore::Held> PagedLoader::FetchNow(const FetchJob& job) {
  const FetchOrder& order = job.order;
  return order.parts.empty() ? backend_.FetchForRequests(order.path, order.hash)
                             : backend_.FetchSum(order.parts, on_read_);
}

void PagedLoader::Read(Reading& reading, std::unique_lock<std::mutex>& lock) {
  const FetchJob& job = reading.job;
  const FetchOrder& order = job.order;
  Result<HostStore::Held> held = UnavailableError("it found no room in time");
  if (WaitForRoom(reading, lock)) {
    lock.unlock();
    held = FetchNow(job);
    fetch_seconds_.Observe(NsToSeconds(SteadyClock::Get().NowNs() - job.since_ns));
    lock.lock();
  }
  reading.is_done = true;
  if (reading.is_given_up) {
    if (reading.hangs) hanging_gauge_.Decrement();
    lock.unlock();
    held = UnavailableError("nobody waits for it");  // let go outside the lock
    lock.lock();
    return;
  }
  if (!held.ok()) return Announce(EventOf(job, held.status()));
  lock.unlock();
  if (job.copy.has_value()) {
    BeginCopy(*job.copy, std::move(*held));
    lock.lock();
    return;
  }
  LoadEvent event = EventOf(job, OkStatus());
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
  return held.is_in_store() || HeldBytes() + held->weight_bytes <= limits_.bytes_max;
}

// The lock is held at both ends. False: it was given up before it found room.
bool PagedLoader::WaitForRoom(Reading& reading, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const int64_t bytes = BytesToFetch(reading.job.order);
  lock.lock();
  reading.bytes = bytes;
  reading.phase = ReadingPhase::kWaiting;
  room_came_.wait(lock, [&] { return reading.is_given_up || HasRoom(reading); });
  if (reading.is_given_up) return false;
  reading.phase = ReadingPhase::kReading;
  reading.job.since_ns = SteadyClock::Get().NowNs();
  room_came_.notify_all();        // the next in line may find some, too
  watched_changed_.notify_one();  // it may hang from here on
  TellBytes();
  return true;
}

// What is in the store takes none, or all its parts do.
int64_t PagedLoader::BytesToFetch(const FetchOrder& order) const {
  if (!order.hash.empty() && backend_.FactsOf(order.hash).has_value()) return 0;
  if (order.parts.empty()) return backend_.BytesToFetch(order.path);
  int64_t bytes = 0;
  for (const AdapterPart& part : order.parts) bytes += backend_.BytesToFetch(part.path);
  return bytes;
}

bool PagedLoader::TakesRoom(const Reading& reading) {
  return reading.phase == ReadingPhase::kReading && !reading.is_slow && !reading.is_given_up &&
         reading.bytes > 0;
}

// Under the lock. Those that came first find room first, and one of them always does.
bool PagedLoader::HasRoom(const Reading& reading) const {
  if (reading.bytes == 0) return true;
  const auto first_in_line =
      std::find_if(readings_.begin(), readings_.end(), [](const Reading& other) {
        return other.phase == ReadingPhase::kWaiting && other.bytes > 0 && !other.is_given_up;
      });
  if (&*first_in_line != &reading) return false;
  if (std::none_of(readings_.begin(), readings_.end(), TakesRoom)) return true;
  return BytesUnderWay() + reading.bytes <= limits_.bytes_max;
}

int64_t PagedLoader::BytesUnderWay() const {
  int64_t bytes = 0;
  for (const Reading& reading : readings_) {
    if (TakesRoom(reading)) bytes += reading.bytes;
  }
  return bytes + HeldBytes();
}

int64_t PagedLoader::HeldBytes() const {
  int64_t bytes = 0;
  for (const auto& [content, held] : held_) {
    if (!held.is_in_store()) bytes += held->weight_bytes;
  }
  return bytes;
}

void PagedLoader::TellBytes() { bytes_gauge_.Set(static_cast<double>(BytesUnderWay())); }

LoadEvent PagedLoader::EventOf(const FetchJob& job, Status status) {
  LoadEvent event;
  event.kind = job.copy.has_value() ? LoadEvent::Kind::kCopied : LoadEvent::Kind::kFetched;
  event.content = job.order.content;
  event.status = std::move(status);
  return event;
}

void PagedLoader::WatchReadings() {
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
  const auto is_late = [&](const FetchJob& job, int64_t limit_ns) {
    const int64_t left_ns = job.since_ns + limit_ns - now_ns;
    if (left_ns > 0) next_ns = std::min(next_ns, left_ns);
    return left_ns <= 0;
  };
  const auto give_up = [&](const FetchJob& job) {
    Announce(EventOf(
        job, UnavailableError(job.order.path + " could not be read for " +
                              std::to_string(limits_.give_up_ns / 1'000'000'000) +
                              " s: its storage does not answer; try again later, or load the "
                              "adapter from a folder elsewhere")));
  };
  for (Reading& reading : readings_) {
    if (reading.is_done || reading.is_given_up) continue;
    // One that waits for room hangs nowhere.
    const bool may_hang = reading.phase != ReadingPhase::kWaiting;
    if (may_hang && !reading.is_slow && is_late(reading.job, limits_.slow_ns) && FindReader()) {
      MakePlaceFor(reading);
    }
    if (!is_late(reading.job, limits_.give_up_ns)) continue;
    reading.is_given_up = true;
    reading.hangs = may_hang;
    if (may_hang) hanging_gauge_.Increment();
    room_came_.notify_all();
    give_up(reading.job);
  }
  // Jobs in line are late where all threads hang.
  const std::vector<FetchJob> late = fetches_.orders.TakeFirstOnes(
      [&](const FetchJob& job) { return is_late(job, limits_.give_up_ns); });
  for (const FetchJob& job : late) give_up(job);
  return next_ns;
}

void PagedLoader::MakePlaceFor(Reading& reading) {
  reading.is_slow = true;
  room_came_.notify_all();
  if (reading.job.copy.has_value()) return;
  LoadEvent event;
  event.kind = LoadEvent::Kind::kSlow;
  event.content = reading.job.order.content;
  Push(std::move(event));
}

// The adapter to copy is in the host's memory. The other ranks get their orders before a step with
// the slot can be sent to them.
void PagedLoader::BeginCopy(CopyOrder order, HostStore::Held held) {
  uint32_t rank_copy = 0;
  if (ranks_ != nullptr) rank_copy = ranks_->Copy(order, *held);
  arrivals_.Begin(order.slot, std::move(held));
  const std::lock_guard lock(mutex_);
  rank_copies_[static_cast<size_t>(order.slot)] = rank_copy;
  const int32_t holder = order.source.holder;
  copies_wanted_.orders.Push(holder, std::move(order));
  copies_wanted_.came.notify_one();
}

// A copy that is ordered while others run takes turns with them from the next layer on.
void PagedLoader::CopyInTurns() {
  std::unique_lock lock(mutex_);
  for (;;) {
    copies_wanted_.came.wait(
        lock, [this] { return stopping_ || !copies_wanted_.orders.empty() || !copier_.empty(); });
    while (!copier_.is_full() && !copies_wanted_.orders.empty()) {
      CopyOrder order = *copies_wanted_.orders.TakeNext();
      AdapterArrival& arrival = arrivals_.At(order.slot);
      copier_.Add(std::move(order), arrival);
    }
    if (copier_.empty()) return;
    lock.unlock();
    const std::optional<CopiedAdapter> copied = copier_.CopyLayer();
    lock.lock();
    if (!copied.has_value()) continue;
    if (ranks_ != nullptr) {
      const uint32_t number = rank_copies_[static_cast<size_t>(copied->slot)];
      lock.unlock();
      ranks_->AwaitCopied(number);
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
  OrderFetch({.order = std::move(order)});
}

// Under the lock. A thread more for a folder that has one already would hang, too.
void PagedLoader::OrderFetch(FetchJob job) {
  ++num_under_way_;
  if (HangsAt(job.order.path)) {
    return Announce(EventOf(
        job, UnavailableError(job.order.path + " still cannot be read: its storage does not "
                                               "answer; try again later, or load the adapter "
                                               "from a folder elsewhere")));
  }
  job.since_ns = SteadyClock::Get().NowNs();
  const int32_t holder = job.order.holder;
  fetches_.orders.Push(holder, std::move(job));
  if (MayRead(holder)) FindReader();
  watched_changed_.notify_one();  // it may find all threads hanging
}

bool PagedLoader::is_reading() {
  const std::lock_guard lock(mutex_);
  const auto is_wanted = [](const Reading& reading) { return !reading.is_given_up; };
  return std::any_of(readings_.begin(), readings_.end(), is_wanted) || !fetches_.orders.empty();
}

bool PagedLoader::HangsAt(const std::string& path) const {
  return std::any_of(readings_.begin(), readings_.end(), [&path](const Reading& reading) {
    return reading.is_given_up && reading.job.order.path == path;
  });
}

bool PagedLoader::Copy(CopyOrder order) {
  HostStore::Held held = TakeHeld(order.source);
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
  OrderFetch({.order = std::move(source), .copy = std::move(order)});
  return false;
}

HostStore::Held PagedLoader::TakeHeld(const FetchOrder& source) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = held_.find(source.content); it != held_.end()) {
      HostStore::Held held = std::move(it->second);
      held_.erase(it);
      room_came_.notify_all();
      TellBytes();
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
  room_came_.notify_all();
  TellBytes();
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

}  // namespace graft
