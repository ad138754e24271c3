// Sampling a batch of rows, greedy and filtered, against one reading of the logits. Logits are
// normal with a few dozen outstanding ones, as models' are. On a GPU calls are timed one by one.
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"
#include "kernels/sampling/sampling.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

struct SamplingCase {
  const char* name;
  SamplingRow settings;
};

const SamplingCase kCases[] = {
    {"greedy", {}},
    {"greedy, 5 logprobs", {.num_logprobs = 5}},
    {"temperature", {.temperature = 0.8f}},
    {"top_k 40", {.temperature = 0.8f, .top_k = 40}},
    {"top_p 0.9", {.temperature = 0.8f, .top_p = 0.9f}},
    {"top_p 0.99, flat", {.temperature = 4.0f, .top_p = 0.99f}},
    {"min_p 0.05", {.temperature = 0.8f, .min_p = 0.05f}},
};

void RunSamplingCase(const SamplingCase& c, int32_t num_rows, int32_t vocab_size, OpBench& bench) {
  const int64_t n = int64_t{num_rows} * vocab_size;
  const int64_t num_copies = bench.num_copies(n * 4);
  Buffer numbers(num_copies * n * 4);
  Random random(1);
  for (int64_t i = 0; i < num_copies * n; ++i) {
    const bool stands_out = random.Below(vocab_size) < 40;
    numbers.as<float>()[i] =
        static_cast<float>(stands_out ? 5.0 + 10.0 * random.Uniform() : 2.5 * random.Normal());
  }
  std::vector<SamplingRow> rows(num_rows, c.settings);
  const Buffer logits = MoveToDevice(std::move(numbers), bench.stream());
  SamplingScratch scratch(num_rows, vocab_size, bench.stream().device);
  const PinnedBuffer out(num_rows * static_cast<int64_t>(sizeof(SampledToken)));
  bench.Add(std::string(c.name) + ", " + std::to_string(num_rows) + " x vocabulary " +
                std::to_string(vocab_size),
            {.bytes = static_cast<double>(n * 4), .num_copies = num_copies, .can_capture = false},
            [&](int64_t run) {
              for (int32_t i = 0; i < num_rows; ++i) {
                rows[i].seed = i;
                rows[i].draw_idx = run;
              }
              Sample({.logits = logits.as<float>() + run % num_copies * n,
                      .vocab_size = vocab_size,
                      .rows = rows.data(),
                      .out = out.as<SampledToken>(),
                      .num_rows = num_rows,
                      .scratch = &scratch},
                     bench.stream());
            });
}

}  // namespace

void BenchSampling(OpBench& bench) {
  for (const SamplingCase& c : kCases) RunSamplingCase(c, bench.is_cpu() ? 8 : 32, 32000, bench);
  RunSamplingCase(kCases[0], 1, 32000, bench);
  RunSamplingCase(kCases[0], 8, 151936, bench);
  RunSamplingCase(kCases[4], 8, 151936, bench);
}

}  // namespace graft
