// graft-bench parallel: decode on one process's threads and on as many cores' ranks, in turns, so
// that whatever else the machine does falls on both alike: tokens per second and their ratio. On
// GPUs: on one and on as many as there are ranks.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "bench/bench_commands.h"
#include "profile/report.h"
#include "profile/synthetic_adapter.h"
#include "request/token_stream.h"
#include "runtime/runtime.h"

namespace graft {
namespace {

struct BenchParallelOptions {
  RuntimeOptions runtime;
  std::string shape;
  std::string json;
  std::vector<int> batches = {8};
  int prompt_tokens = 16;
  int output_tokens = 33;
  int rank = 16;
  int rounds = 7;
};

std::string HashOf(int32_t adapter) { return "synthetic-" + std::to_string(adapter); }

class ParallelBench {
 public:
  explicit ParallelBench(const BenchParallelOptions& options) : options_(options) {}
  Status Run();

 private:
  // A model on one process, or rank 0 of several.
  struct Side {
    std::unique_ptr<LoadedModel> model;
    std::unique_ptr<Runtime> runtime;
  };
  // How many adapters the batch has: 0 is the base.
  struct Row {
    int batch = 0;
    int adapters = 0;
    std::vector<double> one, several, ratios;  // tokens per second, of each round
  };

  int batch_max() const { return *std::ranges::max_element(options_.batches); }
  RuntimeOptions SideOptions(int ranks) const;
  Status Make(int ranks, RankProcesses* processes, Side* side);
  Result<double> Decode(Side& side, int batch, int adapters);
  Status Measure(Row* row);
  OrderedJson ToJson() const;

