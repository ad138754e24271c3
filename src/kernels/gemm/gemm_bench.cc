#include <string>
#include <vector>

#include "kernels/common/bench_ops.h"
#include "kernels/gemm/gemm.h"

namespace graft {
namespace {

struct Shape {
  const char* name;
  int64_t k;
  int64_t n;
};

// TinyLlama-1.1B's projections.
constexpr Shape kShapes[] = {
    {"qkv", 2048, 2560},  {"o", 2048, 2048},        {"gate_up", 2048, 11264},
    {"down", 5632, 2048}, {"lm_head", 2048, 32000},
};

void BenchShape(OpBench& bench, const Shape& shape, DType dtype) {
  const int64_t n = shape.n, k = shape.k;
  Buffer source(n * k * 2);
  for (int64_t i = 0; i < n * k; ++i) {
    source.as<Bfloat16>()[i] = FromFloat<Bfloat16>(static_cast<float>(i % 253) / 253.0f - 0.5f);
  }
  const TensorView view{source.data(), DType::kBF16, {n, k}};
  const int64_t weight_bytes = n * k * DTypeBytes(dtype);
  std::vector<GemmWeight> weights;
  for (int64_t i = 0; i < bench.num_copies(weight_bytes); ++i) {
    weights.push_back(GemmWeight::Pack({&view, 1}, dtype, bench.stream()));
  }
  for (const int64_t m : {1, 2, 4, 8, 16, 32, 64, 128, 512}) {
    if (m > 64 && n > 20000) continue;  // prefill asks for the last row's logits alone
    const Buffer x(m * k * 4);          // fp32, as the CPU's transformer has it
    Buffer y(m * n * 4);
    const OpBenchWork work{
        .bytes = static_cast<double>(weight_bytes + x.bytes() + y.bytes()),
        .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
        .dtype = dtype};
    bench.Add(std::string(DTypeName(dtype)) + " " + shape.name + " k " + std::to_string(k) + " n " +
                  std::to_string(n) + " m " + std::to_string(m),
              work, [&](int64_t run) {
                Gemm({.x = x.data(),
                      .x_stride = k,
                      .m = m,
                      .weight = &weights[run % static_cast<int64_t>(weights.size())],
                      .y = y.as<float>(),
                      .y_stride = n,
                      .x_is_fp32 = true},
                     bench.stream());
              });
  }
}

}  // namespace

void BenchGemm(OpBench& bench) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const Shape& shape : kShapes) BenchShape(bench, shape, dtype);
  }
}

}  // namespace graft
