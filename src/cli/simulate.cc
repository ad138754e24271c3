// graft simulate: a cluster by a virtual clock. The engines, schedulers, caches and placement
// policies are those that serve; steps and loads take what a cost model says.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/json_file.h"
#include "cli/commands.h"
#include "cli/placement_options.h"
#include "runtime/progress.h"
#include "sim/simulated_workload.h"
#include "sim/simulation_report.h"
#include "sim/trace.h"

namespace graft {
namespace {

constexpr OptionWord<ColdStart> kSimColdStartWords[] = {{ColdStart::kJoinLater, "join-later"},
                                                        {ColdStart::kLayerwise, "layerwise"},
                                                        {ColdStart::kAuto, "auto"},
                                                        {ColdStart::kBlocking, "blocking"}};

struct SimulateOptions {
  SimWorkloadOptions workload;
  SimClusterOptions cluster;
  std::vector<PlacementKind> placements = {PlacementKind::kMostIdle, PlacementKind::kAuto};
  double load = 0.8;
  double requests_per_second = 0.0;
  std::string costs, popularity, lengths, json;
  double fetch_ms = 0.0;
  int seeds = 1;
  bool quiet = false;
};

Status ReadFiles(SimulateOptions& options) {
  if (!options.costs.empty()) {
    ASSIGN_OR_RETURN(options.cluster.runner.costs, ReadCostModel(options.costs));
  }
  options.cluster.placement.costs = options.cluster.runner.costs;
  if (!options.popularity.empty()) {
    ASSIGN_OR_RETURN(options.workload.weights, ReadPopularity(options.popularity));
  }
  if (!options.lengths.empty()) {
    ASSIGN_OR_RETURN(options.workload.lengths, ReadLengths(options.lengths));
  }
  return OkStatus();
}

// A context in full and an adapter of the largest rank must fit, else a request could wait forever.
Status CheckSizes(const SimulateOptions& options) {
  const SimRunnerOptions& runner = options.cluster.runner;
  const int rank_max =
      *std::max_element(options.workload.ranks.begin(), options.workload.ranks.end());
  const int64_t adapter_pages = runner.bytes_per_rank * rank_max / runner.page_bytes + 2;
  const int64_t pages = runner.context_tokens_max / runner.page_tokens + 2 + adapter_pages;
  if (runner.num_pages < pages) {
    return InvalidArgumentError("--pages must be " + std::to_string(pages) +
                                " or more: a context of " +
                                std::to_string(runner.context_tokens_max) +
                                " tokens and an adapter of rank " + std::to_string(rank_max));
  }
  if (runner.host_adapters > 0 && options.fetch_ms <= 0.0) {
    return InvalidArgumentError(
        "how long does a fetch into the host's memory take? --fetch-ms, with --host-adapters");
  }
  return OkStatus();
}

Status RunSimulate(SimulateOptions options) {
  RETURN_IF_ERROR(ReadFiles(options));
  RETURN_IF_ERROR(CheckSizes(options));
  SimWorkloadOptions& workload = options.workload;
  SimClusterOptions& cluster = options.cluster;
  workload.context_tokens_max = cluster.runner.context_tokens_max;
  workload.requests_per_second = options.requests_per_second > 0.0
                                     ? options.requests_per_second
                                     : RateOfLoad(options.load, workload, cluster);
  OrderedJson runs = OrderedJson::array();
  std::printf("%d runners, %d adapters, %.2f requests a second\n\n", cluster.num_runners,
              workload.num_adapters, workload.requests_per_second);
  std::printf("%-14s %6s %12s %12s %10s %10s %8s %8s %8s\n", "placement", "seed", "first P50 ms",
              "first P99 ms", "token ms", "token P99", "in SLO", "copies", "hours");
  const uint64_t first_seed = workload.seed;
  for (int i = 0; i < options.seeds; ++i) {
    workload.seed = first_seed + static_cast<uint64_t>(i);
    SimWorkload made = MakeSimWorkload(workload);
    if (cluster.runner.host_adapters > 0) made.fetch_ms = {options.fetch_ms};
    for (const PlacementKind kind : options.placements) {
      cluster.placement.kind = kind;
      cluster.placement.seed = workload.seed;
      ProgressBar progress("simulating", options.quiet);
      cluster.on_progress = [&](int64_t done, int64_t total) { progress.Update(done, total); };
      const SimResult result = ClusterSimulation(made, cluster).Run();
      progress.Update(1, 1);
      OrderedJson run = SimulationJson(made, cluster, result);
      const auto ms = [&](const char* of, const char* which) {
        return run[of].is_null() ? 0.0 : run[of][which].get<double>();
      };
      std::printf("%-14s %6llu %12.1f %12.1f %10.2f %10.2f %8.3f %8.3f %8.3f\n",
                  run["placement"].get<std::string>().c_str(),
                  static_cast<unsigned long long>(workload.seed), ms("first_token_ms", "p50"),
                  ms("first_token_ms", "p99"), ms("token_ms", "mean"), ms("token_ms", "p99"),
                  run["slo_attainment"].get<double>(),
                  run["adapter_copies_a_request"].get<double>(), run["runner_hours"].get<double>());
      std::fflush(stdout);
      run["seed"] = workload.seed;
      runs.push_back(std::move(run));
    }
  }
  return WriteJson(options.json, {{"runners", cluster.num_runners},
                                  {"adapters", workload.num_adapters},
                                  {"requests_per_second", workload.requests_per_second},
                                  {"costs", ToJson(cluster.runner.costs)},
                                  {"runs", std::move(runs)}});
}

std::vector<Option> WorkloadRows(SimulateOptions& o) {
  SimWorkloadOptions& w = o.workload;
  return {{"requests", Number(w.num_requests, AtLeast(1)), "of a run"},
          {"adapters", Number(w.num_adapters, Between(1, 1 << 24)), "that requests ask for"},
          {"ranks", Numbers(w.ranks, Between(1, 256)), "of which each adapter has one"},
          {"zipf", Number(w.zipf, AtLeast(0)),
           "adapters are as popular as Zipf's law with this exponent; 0: all alike"},
          {"popularity", Text(o.popularity),
           "a trace's file that names adapters or functions, whose popularity is stretched over "
           "the adapters instead"},
          {"load", Number(o.load, Above(0)), "share of the runners' batches that requests fill"},
          {"rate", Number(o.requests_per_second, AtLeast(0)), "requests a second instead; 0: none"},
          {"cv", Number(w.cv, AtLeast(0)),
           "coefficient of variation of the gaps between requests; 1: a Poisson process"},
          {"prompt-tokens", Number(w.prompt_tokens, AtLeast(1)), "mean of a geometric law"},
          {"output-tokens", Number(w.output_tokens, AtLeast(1)), "likewise"},
          {"lengths", Text(o.lengths), "a CSV of prompts' and answers' lengths instead"},
          {"warm-seconds", Number(o.cluster.warm_seconds, AtLeast(0)),
           "requests that come before are not counted"},
          {"seed", Number(w.seed), "of everything that is drawn"},
          {"seeds", Number(o.seeds, AtLeast(1)), "so many runs of each placement, seed by seed"}};
}

std::vector<Option> ClusterRows(SimulateOptions& o) {
  SimRunnerOptions& r = o.cluster.runner;
  return {{"runners", Number(o.cluster.num_runners, Between(1, 10'000)), "all alike"},
          {"placement", SomePlacements(o.placements), "each runs over the same requests"},
          {"costs", Text(o.costs), "what graft profile wrote", "Llama-2-7B on an H200"},
          {"slo-ms", Number(o.cluster.placement.slo_ms, AtLeast(0)),
           "bound of a token's time; 0: 1.5 times that of a row of rank 64 alone"},
          {"batch", Number(r.batch_max, Between(1, 4096)), "requests in one step of a runner"},
          {"step-tokens-max", Number(r.step_tokens_max, AtLeast(1)), "rows of one step"},
          {"context-tokens-max", Number(r.context_tokens_max, AtLeast(2)),
           "prompts and answers are cut to half of it each"},
          {"adapters-max", Number(r.adapters_max, AtLeast(1)), "on a runner's device at once"},
          {"pages", Number(r.num_pages, AtLeast(1)), "of a runner's pool"},
          {"page-tokens", Number(r.page_tokens, AtLeast(1)), "of a page"},
          {"cold-start", OneOf(r.cold_start, kSimColdStartWords), "as of graft serve"},
          {"host-adapters", Number(r.host_adapters, AtLeast(0)),
           "adapters that a runner's host memory holds; 0: all of them"},
          {"fetch-ms", Number(o.fetch_ms, AtLeast(0)), "of an adapter that it does not hold"}};
}

}  // namespace

Command SimulateCommand() {
  const auto options = std::make_shared<SimulateOptions>();  // lives as long as the command
  return {.name = "simulate",
          .help =
              "Serve a workload by a simulated cluster, once for each placement.\n"
              "  graft simulate --runners 16 --adapters 1000 --placement rendezvous,auto",
          .groups = {{"Workload", WorkloadRows(*options)},
                     {"Cluster", ClusterRows(*options)},
                     {"Output",
                      {{"json", Text(options->json), "write the figures to this file, too"},
                       {"quiet", Switch(options->quiet), "no progress bars"}}}},
          .run = [options] { return RunSimulate(*options); },
          .environment_prefix = "GRAFT_SIMULATE_"};
}

}  // namespace graft
