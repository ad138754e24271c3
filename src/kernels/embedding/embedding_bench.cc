// Rows of TinyLlama's and Qwen's embedding tables; every run looks up other tokens.
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"
#include "kernels/embedding/embedding.h"

namespace graft {
namespace {

void RunCase(int64_t num_tokens, int32_t vocab_size, int64_t n, OpBench& bench) {
  const int64_t bytes = num_tokens * n * 6;
  const int64_t num_copies = bench.num_copies(bytes);
  const Buffer table = BenchBuffer(DType::kBF16, vocab_size * n);
  Buffer out = BenchBuffer(DType::kF32, num_copies * num_tokens * n);
  Random random(1);
  std::vector<int32_t> tokens(num_copies * num_tokens);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.Below(vocab_size));
  bench.Add(std::to_string(num_tokens) + " of " + std::to_string(vocab_size) + " x " +
                std::to_string(n) + ", bf16",
            {.bytes = static_cast<double>(bytes)}, [&](int64_t run) {
              const int64_t copy = run % num_copies * num_tokens;
              Embedding({.table = table.data(),
                         .dtype = DType::kBF16,
                         .vocab_size = vocab_size,
                         .tokens = tokens.data() + copy,
                         .out = out.as<float>() + copy * n,
                         .num_tokens = num_tokens,
                         .n = n},
                        bench.stream());
            });
}

}  // namespace

void BenchEmbedding(OpBench& bench) {
  RunCase(8, 32000, 2048, bench);
  RunCase(512, 32000, 2048, bench);
}

}  // namespace graft
