// y += x A B as Punica's Figures 7 to 9 measure it (h 4096, bf16): four popularity laws, batches
// and ranks, against a loop over rows and against gathering every row's adapter into one batch, as
// index_select and bmm do. Then launches of a model's decode: TinyLlama-1.1B's on the CPU,
// Llama-2-7B's on a GPU. Adapters rotate, and on a GPU x and y, too.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"
#include "kernels/embedding/embedding.h"
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

struct LoraShape {
  int32_t num_slices;
  int64_t k;
  int64_t n;  // of each slice

  int64_t RankBytes() const { return num_slices * (k + n) * 2; }
  int64_t y_stride() const { return num_slices * n; }
};

// Where the matrices of adapters are that lie one behind the other from `values` on, their ranks in
// turn.
class AdapterTables {
 public:
  AdapterTables(const LoraShape& shape, std::span<const int32_t> ranks, const Bfloat16* values,
                int64_t count, const Stream& stream) {
    std::vector<const void*> pointers;
    for (int64_t i = 0; i < count * shape.num_slices; ++i) {
      const int32_t rank = ranks[i / shape.num_slices % ranks.size()];
      for (int32_t j = 0; j < rank; ++j, values += shape.k) pointers.push_back(values);
      for (int32_t j = 0; j < rank; ++j, values += shape.n) pointers.push_back(values);
    }
    pointers_ = OnDevice(pointers, stream);
    const auto* rows = pointers_.as<const void*>();
    std::vector<LoraMatrix> matrices;
    for (int64_t i = 0; i < count * shape.num_slices; ++i) {
      const int32_t rank = ranks[i / shape.num_slices % ranks.size()];
      matrices.push_back({.a_rows = rows, .b_rows = rows + rank, .rank = rank, .scale = 0.01f});
      rows += 2 * rank;
    }
    matrices_ = OnDevice(matrices, stream);
  }

  const LoraMatrix* matrices() const { return matrices_.as<LoraMatrix>(); }

 private:
  Buffer pointers_;
  Buffer matrices_;
};

// What all batches of a shape and of ranks share: adapters that together are larger than the
// caches, taken in turns, and rows of x and y.
class Operands {
 public:
  // Adapters have these ranks in turn.
  Operands(const LoraShape& shape, const std::vector<int32_t>& ranks, int32_t rows_max,
           OpBench& bench)
      : shape_(shape),
        rank_max_(*std::ranges::max_element(ranks)),
        adapter_bytes_(shape.RankBytes() * std::accumulate(ranks.begin(), ranks.end(), int64_t{0}) /
                       std::ssize(ranks)),
        rotate_bytes_(bench.rotate_bytes()),
        count_(std::max<int64_t>((rotate_bytes_ + adapter_bytes_ - 1) / adapter_bytes_,
                                 bench.is_cpu() ? 64 : 192)),
        num_rows_(bench.is_cpu() ? rows_max : rotate_bytes_ / row_bytes() + 2 * rows_max),
        // Whole turns: the adapters of the last one may be larger than the mean.
        adapters_(BenchBuffer(DType::kBF16, (count_ + std::ssize(ranks)) * adapter_bytes_ / 2,
                              bench.stream())),
        x_(BenchBuffer(DType::kBF16, num_rows_ * shape.k, bench.stream())),
        y_(BenchBuffer(DType::kF32, num_rows_ * shape.y_stride(), bench.stream())),
        tables_(shape, ranks, adapters_.as<Bfloat16>(), count_, bench.stream()) {}

  const LoraShape& shape() const { return shape_; }
  int32_t rank_max() const { return rank_max_; }
  int64_t adapter_bytes() const { return adapter_bytes_; }  // the mean
  // x and y of one row; y is read and written.
  int64_t row_bytes() const { return shape_.k * 2 + shape_.y_stride() * 4; }
  int64_t rotate_bytes() const { return rotate_bytes_; }
  int64_t count() const { return count_; }
  const Buffer& adapters() const { return adapters_; }
  const LoraMatrix* matrices() const { return tables_.matrices(); }

