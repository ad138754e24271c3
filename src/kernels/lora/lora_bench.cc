// y += x A B as Punica's Figures 8 and 9 measure it (h 4096, bf16): four popularity laws, batches
// and ranks, against a loop over rows and against gathering the adapters into one padded batch.
// Rank 16 at TinyLlama's shapes, distinct, is what decode does.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/common/bench_ops.h"
#include "kernels/lora/lora.h"

namespace graft {
namespace {

enum class Law { kDistinct, kUniform, kSkewed, kIdentical };

const char* LawName(Law law) {
  switch (law) {
    case Law::kDistinct:
      return "distinct";
    case Law::kUniform:
      return "uniform";
    case Law::kSkewed:
      return "skewed";
    case Law::kIdentical:
      return "identical";
  }
  return "?";
}

// Rows of each adapter. Uniform: ceil(sqrt n) adapters with equal shares; skewed (Zipf-1.5 in
// Punica): each next adapter has 1 / 1.5 of the rows of the one before.
std::vector<int32_t> RowsPerAdapter(Law law, int32_t rows) {
  if (law == Law::kDistinct) return std::vector<int32_t>(rows, 1);
  if (law == Law::kIdentical) return {rows};
  std::vector<int32_t> result;
  int32_t left = rows;
  const auto groups = static_cast<int32_t>(std::ceil(std::sqrt(rows)));
  for (int32_t i = 0; i < groups && left > 0; ++i) {
    int32_t take = (rows * (i + 1)) / groups - (rows * i) / groups;
    if (law == Law::kSkewed) take = std::max(1, static_cast<int32_t>(std::lround(left / 3.0)));
    if (i == groups - 1) take = left;
    result.push_back(take);
    left -= take;
  }
  return result;
}

struct Shape {
  int32_t num_slices;
  int64_t k;
  int64_t n;  // of each slice
};

// Adapters of one rank that together are larger than the caches, taken in turns.
class AdapterRing {
 public:
  AdapterRing(const Shape& shape, int32_t rank, int64_t bytes_min)
      : shape_(shape), rank_(rank), bytes_(shape.num_slices * rank * (shape.k + shape.n) * 2) {
    count_ = (bytes_min + bytes_ - 1) / bytes_;
    if (count_ < 64) count_ = 64;
    storage_ = Buffer(count_ * bytes_);
    auto* values = storage_.as<Bfloat16>();
    for (int64_t i = 0; i < storage_.bytes() / 2; ++i) {
      values[i] = FromFloat<Bfloat16>(static_cast<float>(i % 251) / 251.0f - 0.5f);
    }
    pointers_.resize(count_ * shape.num_slices * 2 * rank);
    matrices_.resize(count_ * shape.num_slices);
    for (int64_t i = 0; i < count_; ++i) Place(i, values + i * bytes_ / 2);
  }

  const LoraMatrix* matrices() const { return matrices_.data(); }
  int64_t count() const { return count_; }
  int64_t bytes() const { return bytes_; }
  const char* adapter(int64_t i) const { return storage_.as<char>() + i * bytes_; }
  int32_t rank() const { return rank_; }
  const Shape& shape() const { return shape_; }

 private:
  void Place(int64_t adapter, const Bfloat16* values) {
    for (int32_t s = 0; s < shape_.num_slices; ++s) {
      const int64_t index = adapter * shape_.num_slices + s;
      const void** a = &pointers_[index * 2 * rank_];
      for (int32_t j = 0; j < rank_; ++j, values += shape_.k) a[j] = values;
      for (int32_t j = 0; j < rank_; ++j, values += shape_.n) a[rank_ + j] = values;
      matrices_[index] = {.a_rows = a, .b_rows = a + rank_, .rank = rank_, .scale = 0.01f};
    }
  }

  Shape shape_;
  int32_t rank_;
  int64_t bytes_;
  int64_t count_ = 0;
  Buffer storage_;
  std::vector<const void*> pointers_;
  std::vector<LoraMatrix> matrices_;
};

// One batch over a ring: rows grouped by adapter, the adapters of run i behind those of run i - 1.
class Batch {
 public:
  Batch(const AdapterRing& ring, const std::vector<int32_t>& rows_per_adapter)
      : ring_(ring), num_adapters_(static_cast<int64_t>(rows_per_adapter.size())) {
    const Shape& shape = ring.shape();
    int32_t row = 0;
    for (const int32_t rows : rows_per_adapter) {
      segments_.push_back({row, row + rows, 0});
      row += rows;
    }
    x_ = Buffer(row * shape.k * 2);
    h_ = Buffer(int64_t{shape.num_slices} * row * ring.rank() * 4);
    y_ = Buffer(row * shape.num_slices * shape.n * 4);
    args_ = {.dtype = DType::kBF16,
             .segments = segments_.data(),
             .num_segments = static_cast<int32_t>(segments_.size()),
             .matrices = ring.matrices(),
             .matrices_stride = shape.num_slices,
             .num_slices = shape.num_slices,
             .x = x_.data(),
             .x_stride = shape.k,
             .k = shape.k,
             .h = h_.as<float>(),
             .h_stride = ring.rank(),
             .num_rows = row,
             .y = y_.as<float>(),
             .y_stride = shape.num_slices * shape.n};
    for (int32_t s = 0; s < shape.num_slices; ++s) {
      args_.slice_begin[s] = s * shape.n;
      args_.slice_n[s] = shape.n;
    }
  }

  void PointAt(int64_t run) {
    for (int64_t i = 0; i < num_adapters_; ++i) {
      segments_[i].adapter_slot = static_cast<int32_t>((run * num_adapters_ + i) % ring_.count());
    }
  }

