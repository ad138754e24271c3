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

// Where in the pool's memory a source's bytes lie; asked for ascending places.
class SourceMap {
 public:
  SourceMap(const std::vector<PageExtent>& extents, KvPool& pool)
      : extents_(extents),
        pool_(static_cast<char*>(pool.data())),
        page_bytes_(pool.layout().PageBytes()) {}

  // The address of source byte `begin`, and in *bytes how many follow there.
  char* Find(int64_t begin, int64_t* bytes) {
    while (begin >= extents_[next_].source_begin + extents_[next_].bytes) ++next_;
    const PageExtent& extent = extents_[next_];
    const int64_t offset = begin - extent.source_begin;
    *bytes = extent.bytes - offset;
    return pool_ + extent.page * page_bytes_ + extent.page_begin + offset;
  }
  char* Find(int64_t begin) {
    int64_t unused = 0;
    return Find(begin, &unused);
  }

 private:
  const std::vector<PageExtent>& extents_;
  char* const pool_;
  const int64_t page_bytes_;
  size_t next_ = 0;
};

// `bytes` of the host, which are the source's from `begin` on, to where the map says. Host and
// device are cut differently: piece by piece.
void CopyPieces(SourceMap& map, int64_t begin, const char* data, int64_t bytes,
                const Stream& stream) {
  for (int64_t done = 0; done < bytes;) {
    int64_t room = 0;
    char* const target = map.Find(begin + done, &room);
    const int64_t piece = std::min(room, bytes - done);
    CopyToDevice(target, data + done, piece, stream);
    done += piece;
  }
}

// An adapter's rows from the host into pages, in order.
class RowCopier {
 public:
  RowCopier(const HostAdapter& adapter, SourceMap map, const Stream& stream)
      : adapter_(adapter), map_(map), stream_(stream) {}

  // Those that were not yet copied, up to source byte `end`.
  void CopyUpTo(int64_t end) {
    while (done_ < end) {
      const HostAdapter::Stretch& stretch = adapter_.stretches[stretch_];
      const int64_t stretch_end = stretch.source_begin + stretch.bytes;
      const int64_t bytes = std::min(end, stretch_end) - done_;
      CopyPieces(map_, done_, stretch.data + (done_ - stretch.source_begin), bytes, stream_);
      done_ += bytes;
      if (done_ == stretch_end) ++stretch_;
    }
  }

 private:
  const HostAdapter& adapter_;
  SourceMap map_;
  const Stream& stream_;
  size_t stretch_ = 0;
  int64_t done_ = 0;
};

}  // namespace