  // `args` with rows of x and y. On the CPU these are the same in every run, because a step has its
  // rows in the caches there.
  LoraArgs WithRows(LoraArgs args, int64_t run) {
    const bool is_cpu = adapters_.device().is_cpu();
    const int64_t row = is_cpu ? 0 : run * args.num_rows % (num_rows_ - args.num_rows + 1);
    args.x = x_.as<Bfloat16>() + row * shape_.k;
    args.y = y_.as<float>() + row * shape_.y_stride();
    return args;
  }

 private:
  const LoraShape shape_;
  const int32_t rank_max_;
  const int64_t adapter_bytes_;
  const int64_t rotate_bytes_;
  const int64_t count_;
  const int64_t num_rows_;
  Buffer adapters_;
  Buffer x_, y_;
  AdapterTables tables_;
};

// One batch: rows grouped by adapter, the adapters of run i behind those of run i - 1. What each
// run reads from tables lies there beforehand, num_runs times: a GPU's launches are recorded.
class Batch {
 public:
  Batch(Operands& operands, const std::vector<int32_t>& rows_per_adapter, const Stream& stream)
      : operands_(operands), num_adapters_(static_cast<int64_t>(rows_per_adapter.size())) {
    int32_t num_rows = 0;
    for (const int32_t rows : rows_per_adapter) num_rows += rows;
    num_runs_ = operands.count() / num_adapters_;
    if (!stream.device.is_cpu()) {
      const int64_t run_bytes =
          num_adapters_ * operands.adapter_bytes() + num_rows * operands.row_bytes();
      num_runs_ = std::min(num_runs_, operands.rotate_bytes() / run_bytes + 2);
    }
    PlaceTables(rows_per_adapter, stream);
    const LoraShape& shape = operands.shape();
    h_ = Buffer(
        LoraScratchFloats(stream.device, shape.num_slices * num_rows, operands.rank_max()) * 4,
        stream.device);
    args_ = {.dtype = DType::kBF16,
             .num_segments = static_cast<int32_t>(num_segments_),
             .matrices = operands.matrices(),
             .matrices_stride = shape.num_slices,
             .num_slices = shape.num_slices,
             .x_stride = shape.k,
             .k = shape.k,
             .h = h_.as<float>(),
             .h_stride = operands.rank_max(),
             .num_rows = num_rows,
             .y_stride = shape.y_stride()};
    for (int32_t s = 0; s < shape.num_slices; ++s) {
      args_.slice_begin[s] = s * shape.n;
      args_.slice_n[s] = shape.n;
    }
  }

  void Segmented(int64_t run, Stream& stream) {
    LoraArgs args = operands_.WithRows(args_, run % num_runs_);
    args.segments = segments_.as<LoraSegment>() + run % num_runs_ * num_segments_;
    Lora(args, stream);
  }

  // The way of a server without a segmented kernel: one launch per row.
  void Loop(int64_t run, Stream& stream) {
    LoraArgs args = operands_.WithRows(args_, run % num_runs_);
    args.segments = single_rows_.as<LoraSegment>() + run % num_runs_ * args_.num_rows;
    args.num_segments = 1;
    args.num_rows = 1;
    for (int32_t row = 0; row < args_.num_rows; ++row) {
      Lora(args, stream);
      ++args.segments;
      args.x = static_cast<const Bfloat16*>(args.x) + args.x_stride;
      args.y += args.y_stride;
    }
  }