  void Segmented(int64_t run, Stream& stream) {
    PointAt(run);
    LoraShrink(args_, stream);
    LoraExpand(args_, stream);
  }

  // What a server without a segmented kernel does: one launch per row.
  void Loop(int64_t run, Stream& stream) {
    PointAt(run);
    for (const LoraSegment& segment : segments_) {
      for (int32_t row = segment.row_begin; row < segment.row_end; ++row) {
        const LoraSegment one{row, row + 1, segment.adapter_slot};
        LoraArgs args = args_;
        args.segments = &one;
        args.num_segments = 1;
        LoraShrink(args, stream);
        LoraExpand(args, stream);
      }
    }
  }

  // Copies an adapter for every row into one batch, then multiplies row by row (a batched matrix
  // product has no rows to share).
  void GatherBmm(int64_t run, Stream& stream) {
    PointAt(run);
    if (gathered_.bytes() == 0) PrepareGather();
    std::vector<int32_t> slots;
    for (const LoraSegment& segment : segments_) {
      slots.insert(slots.end(), segment.row_end - segment.row_begin, segment.adapter_slot);
    }
    stream.cpu_threads->ParallelFor(args_.num_rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        std::memcpy(gathered_.as<char>() + row * ring_.bytes(), ring_.adapter(slots[row]),
                    static_cast<size_t>(ring_.bytes()));
      }
    });
    LoraArgs args = args_;
    args.segments = row_segments_.data();
    args.num_segments = args_.num_rows;
    args.matrices = row_matrices_.data();
    LoraShrink(args, stream);
    LoraExpand(args, stream);
  }

  OpBenchWork Work() const {
    const double rows = args_.num_rows;
    const Shape& shape = ring_.shape();
    return {.bytes = static_cast<double>(num_adapters_ * ring_.bytes()) +
                     rows * static_cast<double>(shape.k * 2 + shape.num_slices * shape.n * 8),
            .flops = rows * static_cast<double>(ring_.bytes()),  // 2 per element of 2 bytes
            .dtype = DType::kBF16};
  }

 private:
  void PrepareGather() {
    gathered_ = Buffer(args_.num_rows * ring_.bytes());
    const int32_t rank = ring_.rank();
    for (int32_t row = 0; row < args_.num_rows; ++row) {
      row_segments_.push_back({row, row + 1, row});
      const char* values = gathered_.as<char>() + row * ring_.bytes();
      for (int32_t s = 0; s < args_.num_slices; ++s) {
        const void** pointers = row_pointers_.emplace_back(2 * rank).data();
        for (int32_t j = 0; j < rank; ++j, values += args_.k * 2) pointers[j] = values;
        for (int32_t j = 0; j < rank; ++j, values += args_.slice_n[s] * 2) {
          pointers[rank + j] = values;
        }
        row_matrices_.push_back(
            {.a_rows = pointers, .b_rows = pointers + rank, .rank = rank, .scale = 0.01f});
      }
    }
  }

  const AdapterRing& ring_;
  const int64_t num_adapters_;
  std::vector<LoraSegment> segments_;
  Buffer x_, h_, y_;
  LoraArgs args_;
  // GatherBmm's own adapters, one per row.
  Buffer gathered_;
  std::vector<LoraSegment> row_segments_;
  std::vector<LoraMatrix> row_matrices_;
  std::vector<std::vector<const void*>> row_pointers_;
};

void BenchLaw(OpBench& bench, const AdapterRing& ring, Law law, int32_t rows, bool baselines) {
  Batch batch(ring, RowsPerAdapter(law, rows));
  const std::string name = "h 4096 r " + std::to_string(ring.rank()) + " rows " +
                           std::to_string(rows) + " " + LawName(law);
  Stream& stream = bench.stream();
  bench.Add(name, batch.Work(), [&](int64_t run) { batch.Segmented(run, stream); });
  if (!baselines) return;
  bench.Add(name + ", loop", batch.Work(), [&](int64_t run) { batch.Loop(run, stream); });
  bench.Add(name + ", gather-bmm", batch.Work(),
            [&](int64_t run) { batch.GatherBmm(run, stream); });
}

}  // namespace

void BenchLora(OpBench& bench) {
  constexpr Law kLaws[] = {Law::kDistinct, Law::kUniform, Law::kSkewed, Law::kIdentical};
  for (const int32_t rank : {16, 8, 32, 64}) {
    const AdapterRing ring({1, 4096, 4096}, rank, bench.rotate_bytes());
    for (const int32_t rows : {1, 2, 4, 8, 16, 32, 64}) {
      if (rank != 16 && rows != 8 && rows != 64) continue;
      for (const Law law : kLaws) {
        if (rows > 1 || law == Law::kDistinct) BenchLaw(bench, ring, law, rows, rank == 16);
      }
    }
    if (rank == 16) BenchLaw(bench, ring, Law::kIdentical, 512, true);  // a prefill segment
  }
  // TinyLlama's launches at decode, 8 distinct adapters: q/k/v would be 2048, 256, 256.
  struct Launch {
    const char* name;
    Shape shape;
  };
  for (const Launch& launch : {Launch{"o", {1, 2048, 2048}}, Launch{"gate_up", {2, 2048, 5632}},
                               Launch{"down", {1, 5632, 2048}}}) {
    const AdapterRing ring(launch.shape, 16, bench.rotate_bytes());
    Batch batch(ring, RowsPerAdapter(Law::kDistinct, 8));
    bench.Add(std::string("TinyLlama ") + launch.name + " r 16 rows 8 distinct", batch.Work(),
              [&](int64_t run) { batch.Segmented(run, bench.stream()); });
  }
}

}  // namespace graft
