// Measures training on a GPU: tokens per second and memory of steps over random weights of a shape.
//   learn_cuda_bench CONFIG.json [--rank 16] [--steps 5] [--adapters N --examples M --tokens T]...
// Each triple is a case; without one, eight examples of 1,024 tokens of one adapter, and sixteen of
// 512 tokens of sixteen. Prints a line for each. --memory N or --prefix N puts so many virtual
// tokens that learn in front of every example; --rank 0 leaves LoRA out.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "learn/trainer.h"
#include "tensor/allocations.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

struct BenchCase {
  int32_t adapters = 1;
  int32_t examples = 8;
  int32_t tokens = 1024;
};

struct BenchOptions {
  std::string config;
  TrainedShape shape = {.rank = 16};
  int32_t steps = 5;
  int32_t logits_rows = 1024;
  double kept_gib = 1000.0;
  std::vector<BenchCase> cases;
};

bool ParseOptions(int argc, char** argv, BenchOptions& options) {
  if (argc < 2) return false;
  options.config = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* const value = argv[i + 1];
    if (name == "--rank") {
      options.shape.rank = std::atoi(value);
    } else if (name == "--memory" || name == "--prefix") {
      options.shape.virtual_tokens = std::atoi(value);
      options.shape.kind =
          name == "--memory" ? VirtualTokenKind::kEmbedding : VirtualTokenKind::kKeysValues;
    } else if (name == "--steps") {
      options.steps = std::atoi(value);
    } else if (name == "--logits-rows") {
      options.logits_rows = std::atoi(value);
    } else if (name == "--kept-gib") {
      options.kept_gib = std::atof(value);
    } else if (name == "--adapters") {
      options.cases.push_back({.adapters = std::atoi(value)});
    } else if (name == "--examples" && !options.cases.empty()) {
      options.cases.back().examples = std::atoi(value);
    } else if (name == "--tokens" && !options.cases.empty()) {
      options.cases.back().tokens = std::atoi(value);
    } else {
      return false;
    }
  }
  if (options.cases.empty()) options.cases = {{1, 8, 1024}, {16, 16, 512}};
  return true;
}

constexpr double kGib = int64_t{1} << 30;
int64_t Bytes(double gib) { return static_cast<int64_t>(gib * kGib); }

void RunCase(const BenchOptions& options, const BenchCase& c, const ModelConfig& config,
             const ModelWeights& weights, Stream& stream) {
  const TrainedShape& shape = options.shape;
  const int32_t rows = c.examples * c.tokens;
  const bool is_prefix = shape.kind == VirtualTokenKind::kKeysValues;
  Trainer trainer(config, weights,
                  {.rows_max = rows + (is_prefix ? 0 : c.examples * shape.virtual_tokens),
                   .sequences_max = c.examples,
                   .prefix_tokens_max = is_prefix ? shape.virtual_tokens : 0,
                   .rank_max = std::max(1, shape.rank),
                   .logits_rows_max = std::min(options.logits_rows, rows),
                   .activation_bytes_max = Bytes(options.kept_gib)},
                  stream);
  Random random(1);
  std::vector<TrainingExample> examples;
  std::vector<Trainer::Update> updates;
  for (int32_t i = 0; i < c.adapters; ++i) {
    trainer.Add(shape);
    if (shape.rank > 0) trainer.adapter(i).Initialize(static_cast<uint64_t>(i));
    updates.push_back({i, {}});
    const std::vector<int32_t> text(static_cast<size_t>(shape.virtual_tokens), 1 + i);
    if (shape.virtual_tokens > 0) trainer.BeginPrompt(i, text);
  }
  for (int32_t i = 0; i < c.examples; ++i) {
    std::vector<int32_t> tokens(static_cast<size_t>(c.tokens));
    for (int32_t& token : tokens) {
      token = static_cast<int32_t>(random.Below(static_cast<uint64_t>(config.vocab_size)));
    }
    examples.push_back(NextTokenExample(std::move(tokens), i % c.adapters));
  }
  std::vector<const TrainingExample*> pointers;
  for (const TrainingExample& example : examples) pointers.push_back(&example);
  std::vector<double> seconds;
  double loss = 0.0;
  for (int32_t step = 0; step <= options.steps; ++step) {
    const int64_t begin = SteadyClock::Get().NowNs();
    loss = trainer.Accumulate(pointers)[0].tokens;
    trainer.Apply(updates);
    Synchronize(stream);
    if (step > 0) seconds.push_back(NsToSeconds(SteadyClock::Get().NowNs() - begin));
  }
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  std::printf(
      "%2d adapters of rank %d and %d virtual tokens, %2d x %4d tokens: %8.1f tokens/s, %6.1f ms a "
      "step (%.1f to %.1f), "
      "%.1f GiB, loss %.4f\n",
      c.adapters, shape.rank, shape.virtual_tokens, c.examples, c.tokens, rows / median,
      median * 1e3, seconds.front() * 1e3, seconds.back() * 1e3,
      static_cast<double>(AllocatedBytes(stream.device)) / kGib, loss);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  BenchOptions options;
  if (!ParseOptions(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: %s CONFIG.json [--rank R] [--memory V | --prefix V] [--steps N] "
                 "[--adapters N --examples M --tokens T]...\n",
                 argv[0]);
    return 1;
  }
  const Result<std::string> text = ReadFile(options.config);
  if (!text.ok()) return std::fprintf(stderr, "%s\n", text.status().ToString().c_str()), 1;
  const Result<ModelConfig> config = ParseModelConfig(*ParseJson(*text));
  if (!config.ok()) return std::fprintf(stderr, "%s\n", config.status().ToString().c_str()), 1;
  ThreadPool threads(4);
  const Device device{DeviceKind::kCuda, 0};
  OwnedStream stream(device, &threads);
  const ModelWeights weights =
      RandomWeights(*config, TypesOf(DType::kBF16, stream.get().device), 1, stream.get());
  std::printf("%s: weights %.1f GiB\n", DescribeDevice(device).c_str(),
              static_cast<double>(weights.bytes()) / kGib);
  for (const BenchCase& c : options.cases) RunCase(options, c, *config, weights, stream.get());
  return 0;
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) { return graft::Main(argc, argv); }