  // For adapters of one rank: copies an adapter for every row into one batch, then multiplies row
  // by row (a batched matrix product has no rows to share).
  void GatherBmm(int64_t run, Stream& stream) {
    const int64_t adapter_floats = operands_.adapter_bytes() / 4;
    Embedding({.table = operands_.adapters().data(),
               .dtype = DType::kF32,  // bits of fp32 are copied as they are
               .vocab_size = static_cast<int32_t>(operands_.count()),
               .tokens = slots_.as<int32_t>() + run % num_runs_ * args_.num_rows,
               .out = gathered_.as<float>(),
               .num_tokens = args_.num_rows,
               .n = adapter_floats},
              stream);
    // On a GPU Lora may read adapters while the kernel before it still runs, but not while anything
    // else does.
    ZeroOnDevice(h_.data(), sizeof(float), stream);
    LoraArgs args = operands_.WithRows(args_, run % num_runs_);
    args.segments = gathered_segments_.as<LoraSegment>();
    args.num_segments = args_.num_rows;
    args.matrices = gathered_tables_->matrices();
    Lora(args, stream);
  }

  void PrepareGather(const Stream& stream) {
    std::vector<LoraSegment> segments;
    for (int32_t row = 0; row < args_.num_rows; ++row) segments.push_back({row, row + 1, row});
    gathered_segments_ = OnDevice(segments, stream);
    gathered_ = Buffer(args_.num_rows * operands_.adapter_bytes(), stream.device);
    const int32_t rank = operands_.rank_max();
    gathered_tables_.emplace(operands_.shape(), std::span(&rank, 1), gathered_.as<Bfloat16>(),
                             args_.num_rows, stream);
  }

  OpBenchWork Work(const char* law, const char* method) const {
    const double rows = args_.num_rows;
    const LoraShape& shape = operands_.shape();
    return {
        .bytes = static_cast<double>(num_adapters_ * operands_.adapter_bytes()) +
                 rows * static_cast<double>(shape.k * 2 + shape.y_stride() * 8),
        .flops = rows * static_cast<double>(operands_.adapter_bytes()),  // 2 per element
        .dtype = DType::kBF16,
        .num_copies = num_runs_,
        .labels = {
            .rows = args_.num_rows, .rank = operands_.rank_max(), .law = law, .method = method}};
  }

 private:
  // On a GPU an adapter's rows come in segments of up to kGpuSegmentRows, as a server deals them.
  void PlaceTables(const std::vector<int32_t>& rows_per_adapter, const Stream& stream) {
    constexpr int32_t kGpuSegmentRows = 64;
    std::vector<LoraSegment> segments, single_rows;
    std::vector<int32_t> slots;
    int64_t next = 0;
    for (int64_t run = 0; run < num_runs_; ++run) {
      int32_t row = 0;
      for (const int32_t rows : rows_per_adapter) {
        const auto slot = static_cast<int32_t>(next++ % operands_.count());
        single_rows.insert(single_rows.end(), rows, {0, 1, slot});
        slots.insert(slots.end(), rows, slot);
        const int32_t rows_max = stream.device.is_cpu() ? rows : kGpuSegmentRows;
        for (const int32_t end = row + rows; row < end;) {
          segments.push_back({row, std::min(row + rows_max, end), slot});
          row = segments.back().row_end;
        }
      }
    }
    num_segments_ = static_cast<int64_t>(segments.size()) / num_runs_;
    segments_ = OnDevice(segments, stream);
    single_rows_ = OnDevice(single_rows, stream);
    slots_ = OnDevice(slots, stream);
  }

  Operands& operands_;
  const int64_t num_adapters_;
  int64_t num_runs_ = 0;  // until everything comes again
  int64_t num_segments_ = 0;
  Buffer segments_;     // [num_runs, num_segments]
  Buffer single_rows_;  // [num_runs, rows]: each row as a batch of its own
  Buffer slots_;        // [num_runs, rows]: each row's adapter
  Buffer h_;
  LoraArgs args_;
  // GatherBmm's own adapters, one per row.
  Buffer gathered_;
  Buffer gathered_segments_;
  std::optional<AdapterTables> gathered_tables_;
};

