// The projections of a model at decode and prefill: TinyLlama-1.1B's on the CPU with fp32
// activations, as its transformer has them, Llama-2-7B's on a GPU with bf16 ones. Weights rotate.
#include <span>
#include <string>
#include <vector>

#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/repeated_codes.h"

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

struct GemmFormat {
  std::string name;
  WeightFormat format;
};

GemmWeight DrawnWeight(const GemmShape& shape, const WeightFormat& format, int64_t seed,
                       Stream& stream) {
  if (!format.is_plain()) {
    return GemmWeight::PackCodes(RepeatedCodes(shape.n, shape.k, format), format, stream);
  }
  const DrawnRows part{.n = shape.n, .seed = static_cast<uint64_t>(seed)};
  return GemmWeight::Random({&part, 1}, shape.k, 0.02f, format.operands, stream);
}

void BenchGemmShape(OpBench& bench, const GemmShape& shape, const GemmFormat& kind,
                    std::span<const int64_t> row_counts) {
  const int64_t n = shape.n, k = shape.k;
  const DType dtype = kind.format.operands;
  const Device& device = bench.stream().device;
  const int64_t weight_bytes = GemmWeight::BytesFor(n, k, kind.format, device);
  const int64_t num_copies = bench.num_copies(weight_bytes);
  std::vector<GemmWeight> weights;
  for (int64_t i = 0; i < num_copies; ++i) {
    weights.push_back(DrawnWeight(shape, kind.format, i, bench.stream()));
  }
  const Buffer room(GemmRoomBytes(row_counts.back(), n, k, kind.format, device), device);
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
    bench.Add(kind.name + " " + shape.name + " k " + std::to_string(k) + " n " + std::to_string(n) +
                  " m " + std::to_string(m),
              work, [&](int64_t run) {
                Gemm({.x = x.data(),
                      .x_stride = k,
                      .m = m,
                      .weight = &weights[run % num_copies],
                      .y = y.as<float>(),
                      .y_stride = n,
                      .x_is_fp32 = bench.is_cpu(),
                      .room = {const_cast<void*>(room.data()), room.bytes()}},
                     bench.stream());
              });
  }
}

}  // namespace

void BenchGemm(OpBench& bench) {
  if (!bench.is_cpu()) {
    constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048};
    const DType bf16 = DType::kBF16;
    const GemmFormat formats[] = {{"bf16", bf16},
                                  {"int4", WeightFormat::Integers(bf16, 4, 128, false, bf16)},
                                  {"int4 zero points", WeightFormat::Integers(bf16, 4, 128, true)},
                                  {"int8", WeightFormat::Integers(bf16, 8, 128, false, bf16)},
                                  {"nf4", WeightFormat::Normal4(bf16)}};
    for (const GemmFormat& format : formats) {
      for (const GemmShape& shape : kLlama7B) {
        if (!format.format.is_plain() && shape.n >= kVocabulary) continue;  // heads are plain
        BenchGemmShape(bench, shape, format, kRows);
      }
    }
    return;
  }
  constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 512};
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const GemmFormat format = {std::string(DTypeName(dtype)), dtype};
    for (const GemmShape& shape : kTinyLlama) BenchGemmShape(bench, shape, format, kRows);
  }
}

}  // namespace graft
