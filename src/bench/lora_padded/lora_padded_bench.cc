// y += x A B (h 4096, bf16) of rows with adapters of different ranks: by Lora, which reads each
// row's own rank, and over copies padded to the largest. Adapters rotate past the caches.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "bench/lora_padded/lora_padded.h"
#include "kernels/common/bench_data.h"

namespace graft {
namespace {

constexpr int64_t kPaddedBenchWidth = 4096;  // of x and of y
constexpr int32_t kPaddedBenchRanks[] = {8, 16, 32, 64, 128};
constexpr int64_t kPaddedBenchMeanRank = (8 + 16 + 32 + 64 + 128) / 5;
constexpr int32_t kPaddedBenchRankMax = 128;

// Adapters in turn, and a batch in which every row has the next one.
class PaddedBatch {
 public:
  PaddedBatch(int32_t num_rows, OpBench& bench) : num_rows_(num_rows) {
    const Stream& stream = bench.stream();
    num_runs_ = bench.num_copies(num_rows * kAdapterBytes);
    PlaceAdapters(num_runs_ * num_rows, stream);
    std::vector<LoraSegment> segments;
    for (int32_t i = 0; i < num_runs_ * num_rows; ++i) {
      segments.push_back({i % num_rows, i % num_rows + 1, i});
    }
    segments_ = OnDevice(segments, stream);
    x_ = BenchBuffer(DType::kBF16, num_rows * kPaddedBenchWidth, stream);
    y_ = BenchBuffer(DType::kF32, num_rows * kPaddedBenchWidth, stream);
    h_ = Buffer(
        LoraScratchFloats(stream.device, num_rows, kPaddedBenchRankMax) * int64_t{sizeof(float)},
        stream.device);
    scratch_ = Buffer(LoraPaddedBytes(num_rows, 1, kPaddedBenchWidth, kPaddedBenchWidth,
                                      kPaddedBenchRankMax, DType::kBF16),
                      stream.device);
  }

  void Segmented(int64_t run, Stream& stream) { Lora(ArgsOf(run), stream); }
  void Padded(int64_t run, Stream& stream) {
    LoraPadded({.lora = ArgsOf(run), .rank = kPaddedBenchRankMax, .scratch = scratch_.data()},
               stream);
  }

  // What either has to read and write: the adapters and the rows.
  OpBenchWork Work(const char* method) const {
    const double rows = num_rows_;
    return {.bytes = rows * static_cast<double>(kAdapterBytes + kPaddedBenchWidth * (2 + 8)),
            .flops = rows * static_cast<double>(kAdapterBytes),  // two an element
            .dtype = DType::kBF16,
            .num_copies = num_runs_,
            .labels = {.rows = num_rows_,
                       .rank = kPaddedBenchRankMax,
                       .law = "mixed ranks",
                       .method = method}};
  }

 private:
  static constexpr int64_t kAdapterBytes = kPaddedBenchMeanRank * 2 * kPaddedBenchWidth * 2;

  // Rows of A and of B one behind the other, the adapters' ranks in turn.
  void PlaceAdapters(int64_t count, const Stream& stream) {
    std::vector<int32_t> ranks;
    for (int64_t i = 0; i < count; ++i) {
      ranks.push_back(kPaddedBenchRanks[i % std::ssize(kPaddedBenchRanks)]);
    }
    const int64_t num_lines = 2 * std::accumulate(ranks.begin(), ranks.end(), int64_t{0});
    values_ = BenchBuffer(DType::kBF16, num_lines * kPaddedBenchWidth, stream);
    std::vector<const void*> lines;
    for (int64_t i = 0; i < num_lines; ++i) {
      lines.push_back(values_.as<Bfloat16>() + i * kPaddedBenchWidth);
    }
    lines_ = OnDevice(lines, stream);
    const auto* next = lines_.as<const void*>();
    std::vector<LoraMatrix> matrices;
    for (const int32_t rank : ranks) {
      matrices.push_back({.a_rows = next, .b_rows = next + rank, .rank = rank, .scale = 0.01f});
      next += 2 * rank;
    }
    matrices_ = OnDevice(matrices, stream);
  }

  LoraArgs ArgsOf(int64_t run) {
    LoraArgs args{.dtype = DType::kBF16,
                  .segments = segments_.as<LoraSegment>() + run % num_runs_ * num_rows_,
                  .num_segments = num_rows_,
                  .matrices = matrices_.as<LoraMatrix>(),
                  .matrices_stride = 1,
                  .num_slices = 1,
                  .x = x_.data(),
                  .x_stride = kPaddedBenchWidth,
                  .k = kPaddedBenchWidth,
                  .h = h_.as<float>(),
                  .h_stride = kPaddedBenchRankMax,
                  .num_rows = num_rows_,
                  .y = y_.as<float>(),
                  .y_stride = kPaddedBenchWidth};
    args.slice_n[0] = kPaddedBenchWidth;
    return args;
  }

  const int32_t num_rows_;
  int64_t num_runs_ = 0;  // until the same adapters come again
  Buffer values_, lines_, matrices_;
  Buffer segments_;  // [num_runs, num_rows]
  Buffer x_, y_, h_, scratch_;
};

}  // namespace

void BenchLoraPadded(OpBench& bench) {
  for (const int32_t rows : {8, 32}) {
    PaddedBatch batch(rows, bench);
    const std::string name = "h 4096 r 8,16,32,64,128 rows " + std::to_string(rows) + " distinct";
    bench.Add(name + ", segmented", batch.Work("segmented"),
              [&](int64_t run) { batch.Segmented(run, bench.stream()); });
    bench.Add(name + ", padded", batch.Work("padded"),
              [&](int64_t run) { batch.Padded(run, bench.stream()); });
  }
}

}  // namespace graft