void BenchLaw(OpBench& bench, Operands& operands, Law law, int32_t rows, bool baselines) {
  Stream& stream = bench.stream();
  Batch batch(operands, RowsPerAdapter(law, rows), stream);
  const char* law_name = LawName(law);
  const std::string name = "h 4096 r " + std::to_string(operands.rank_max()) + " rows " +
                           std::to_string(rows) + " " + law_name;
  bench.Add(name, batch.Work(law_name, "segmented"),
            [&](int64_t run) { batch.Segmented(run, stream); });
  if (!baselines) return;
  bench.Add(name + ", loop", batch.Work(law_name, "loop"),
            [&](int64_t run) { batch.Loop(run, stream); });
  batch.PrepareGather(stream);
  bench.Add(name + ", gather-bmm", batch.Work(law_name, "gather-bmm"),
            [&](int64_t run) { batch.GatherBmm(run, stream); });
}

// Figures 7 to 9.
void BenchPunica(OpBench& bench) {
  constexpr Law kLaws[] = {Law::kDistinct, Law::kUniform, Law::kSkewed, Law::kIdentical};
  const std::vector<int32_t> prefills =
      bench.is_cpu() ? std::vector<int32_t>{512} : std::vector<int32_t>{128, 512, 2048};
  for (const int32_t rank : {16, 8, 32, 64}) {
    Operands operands({1, 4096, 4096}, {rank}, prefills.back(), bench);
    for (const int32_t rows : {1, 2, 4, 8, 16, 32, 64}) {
      if (bench.is_cpu() && rank != 16 && rows != 8 && rows != 64) continue;
      for (const Law law : kLaws) {
        if (rows > 1 || law == Law::kDistinct) BenchLaw(bench, operands, law, rows, rank == 16);
      }
    }
    if (bench.is_cpu() && rank != 16) continue;
    if (!bench.is_cpu()) BenchLaw(bench, operands, Law::kDistinct, 128, false);
    for (const int32_t rows : prefills) {  // of one adapter
      BenchLaw(bench, operands, Law::kIdentical, rows, bench.is_cpu());
    }
  }
}

// Every row reads its own adapter's rank, not the largest one.
void BenchMixedRanks(OpBench& bench) {
  constexpr int32_t kRows = 64;
  Operands operands({1, 4096, 4096}, {8, 16, 32, 64, 128}, kRows, bench);
  Batch batch(operands, RowsPerAdapter(Law::kDistinct, kRows), bench.stream());
  bench.Add("h 4096 r 8,16,32,64,128 rows 64 distinct", batch.Work("mixed ranks", ""),
            [&](int64_t run) { batch.Segmented(run, bench.stream()); });
}

struct Launch {
  const char* name;
  LoraShape shape;
};

void BenchLaunches(OpBench& bench, const char* model, std::span<const Launch> launches,
                   int32_t rows) {
  for (const Launch& launch : launches) {
    Operands operands(launch.shape, {16}, rows, bench);
    Batch batch(operands, RowsPerAdapter(Law::kDistinct, rows), bench.stream());
    bench.Add(
        std::string(model) + " " + launch.name + " r 16 rows " + std::to_string(rows) + " distinct",
        batch.Work(LawName(Law::kDistinct), ""),
        [&](int64_t run) { batch.Segmented(run, bench.stream()); });
  }
}

}  // namespace

void BenchLora(OpBench& bench) {
  BenchPunica(bench);
  BenchMixedRanks(bench);
  if (bench.is_cpu()) {
    // q/k/v would be 2048, 256, 256.
    constexpr Launch kTinyLlama[] = {
        {"o", {1, 2048, 2048}}, {"gate_up", {2, 2048, 5632}}, {"down", {1, 5632, 2048}}};
    BenchLaunches(bench, "TinyLlama", kTinyLlama, 8);
  } else {
    constexpr Launch kLlama7B[] = {{"qkv", {3, 4096, 4096}},
                                   {"o", {1, 4096, 4096}},
                                   {"gate_up", {2, 4096, 11008}},
                                   {"down", {1, 11008, 4096}}};
    for (const int32_t rows : {1, 8, 32}) BenchLaunches(bench, "Llama-2-7B", kLlama7B, rows);
  }
}

}  // namespace graft