  const BenchParallelOptions options_;
  std::unique_ptr<RankProcesses> processes_;
  Side one_, several_;
  uint64_t num_requests_ = 0;
  std::vector<Row> rows_;
};

RuntimeOptions ParallelBench::SideOptions(int ranks) const {
  const BenchParallelOptions& o = options_;
  RuntimeOptions runtime = o.runtime;
  runtime.ranks.num_ranks = ranks;
  runtime.limits.sequences_max = batch_max();
  runtime.limits.context_tokens_max = o.prompt_tokens + o.output_tokens + 1;
  runtime.limits.adapters_max = batch_max();
  runtime.engine.scheduler.prefix_cache = false;
  return runtime;
}

Status ParallelBench::Make(int ranks, RankProcesses* processes, Side* side) {
  const RuntimeOptions runtime = SideOptions(ranks);
  ASSIGN_OR_RETURN(side->model,
                   options_.shape.empty()
                       ? LoadModel(runtime, /*quiet=*/false, {}, processes)
                       : RandomModel(runtime, options_.shape, /*quiet=*/false, {}, processes));
  ASSIGN_OR_RETURN(side->runtime, Runtime::Create(runtime, *side->model, /*lora=*/true));
  ASSIGN_OR_RETURN(
      std::vector<LoraWeights> made,
      MakeSyntheticAdapters(side->model->config, batch_max(), {options_.rank},
                            side->model->weights.types.adapters, 1, *side->model->threads));
  std::vector<std::pair<std::string, LoraWeights>> named;
  for (LoraWeights& adapter : made) {
    named.emplace_back(HashOf(static_cast<int32_t>(named.size())), std::move(adapter));
  }
  RETURN_IF_ERROR(side->runtime->PinSynthetic(std::move(named)));
  side->runtime->RecordGraphs(/*quiet=*/false);
  side->runtime->engine().Start();
  return OkStatus();
}

// Tokens per second from the moment at which all sequences have their first.
Result<double> ParallelBench::Decode(Side& side, int batch, int adapters) {
  Random random(1);
  std::vector<std::shared_ptr<TokenStream>> streams;  // the engine's, too
  for (int i = 0; i < batch; ++i) {
    Request request;
    request.id = ++num_requests_;
    for (int t = 0; t < options_.prompt_tokens; ++t) {
      request.prompt_tokens.push_back(
          static_cast<int32_t>(random.Below(side.model->config.vocab_size)));
    }
    request.sampling.temperature = 0.0f;
    request.sampling.tokens_max = options_.output_tokens;
    request.sampling.ignore_eos = true;
    if (adapters > 0) request.UseAdapter(HashOf(i % adapters));
    streams.push_back(std::make_shared<TokenStream>());
    RETURN_IF_ERROR(side.runtime->engine().Submit(std::move(request), streams.back()));
  }
  const auto pop = [](TokenStream& stream) -> Result<bool> {
    const TokenEvent event = stream.Pop();
    if (event.finish_reason == FinishReason::kError) return event.status;
    return event.finish_reason == FinishReason::kNone;
  };
  for (const auto& stream : streams) RETURN_IF_ERROR(pop(*stream).status());
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  for (const auto& stream : streams) {
    for (bool more = true; more;) {
      ASSIGN_OR_RETURN(more, pop(*stream));
    }
  }
  const double seconds = NsToSeconds(SteadyClock::Get().NowNs() - begin_ns);
  return batch * (options_.output_tokens - 1) / seconds;
}

Status ParallelBench::Measure(Row* row) {
  for (int round = -1; round < options_.rounds; ++round) {
    ASSIGN_OR_RETURN(const double one, Decode(one_, row->batch, row->adapters));
    ASSIGN_OR_RETURN(const double several, Decode(several_, row->batch, row->adapters));
    if (round < 0) continue;  // warms up
    row->one.push_back(one);
    row->several.push_back(several);
    row->ratios.push_back(several / one);
  }
  const auto [least, most] = std::ranges::minmax(row->ratios);
  std::printf("%6d %8d %14.1f %14.1f %8.3f %8.3f to %.3f\n", row->batch, row->adapters,
              UpperMedian(row->one), UpperMedian(row->several), UpperMedian(row->ratios), least,
              most);
  std::fflush(stdout);
  return OkStatus();
}

Status ParallelBench::Run() {
  const int ranks = options_.runtime.ranks.num_ranks;
  if (ranks == 1) {
    return InvalidArgumentError("how many ranks to compare with? --tensor-parallel 2, or more");
  }
  ASSIGN_OR_RETURN(processes_, RankProcesses::Start(SideOptions(ranks), options_.shape));
  RETURN_IF_ERROR(Make(ranks, processes_.get(), &several_));
  processes_->BeginServing();
  RETURN_IF_ERROR(Make(1, nullptr, &one_));
  std::printf("decode on %s: one process with %d threads, %d ranks with %d each\n",
              DescribeDevice(one_.model->device).c_str(), one_.model->threads->num_threads(), ranks,
              several_.model->threads->num_threads());
  std::printf("%6s %8s %14s %14s %8s %8s\n", "batch", "adapters", "one tok/s", "ranks tok/s",
              "ratio", "range");
  for (const int batch : options_.batches) {
    for (const int adapters : batch == 1 ? std::vector{0, 1} : std::vector{0, 1, batch}) {
      rows_.push_back({.batch = batch, .adapters = adapters});
      RETURN_IF_ERROR(Measure(&rows_.back()));
    }
  }
  return WriteJson(options_.json, ToJson());
}

OrderedJson ParallelBench::ToJson() const {
  OrderedJson rows = OrderedJson::array();
  for (const Row& row : rows_) {
    rows.push_back({{"batch", row.batch},
                    {"adapters", row.adapters},
                    {"one_tokens_per_second", row.one},
                    {"ranks_tokens_per_second", row.several},
                    {"ratio", UpperMedian(row.ratios)}});
  }
  return {{"machine", DescribeMachine()},
          {"shape", BenchModelName(options_.runtime, options_.shape)},
          {"dtype", std::string(DTypeName(one_.model->weights.types.operands))},
          {"threads", one_.model->threads->num_threads()},
          {"ranks", options_.runtime.ranks.num_ranks},
          {"rows", rows}};
}

}  // namespace

Command BenchParallelCommand() {
  const auto options = std::make_shared<BenchParallelOptions>();  // lives as long as the command
  options->runtime.ranks.num_ranks = 2;
  options->runtime.pool_gib = options->runtime.host_gib = 1.0;
  return {
      .name = "parallel",
      .help = "Decode on one process and on several ranks of the same cores, in turns.",
      .groups =
          {{"Model", BenchModelOptionRows(options->shape, options->runtime)},
           {"Decoding",
            {{"tensor-parallel", Number(options->runtime.ranks.num_ranks, AtLeast(1)),
              "ranks to compare with one process"},
             {"batch", Numbers(options->batches, Between(1, 2048)),
              "sequences at once, several in turn"},
             {"prompt-tokens", Number(options->prompt_tokens, AtLeast(1)), "of each sequence"},
             {"output-tokens", Number(options->output_tokens, AtLeast(2)),
              "of each sequence; those after the first are timed"},
             {"rank", Number(options->rank, Between(1, kLoraRankMax)),
              "of the adapters: none, one for all, one for each"},
             {"rounds", Number(options->rounds, AtLeast(1)), "of each, in turns"},
             {"pool-gib", Number(options->runtime.pool_gib, AtLeast(0)), "each side's page pool"},
             {"host-gib", Number(options->runtime.host_gib, AtLeast(0)),
              "each side's adapters in the host's memory"},
             JsonOptionRow(options->json)}}},
      .run = [options] { return ParallelBench(*options).Run(); }};
}

}  // namespace graft
