#include "adapters/page_copier.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace graft {
namespace {

// Where in the pool's memory a source's bytes lie; fast for places that ascend.
class SourceMap {
 public:
  SourceMap(const std::vector<PageExtent>& extents, KvPool& pool)
      : extents_(extents),
        pool_(static_cast<char*>(pool.data())),
        page_bytes_(pool.layout().PageBytes()) {}

  // The address of source byte `begin`, and in *bytes how many follow there.
  char* Find(int64_t begin, int64_t* bytes) {
    // Mostly what is asked for ascends; modules of a stacked projection go back to their rows of A.
    if (begin < extents_[next_].source_begin) next_ = 0;
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
      if (stretch_ == adapter_.stretches.size()) {
        done_ = end;  // the last row's gap
        return;
      }
      const HostAdapter::Stretch& stretch = adapter_.stretches[stretch_];
      if (done_ < stretch.source_begin) {
        done_ = std::min(end, stretch.source_begin);
        continue;
      }
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

struct PageCopier::Copy {
  Copy(CopyOrder of, PageArrival& told, const AdapterSlicer& slicer, KvPool& pool,
       const Stream& stream)
      : order(std::move(of)),
        arrival(told),
        slice(slicer.keeps_all() ? HostAdapter() : slicer.Slice(told.adapter())),
        adapter(slicer.keeps_all() ? told.adapter() : slice),
        rows(adapter, SourceMap(order.extents, pool), stream),
        begin_ns(SteadyClock::Get().NowNs()) {}

  const CopyOrder order;
  PageArrival& arrival;
  const HostAdapter slice;  // where only a part is kept
  const HostAdapter& adapter;
  RowCopier rows;
  size_t layer = 0;  // the next one
  const int64_t begin_ns;
  int64_t copy_ns = 0;  // that its layers took so far
};

PageCopier::PageCopier(const ModelConfig& config, KvPool& pool, LoraStore& loras,
                       const Device& device, int32_t copies_at_once, AdapterSlicer slicer)
    : pool_(pool),
      loras_(loras),
      copies_at_once_(static_cast<size_t>(copies_at_once)),
      slicer_(std::move(slicer)),
      stream_(device, nullptr),
      halves_{StreamEvent(device), StreamEvent(device)},
      tables_((config.num_lora_matrices() * 2 * kLoraRankMax + kVirtualTokensMax) *
                  int64_t{sizeof(void*)},
              device) {
  CHECK_GT(copies_at_once, 0);
}

PageCopier::~PageCopier() = default;

void PageCopier::Add(CopyOrder order, PageArrival& arrival) {
  CHECK(!is_full());
  copies_.push_back(
      std::make_unique<Copy>(std::move(order), arrival, slicer_, pool_, stream_.get()));
  // A longer copy would run into pages of others.
  const Copy& copy = *copies_.back();
  const PageExtent& last = copy.order.extents.back();
  CHECK_EQ(last.source_begin + last.bytes, copy.adapter.facts.bytes) << copy.order.source.path;
}

std::optional<CopiedAdapter> PageCopier::CopyLayer() {
  CHECK(!empty());
  std::unique_ptr<Copy> copy = std::move(copies_.front());
  copies_.pop_front();
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  CopyNextLayer(*copy);
  const bool is_last = copy->layer == copy->adapter.layer_ends.size();
  if (is_last) halves_[1].Wait();
  const int64_t end_ns = SteadyClock::Get().NowNs();
  copy->copy_ns += end_ns - begin_ns;
  if (!is_last) {
    copies_.push_back(std::move(copy));
    return std::nullopt;
  }
  return CopiedAdapter{.content = copy->order.source.content,
                       .slot = copy->order.slot,
                       .bytes = copy->adapter.facts.bytes,
                       .copy_ns = copy->copy_ns,
                       .elapsed_ns = end_ns - copy->begin_ns};
}

// A layer's bytes in the stream at a time, in two halves so that it never runs dry: with more of
// them the device serves no other copies until all are done, and a step's own (its rows, its draws)
// wait for milliseconds.
void PageCopier::CopyNextLayer(Copy& copy) {
  const std::vector<int64_t>& ends = copy.adapter.layer_ends;
  const int64_t begin = copy.layer == 0 ? 0 : ends[copy.layer - 1];
  const int64_t end = ends[copy.layer];
  if (before_layer_) before_layer_(copy.order.slot, static_cast<int32_t>(copy.layer));
  halves_[0].Wait();
  copy.rows.CopyUpTo(begin + (end - begin) / 2);
  halves_[0].Record(stream_.get());
  halves_[1].Wait();
  copy.rows.CopyUpTo(end);
  // The first layer's rows are under way meanwhile. No other adapter's tables are, because all
  // halves before these have been waited for.
  if (copy.layer == 0) PlaceTables(copy);
  halves_[1].Record(stream_.get());
  copy.arrival.QueuedLayer(stream_.get());
  ++copy.layer;
}

// What all layers need besides their rows.
void PageCopier::PlaceTables(const Copy& copy) {
  const HostAdapter& adapter = copy.adapter;
  std::vector<LoraMatrix> matrices = MakeTables(adapter, copy.order.extents);
  SourceMap map(copy.order.extents, pool_);
  CopyPieces(map, adapter.weight_bytes, tables_.as<char>(),
             adapter.facts.bytes - adapter.weight_bytes, stream_.get());
  VirtualRows virtual_rows = nullptr;
  if (adapter.virtual_tokens.num_tokens > 0) {
    virtual_rows = reinterpret_cast<VirtualRows>(map.Find(adapter.virtual_tokens.table_begin));
  }
  loras_.Place(copy.order.slot, std::move(matrices), adapter.facts.bytes, virtual_rows);
}

// The tables of rows, made in tables_ as they lie in the source, and the matrices that name them.
std::vector<LoraMatrix> PageCopier::MakeTables(const HostAdapter& adapter,
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
  const HostAdapter::Virtual& own = adapter.virtual_tokens;
  auto** table =
      reinterpret_cast<const void**>(tables_.as<char>() + (own.table_begin - adapter.weight_bytes));
  for (int32_t j = 0; j < own.num_tokens; ++j) *table++ = rows.Find(j * own.row_bytes);
  return matrices;
}

}  // namespace graft
