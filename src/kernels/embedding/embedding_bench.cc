// Rows of TinyLlama's embedding table, on a GPU of Llama-2-7B's; every run looks up other tokens.
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"
#include "kernels/embedding/embedding.h"

namespace graft {
namespace {

void RunEmbeddingCase(int64_t num_tokens, int32_t vocab_size, int64_t n, OpBench& bench) {
  const int64_t bytes = num_tokens * n * 6;
  const int64_t num_copies = bench.num_copies(bytes);
  const Buffer table = BenchBuffer(DType::kBF16, vocab_size * n, bench.stream());
  Buffer out = BenchBuffer(DType::kF32, num_copies * num_tokens * n, bench.stream());
  Random random(1);
  std::vector<int32_t> tokens(num_copies * num_tokens);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.Below(vocab_size));
  const Buffer device_tokens = OnDevice(tokens, bench.stream());
  bench.Add(std::to_string(num_tokens) + " of " + std::to_string(vocab_size) + " x " +
                std::to_string(n) + ", bf16",
            {.bytes = static_cast<double>(bytes), .num_copies = num_copies}, [&](int64_t run) {
              const int64_t copy = run % num_copies * num_tokens;
              Embedding({.table = table.data(),
                         .dtype = DType::kBF16,
                         .vocab_size = vocab_size,
                         .tokens = device_tokens.as<int32_t>() + copy,
                         .out = out.as<float>() + copy * n,
                         .num_tokens = num_tokens,
                         .n = n},
                        bench.stream());
            });
}

}  // namespace

void BenchEmbedding(OpBench& bench) {
  if (bench.is_cpu()) {
    RunEmbeddingCase(8, 32000, 2048, bench);
    RunEmbeddingCase(512, 32000, 2048, bench);
  } else {
    for (const int64_t rows : {1, 32, 2048}) RunEmbeddingCase(rows, 32000, 4096, bench);
  }
}

}  // namespace graft
