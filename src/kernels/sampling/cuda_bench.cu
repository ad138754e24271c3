// Sampling of decode batches. Logits are normal with a few dozen outstanding ones, as models' are.
#include "base/random.h"
#include "kernels/common/cuda_bench.cuh"
#include "kernels/sampling/sampling.h"

namespace graft::cuda_bench {
namespace {

struct Case {
  const char* name;
  SamplingRow settings;
};

const Case kCases[] = {
    {"greedy", {}},
    {"greedy, 5 logprobs", {.num_logprobs = 5}},
    {"temperature", {.temperature = 0.8f}},
    {"top_k 40", {.temperature = 0.8f, .top_k = 40}},
    {"top_p 0.9", {.temperature = 0.8f, .top_p = 0.9f}},
    {"top_k 40, top_p 0.9", {.temperature = 0.8f, .top_p = 0.9f, .top_k = 40}},
    {"top_p 0.99, flat", {.temperature = 4.0f, .top_p = 0.99f}},
    {"min_p 0.05", {.temperature = 0.8f, .min_p = 0.05f}},
};

void RunCases(int32_t num_rows, int32_t vocab_size, int32_t num_cases, Stream& stream) {
  const int64_t n = int64_t{num_rows} * vocab_size;
  const int64_t copies = NumColdCopies(n * 4);
  // One row's logits, shifted from row to row and copy to copy.
  std::vector<float> values(static_cast<size_t>(vocab_size));
  Random random(1);
  for (float& value : values) {
    const bool stands_out = random.Below(vocab_size) < 40;
    value = static_cast<float>(stands_out ? 5.0 + 10.0 * random.Uniform() : 2.5 * random.Normal());
  }
  Buffer logits(copies * n * 4, stream.device);
  for (int64_t row = 0; row < copies * num_rows; ++row) {
    float* to = logits.as<float>() + row * vocab_size;
    const size_t shift = static_cast<size_t>(row * 131 % vocab_size);
    const size_t first = values.size() - shift;
    CUDA_CHECK(cudaMemcpy(to, &values[shift], first * 4, cudaMemcpyHostToDevice));
    if (shift == 0) continue;
    CUDA_CHECK(cudaMemcpy(to + first, values.data(), shift * 4, cudaMemcpyHostToDevice));
  }
  const PinnedBuffer out(num_rows * static_cast<int64_t>(sizeof(SampledToken)));
  Buffer tokens(num_rows * 4, stream.device);
  SamplingScratch scratch(num_rows, vocab_size, stream.device);
  for (int32_t i = 0; i < num_cases; ++i) {
    std::vector<SamplingRow> rows(static_cast<size_t>(num_rows), kCases[i].settings);
    for (int32_t row = 0; row < num_rows; ++row) rows[row].seed = row;
    const std::string name = std::string(kCases[i].name) + ", " + std::to_string(num_rows) + " x " +
                             std::to_string(vocab_size);
    Report(name, n * 4, stream, [&](int64_t copy) {
      Sample({.logits = logits.as<float>() + copy * n,
              .vocab_size = vocab_size,
              .rows = rows.data(),
              .out = out.as<SampledToken>(),
              .num_rows = num_rows,
              .scratch = &scratch,
              .device_tokens = tokens.as<int32_t>()},
             stream);
    });
  }
}

void Run() {
  constexpr int32_t kAllCases = sizeof(kCases) / sizeof(Case);
  ThreadPool threads(1);
  OwnedStream stream({DeviceKind::kCuda, 0}, &threads);
  RunCases(1, 32000, 3, stream.get());
  RunCases(32, 32000, kAllCases, stream.get());
  RunCases(32, 151936, kAllCases, stream.get());
  RunCases(128, 32000, 3, stream.get());
}

}  // namespace
}  // namespace graft::cuda_bench

int main() {
  graft::cuda_bench::Run();
  return 0;
}
