// What the engine's thread spends on a step besides the executor: plan, commit, publish, deliver.
// An engine over an executor that draws tokens by arithmetic; so many sequences decode, each of one
// of 64 adapters or fewer, and four times as many requests are in flight, of one tenant or of many
// in turn. Prints the median and the 99th percentile of steps in which nobody begins or ends.
//
//   engine_overhead [BATCH] [TENANTS] [STEPS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_executor.h"
#include "engine/fake_loader.h"

namespace graft {
namespace {

constexpr int32_t kAdapters = 64;
constexpr int32_t kPromptTokens = 16;

struct Load {
  int32_t batch = 256;
  int32_t num_tenants = 1000;
  int32_t num_steps = 2000;
};

std::vector<int64_t> OverheadsOf(const Load& load) {
  const int32_t tokens_max = load.num_steps * 2;
  const ExecutorLimits limits = {.sequences_max = load.batch,
                                 .step_tokens_max = 8 * load.batch,
                                 .context_tokens_max = tokens_max + kPromptTokens,
                                 .num_pages = load.batch * (tokens_max / 16 + 2),
                                 .page_bytes = 640,
                                 .page_tokens = 16,
                                 .vocab_size = 1000,
                                 .adapters_max = kAdapters};
  FakeExecutor executor(limits);
  FakeLoader loader(executor);
  ContentTable adapters(kAdapters);
  SteadyClock clock;
  Metrics metrics;
  EngineOptions options;
  options.requests_max = 1 << 20;
  Engine engine(executor, adapters, loader, clock, metrics, options);
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int32_t i = 0; i < std::max(4 * load.batch, load.num_tenants); ++i) {
    const std::string adapter = "adapter " + std::to_string(i % kAdapters);
    if (i < kAdapters &&
        !adapters.Publish({.path = adapter, .hash = adapter, .key = adapter}).ok()) {
      std::exit(1);
    }
    Request request;
    request.id = static_cast<uint64_t>(i) + 1;
    request.tenant = "tenant " + std::to_string(i % load.num_tenants);
    request.prompt_tokens.assign(kPromptTokens, 2 + i % 48);
    request.sampling.tokens_max = tokens_max;
    request.sampling.ignore_eos = true;
    request.UseAdapter(adapter);
    streams.push_back(std::make_shared<TokenStream>());
    if (!engine.Submit(std::move(request), streams.back()).ok()) std::exit(1);
  }
  std::vector<int64_t> overheads;
  while (engine.Snapshot().requests_running < load.batch) engine.Step();
  for (int32_t step = 0; step < load.num_steps; ++step) {
    const int64_t before_ns = engine.Snapshot().overhead_ns;
    engine.Step();
    if (step < load.num_steps / 10) continue;
    overheads.push_back(engine.Snapshot().overhead_ns - before_ns);
    for (const auto& stream : streams) {
      while (stream->TryPop().has_value()) {
      }
    }
  }
  return overheads;
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  graft::Load load;
  if (argc > 1) load.batch = std::atoi(argv[1]);
  if (argc > 2) load.num_tenants = std::atoi(argv[2]);
  if (argc > 3) load.num_steps = std::atoi(argv[3]);
  if (load.batch < 1 || load.num_tenants < 1 || load.num_steps < 20) {
    std::fprintf(stderr, "usage: engine_overhead [BATCH] [TENANTS] [STEPS, at least 20]\n");
    return 2;
  }
  std::vector<int64_t> overheads = graft::OverheadsOf(load);
  std::sort(overheads.begin(), overheads.end());
  const auto at = [&](double part) {
    return static_cast<double>(overheads[static_cast<size_t>(part * (overheads.size() - 1))]) / 1e3;
  };
  std::printf("batch %d, %d tenants: median %.1f us, 99th percentile %.1f us a step\n", load.batch,
              load.num_tenants, at(0.5), at(0.99));
  return 0;
}
