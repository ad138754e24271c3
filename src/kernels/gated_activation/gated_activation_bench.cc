// The MLPs of TinyLlama-1.1B and Llama-2-7B, decode and prefill.
#include <string>

#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"
#include "kernels/gated_activation/gated_activation.h"

namespace graft {
namespace {

void RunSiluMulCase(int64_t num_tokens, int64_t n, DType out_dtype, OpBench& bench) {
  const int64_t elements = num_tokens * n;
  const int64_t bytes = elements * (8 + DTypeBytes(out_dtype));
  const int64_t num_copies = bench.num_copies(bytes);
  const Buffer gate_up = BenchBuffer(DType::kF32, num_copies * elements * 2, bench.stream());
  Buffer out = BenchBuffer(out_dtype, num_copies * elements, bench.stream());
  bench.Add(std::to_string(num_tokens) + " tokens, " + std::to_string(n) + ", to " +
                std::string(DTypeName(out_dtype)),
            {.bytes = static_cast<double>(bytes), .num_copies = num_copies}, [&](int64_t run) {
              const int64_t copy = run % num_copies * elements;
              GatedActivation({.gate_up = gate_up.as<float>() + copy * 2,
                               .out = out.as<char>() + copy * DTypeBytes(out_dtype),
                               .out_dtype = out_dtype,
                               .num_tokens = num_tokens,
                               .n = n},
                              bench.stream());
            });
}

}  // namespace

void BenchGatedActivation(OpBench& bench) {
  if (!bench.is_cpu()) {
    for (const int64_t rows : {1, 32, 128, 2048}) RunSiluMulCase(rows, 11008, DType::kBF16, bench);
    return;
  }
  RunSiluMulCase(8, 5632, DType::kBF16, bench);
  RunSiluMulCase(512, 5632, DType::kBF16, bench);
  RunSiluMulCase(512, 11008, DType::kF32, bench);
}

}  // namespace graft
