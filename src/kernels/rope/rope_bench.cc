// Queries and keys of TinyLlama-1.1B and Llama-2-7B, decode and prefill; read and written once.
#include <string>
#include <vector>

#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"
#include "kernels/rope/rope.h"

namespace graft {
namespace {

constexpr int32_t kPositions = 2048;

void RunRopeCase(int64_t num_tokens, int32_t num_heads, int32_t head_dim, OpBench& bench) {
  const int64_t elements = num_tokens * num_heads * head_dim;
  const int64_t bytes = elements * 8;
  const int64_t num_copies = bench.num_copies(bytes);
  Buffer x = BenchBuffer(DType::kF32, num_copies * elements, bench.stream());
  // A rotation by the same angle everywhere, so that runs on runs keep their length.
  const int64_t table = int64_t{kPositions} * head_dim / 2;
  const Buffer cos = OnDevice(std::vector<float>(table, 0.8f), bench.stream());
  const Buffer sin = OnDevice(std::vector<float>(table, 0.6f), bench.stream());
  std::vector<int32_t> positions(num_tokens);
  for (int64_t i = 0; i < num_tokens; ++i) positions[i] = static_cast<int32_t>(i % kPositions);
  const Buffer device_positions = OnDevice(positions, bench.stream());
  bench.Add(std::to_string(num_tokens) + " tokens, " + std::to_string(num_heads) + " heads of " +
                std::to_string(head_dim),
            {.bytes = static_cast<double>(bytes), .num_copies = num_copies}, [&](int64_t run) {
              Rope({.x = x.as<float>() + run % num_copies * elements,
                    .x_stride = int64_t{num_heads} * head_dim,
                    .num_tokens = num_tokens,
                    .num_heads = num_heads,
                    .head_dim = head_dim,
                    .rotary_dim = head_dim,
                    .positions = device_positions.as<int32_t>(),
                    .cos = cos.as<float>(),
                    .sin = sin.as<float>()},
                   bench.stream());
            });
}

}  // namespace

void BenchRope(OpBench& bench) {
  if (!bench.is_cpu()) {
    for (const int64_t rows : {1, 32, 2048}) RunRopeCase(rows, 64, 128, bench);
    return;
  }
  RunRopeCase(8, 36, 64, bench);
  RunRopeCase(512, 36, 64, bench);
  RunRopeCase(512, 64, 128, bench);
}

}  // namespace graft