PagedLoader::PagedLoader(const ModelConfig& config, LoraAdapterBackend& backend, KvPool& pool,
                         LoraStore& loras, const Device& device, Metrics& metrics)
    : backend_(backend),
      pool_(pool),
      loras_(loras),
      device_(device),
      arrivals_(device, config.num_layers, loras.adapters_max()),
      copies_(device, nullptr),
      halves_{StreamEvent(device), StreamEvent(device)},
      tables_(int64_t{config.num_layers} * kLoraModules * 2 * kLoraRankMax *
              int64_t{sizeof(void*)}),
      fetch_seconds_(LoadSeconds(metrics, "fetch")),
      copy_seconds_(LoadSeconds(metrics, "copy")),
      copied_bytes_(metrics.Counter("graft_adapter_copied_bytes_total",
                                    "Bytes of adapters copied to the device")) {
  fetcher_ = std::thread([this] { Work(fetches_, &PagedLoader::ServeFetch); });
  copier_ = std::thread([this] {
    UseDevice(device_);
    Work(copies_wanted_, &PagedLoader::ServeCopy);
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
  fetcher_.join();
  copier_.join();
}

template <typename Order>
void PagedLoader::Work(Queue<Order>& queue,
                       std::optional<LoadEvent> (PagedLoader::*serve)(const Order&)) {
  std::unique_lock lock(mutex_);
  for (;;) {
    queue.came.wait(lock, [&] { return stopping_ || !queue.orders.empty(); });
    if (queue.orders.empty()) return;
    const Order order = std::move(queue.orders.front());
    queue.orders.pop_front();
    lock.unlock();
    std::optional<LoadEvent> event = (this->*serve)(order);
    lock.lock();
    if (!event.has_value()) continue;
    --num_under_way_;
    Announce(std::move(*event));
  }
}

// Under the lock: the engine that it wakes takes the event, and may be gone right after.
void PagedLoader::Announce(LoadEvent event) {
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

std::optional<LoadEvent> PagedLoader::ServeCopy(const CopyOrder& order) {
  AdapterArrival& arrival = arrivals_.At(order.slot);
  const HostAdapter& adapter = arrival.adapter();
  // Else it would run into pages of others.
  const PageExtent& last = order.extents.back();
  CHECK_EQ(last.source_begin + last.bytes, adapter.facts.bytes) << order.source.path;
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  CopyLayers(order, arrival);
  LoadEvent event;
  event.kind = LoadEvent::Kind::kCopied;
  event.content = order.source.content;
  event.copy_ns = SteadyClock::Get().NowNs() - begin_ns;
  copy_seconds_.Observe(NsToSeconds(event.copy_ns));
  copied_bytes_.Increment(static_cast<double>(adapter.facts.bytes));
  const std::lock_guard lock(mutex_);
  arrived_.push_back(order.slot);
  return event;
}

// Layer by layer, a layer's bytes in the stream at a time, in two halves so that it never runs dry:
// with more of them the device serves no other copies until all are done, and a step's own (its
// rows, its draws) wait for milliseconds.
void PagedLoader::CopyLayers(const CopyOrder& order, AdapterArrival& arrival) {
  const HostAdapter& adapter = arrival.adapter();
  RowCopier rows(adapter, SourceMap(order.extents, pool_), copies_.get());
  int64_t begin = 0;
  for (size_t layer = 0; layer < adapter.layer_ends.size(); ++layer) {
    if (before_layer_) before_layer_(static_cast<int32_t>(layer));
    const int64_t end = adapter.layer_ends[layer];
    halves_[0].Wait();
    rows.CopyUpTo(begin + (end - begin) / 2);
    halves_[0].Record(copies_.get());
    halves_[1].Wait();
    rows.CopyUpTo(end);
    // While the first layer's rows are under way.
    if (layer == 0) PlaceTables(order, adapter);
    halves_[1].Record(copies_.get());
    arrival.QueuedLayer(copies_.get());
    begin = end;
  }
  halves_[1].Wait();
}

// What all layers need besides their rows.
void PagedLoader::PlaceTables(const CopyOrder& order, const HostAdapter& adapter) {
  std::vector<LoraMatrix> matrices = MakeTables(adapter, order.extents);
  SourceMap map(order.extents, pool_);
  CopyPieces(map, adapter.weight_bytes, tables_.as<char>(),
             adapter.facts.bytes - adapter.weight_bytes, copies_.get());
  loras_.Place(order.slot, std::move(matrices), adapter.facts.bytes);
}

// The tables of rows, made in tables_ as they lie in the source, and the matrices that name them.
std::vector<LoraMatrix> PagedLoader::MakeTables(const HostAdapter& adapter,
                                                const std::vector<PageExtent>& extents) {
  SourceMap rows(extents, pool_);
  SourceMap tables(extents, pool_);
  std::vector<LoraMatrix> matrices(adapter.matrices.size());
  for (size_t i = 0; i < matrices.size(); ++i) {
    const HostAdapter::Matrix& from = adapter.matrices[i];
    if (from.rank == 0) continue;
    auto** table = reinterpret_cast<const void**>(tables_.as<char>() +
                                                  (from.tables_begin - adapter.weight_bytes));
    for (int32_t j = 0; j < from.rank; ++j)
      *table++ = rows.Find(from.a_begin + j * from.a_row_bytes);
    for (int32_t j = 0; j < from.rank; ++j)
      *table++ = rows.Find(from.b_begin + j * from.b_row_bytes);
    matrices[i].a_rows = reinterpret_cast<const void* const*>(tables.Find(from.tables_begin));
    matrices[i].b_rows = matrices[i].a_rows + from.rank;
    matrices[i].rank = from.rank;
    matrices[i].scale = from.scale;
  }
  return matrices;
}

}  // namespace graft
