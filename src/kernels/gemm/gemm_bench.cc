// The projections of a model at decode and prefill: TinyLlama-1.1B's on the CPU with fp32
// activations, as its transformer has them, Llama-2-7B's on a GPU with bf16 ones. Weights rotate.
#include <span>
#include <string>
#include <vector>

#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"
#include "kernels/gemm/gemm.h"

namespace graft {
namespace {

constexpr int64_t kVocabulary = 32000;

struct GemmShape {
  const char* name;
  int64_t k;
  int64_t n;
};

constexpr GemmShape kTinyLlama[] = {
    {"qkv", 2048, 2560},
    {"o", 2048, 2048},
    {"gate_up", 2048, 11264},
    {"down", 5632, 2048},
    {"lm_head", 2048, kVocabulary},
};
constexpr GemmShape kLlama7B[] = {
    {"qkv", 4096, 12288},           {"o", 4096, 4096},
    {"gate_up", 4096, 22016},       {"down", 11008, 4096},
    {"lm_head", 4096, kVocabulary},
};

void BenchGemmShape(OpBench& bench, const GemmShape& shape, DType dtype,
                    std::span<const int64_t> row_counts) {
  const int64_t n = shape.n, k = shape.k;
  const int64_t weight_bytes = n * k * DTypeBytes(dtype);
  const int64_t num_copies = bench.num_copies(weight_bytes);
  std::vector<GemmWeight> weights;
  for (int64_t i = 0; i < num_copies; ++i) {
    const DrawnRows part{.n = n, .seed = static_cast<uint64_t>(i)};
    weights.push_back(GemmWeight::Random({&part, 1}, k, 0.02f, dtype, bench.stream()));
  }
  const DType x_dtype = bench.is_cpu() ? DType::kF32 : dtype;
  for (const int64_t m : row_counts) {
    if (m > 64 && n >= kVocabulary) continue;  // prefill asks for the last row's logits alone
    const Buffer x = BenchBuffer(x_dtype, m * k, bench.stream());
    Buffer y(m * n * 4, bench.stream().device);
    const OpBenchWork work{
        .bytes = static_cast<double>(weight_bytes + x.bytes() + y.bytes()),
        .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
        .dtype = dtype,
        .num_copies = num_copies,
        .labels = {.rows = m}};
    bench.Add(std::string(DTypeName(dtype)) + " " + shape.name + " k " + std::to_string(k) + " n " +
                  std::to_string(n) + " m " + std::to_string(m),
              work, [&](int64_t run) {
                Gemm({.x = x.data(),
                      .x_stride = k,
                      .m = m,
                      .weight = &weights[run % num_copies],
                      .y = y.as<float>(),
                      .y_stride = n,
                      .x_is_fp32 = bench.is_cpu()},
                     bench.stream());
              });
  }
}

}  // namespace

void BenchGemm(OpBench& bench) {
  if (!bench.is_cpu()) {
    constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048};
    for (const GemmShape& shape : kLlama7B) BenchGemmShape(bench, shape, DType::kBF16, kRows);
    return;
  }
  constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 512};
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const GemmShape& shape : kTinyLlama) BenchGemmShape(bench, shape, dtype, kRows);
  }
}

}  // namespace graft
