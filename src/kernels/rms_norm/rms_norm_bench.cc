// The hidden state of TinyLlama-1.1B and Llama-2-7B in decode and prefill, and Qwen3's q and k.
#include <string>

#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"
#include "kernels/rms_norm/rms_norm.h"

namespace graft {
namespace {

void RunRmsNormCase(int64_t num_tokens, int32_t num_heads, int64_t n, DType out_dtype,
                    OpBench& bench) {
  const int64_t elements = num_tokens * num_heads * n;
  const int64_t bytes = elements * (4 + DTypeBytes(out_dtype));
  const int64_t num_copies = bench.num_copies(bytes);
  const Buffer x = BenchBuffer(DType::kF32, num_copies * elements, bench.stream());
  const Buffer weight = BenchBuffer(DType::kF32, n, bench.stream());
  Buffer out = BenchBuffer(out_dtype, num_copies * elements, bench.stream());
  bench.Add(std::to_string(num_tokens) + " tokens, " + std::to_string(num_heads) + " x " +
                std::to_string(n) + ", to " + std::string(DTypeName(out_dtype)),
            {.bytes = static_cast<double>(bytes), .num_copies = num_copies}, [&](int64_t run) {
              const int64_t copy = run % num_copies * elements;
              RmsNorm({.x = x.as<float>() + copy,
                       .x_stride = num_heads * n,
                       .weight = weight.as<float>(),
                       .out = out.as<char>() + copy * DTypeBytes(out_dtype),
                       .out_stride = num_heads * n,
                       .out_dtype = out_dtype,
                       .num_tokens = num_tokens,
                       .num_heads = num_heads,
                       .n = n},
                      bench.stream());
            });
}

}  // namespace

void BenchRmsNorm(OpBench& bench) {
  if (!bench.is_cpu()) {
    for (const int64_t rows : {1, 32, 128, 2048})
      RunRmsNormCase(rows, 1, 4096, DType::kBF16, bench);
    RunRmsNormCase(32, 40, 128, DType::kF32, bench);
    return;
  }
  RunRmsNormCase(8, 1, 2048, DType::kBF16, bench);
  RunRmsNormCase(512, 1, 2048, DType::kBF16, bench);
  RunRmsNormCase(512, 1, 4096, DType::kF32, bench);
  RunRmsNormCase(512, 40, 128, DType::kF32, bench);
}

}  // namespace graft
