// Merges an adapter into a model's projections: TinyLlama-1.1B's on the CPU, Llama-2-7B's on a GPU.
// Each run takes the next of several copies of the weights, so that no cache holds them.
#include <algorithm>
#include <string>
#include <vector>

#include "bench/lora_merge/lora_merge.h"
#include "kernels/common/bench_data.h"

namespace graft {
namespace {

struct LoraMergeShape {
  const char* name;
  int64_t k;
  std::vector<int64_t> n;  // of each slice
};

void BenchLoraMergeShape(OpBench& bench, const LoraMergeShape& shape, int32_t rank) {
  Stream& stream = bench.stream();
  const auto num_slices = static_cast<int32_t>(shape.n.size());
  int64_t n = 0;
  for (const int64_t slice_n : shape.n) n += slice_n;
  const int64_t adapter_elements = rank * (num_slices * shape.k + n);
  const Buffer values = BenchBuffer(DType::kBF16, adapter_elements, stream);
  std::vector<const void*> pointers;
  const Bfloat16* row = values.as<Bfloat16>();
  for (const int64_t slice_n : shape.n) {
    for (int32_t j = 0; j < rank; ++j, row += shape.k) pointers.push_back(row);
    for (int32_t j = 0; j < rank; ++j, row += slice_n) pointers.push_back(row);
  }
  const Buffer tables = OnDevice(pointers, stream);
  const auto* rows = tables.as<const void*>();
  std::vector<LoraMatrix> matrices;
  for (int32_t s = 0; s < num_slices; ++s, rows += 2 * rank) {
    matrices.push_back({.a_rows = rows, .b_rows = rows + rank, .rank = rank, .scale = 0.01f});
  }
  const Buffer table = OnDevice(matrices, stream);

  const int64_t weight_bytes = n * shape.k * 2;
  const int64_t num_copies = bench.num_copies(2 * weight_bytes);
  std::vector<GemmWeight> base, merged;
  for (int64_t i = 0; i < num_copies; ++i) {
    const DrawnRows part{.n = n, .seed = static_cast<uint64_t>(i)};
    base.push_back(GemmWeight::Random({&part, 1}, shape.k, 0.02f, DType::kBF16, stream));
    merged.push_back(GemmWeight::Like(base.back()));
  }
  const OpBenchWork work{.bytes = static_cast<double>(2 * weight_bytes + 2 * adapter_elements),
                         .flops = 2.0 * rank * static_cast<double>(n * shape.k),
                         .dtype = DType::kBF16,
                         .num_copies = num_copies,
                         .labels = {.rank = rank}};
  bench.Add(std::string(shape.name) + " k " + std::to_string(shape.k) + " n " + std::to_string(n) +
                " r " + std::to_string(rank),
            work, [&](int64_t run) {
              LoraMergeArgs args{.base = &base[run % num_copies],
                                 .merged = &merged[run % num_copies],
                                 .matrices = table.as<LoraMatrix>(),
                                 .num_slices = num_slices};
              std::copy(shape.n.begin(), shape.n.end(), args.slice_n);
              LoraMerge(args, stream);
            });
}

}  // namespace

void BenchLoraMerge(OpBench& bench) {
  const LoraMergeShape tiny_llama[] = {{"qkv", 2048, {2048, 256, 256}},
                                       {"o", 2048, {2048}},
                                       {"gate_up", 2048, {5632, 5632}},
                                       {"down", 5632, {2048}}};
  const LoraMergeShape llama_7b[] = {{"qkv", 4096, {4096, 4096, 4096}},
                                     {"o", 4096, {4096}},
                                     {"gate_up", 4096, {11008, 11008}},
                                     {"down", 11008, {4096}}};
  for (const int32_t rank : {16, 64}) {
    for (const LoraMergeShape& shape : bench.is_cpu() ? tiny_llama : llama_7b) {
      BenchLoraMergeShape(bench, shape, rank);
    }
  }
}

}  // namespace graft
