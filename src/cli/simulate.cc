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
#include "runtime/runtime_options.h"
#include "runtime/server_memory.h"
#include "sim/load_bound.h"
#include "sim/simulated_workload.h"
#include "sim/simulation_picture.h"
#include "sim/simulation_report.h"
#include "sim/trace.h"

namespace graft {
namespace {

constexpr OptionWord<ColdStart> kSimColdStartWords[] = {{ColdStart::kJoinLater, "join-later"},
                                                        {ColdStart::kLayerwise, "layerwise"},
                                                        {ColdStart::kAuto, "auto"},
                                                        {ColdStart::kBlocking, "blocking"}};

enum class LoadShare : uint8_t { kRows, kPlaces };
constexpr OptionWord<LoadShare> kLoadShareWords[] = {{LoadShare::kRows, "rows"},
                                                     {LoadShare::kPlaces, "places"}};

struct SimulateOptions {
  SimWorkloadOptions workload;
  SimClusterOptions cluster;
  std::vector<PlacementKind> placements = {PlacementKind::kMostIdle, PlacementKind::kAuto};
  double load = 0.8;
  LoadShare load_of = LoadShare::kRows;
  double requests_per_second = 0.0;
  std::string costs, popularity, lengths, fetch_times, json, picture, trace;
  std::vector<TraceRequest> recorded;  // of the trace
  double fetch_ms = 0.0;
  std::vector<double> fetches;  // times of those, in milliseconds
  double hill_seconds = 0.0;
  bool scales = false;
  int seeds = 1;
  int32_t step_tokens_max = 0;  // 0: by the goal
  bool quiet = false;
};

Status ReadFiles(SimulateOptions& options) {
  if (!options.costs.empty()) {
    ASSIGN_OR_RETURN(options.cluster.runner.costs, ReadCostModel(options.costs));
  }
  if (!options.popularity.empty()) {
    ASSIGN_OR_RETURN(options.workload.weights, ReadPopularity(options.popularity));
  }
  if (!options.lengths.empty()) {
    ASSIGN_OR_RETURN(options.workload.lengths, ReadLengths(options.lengths));
  }
  if (!options.trace.empty()) {
    if (options.hill_seconds > 0.0 || options.workload.num_prefixes > 0) {
      return InvalidArgumentError(
          "a trace comes as it was recorded: leave out --hill-seconds and "
          "--prefixes, or --trace");
    }
    ASSIGN_OR_RETURN(options.recorded, ReadTrace(options.trace));
  }
  if (options.fetch_ms > 0.0) options.fetches = {options.fetch_ms};
  if (!options.fetch_times.empty()) {
    ASSIGN_OR_RETURN(options.fetches, ReadLoadTimes(options.fetch_times));
  }
  return OkStatus();
}

// What the goal decides where no option does.
void SetSteps(SimulateOptions& options) {
  SimRunnerOptions& runner = options.cluster.runner;
  SchedulerOptions& scheduler = runner.engine.scheduler;
  const bool is_for_throughput = scheduler.goal == Goal::kThroughput;
  if (options.step_tokens_max > 0) {
    runner.limits.step_tokens_max = options.step_tokens_max;
  } else if (is_for_throughput) {
    runner.limits.step_tokens_max = kThroughputRows;
  }
  if (is_for_throughput && scheduler.step_ns_max == 0) scheduler.step_ns_max = kThroughputNs;
}

// What placement predicts by is what the runners compute by.
void SetPlacementCosts(SimulateOptions& options) {
  SimClusterOptions& cluster = options.cluster;
  if (cluster.runner.loader.host_adapters > 0) {
    double sum = 0.0;
    for (const double ms : options.fetches) sum += ms;
    cluster.runner.costs.fetch_ms = sum / static_cast<double>(options.fetches.size());
  }
  cluster.placement.costs = cluster.runner.costs;
}

// A context in full and an adapter of the largest rank must fit, else a request could wait forever.
Status CheckSizes(const SimulateOptions& options) {
  const SimRunnerOptions& runner = options.cluster.runner;
  const int rank_max =
      *std::max_element(options.workload.ranks.begin(), options.workload.ranks.end());
  const int64_t adapter_pages =
      runner.loader.bytes_per_rank * rank_max / runner.limits.page_bytes + 2;
  const int64_t pages =
      runner.limits.context_tokens_max / runner.limits.page_tokens + 2 + adapter_pages;
  if (runner.limits.num_pages < pages) {
    return InvalidArgumentError("--pages must be " + std::to_string(pages) +
                                " or more: a context of " +
                                std::to_string(runner.limits.context_tokens_max) +
                                " tokens and an adapter of rank " + std::to_string(rank_max));
  }
  if (runner.loader.host_adapters > 0 && options.fetches.empty()) {
    return InvalidArgumentError(
        "how long does a fetch into the host's memory take? --fetch-ms or --fetch-times, with "
        "--host-adapters");
  }
  const SimClusterOptions& cluster = options.cluster;
  if (cluster.machine_runners > 1 && runner.costs.served.decode_slowness.size() < 2) {
    return InvalidArgumentError(
        "--machine-runners: how much do runners of one machine slow each other? --costs of graft "
        "profile --serve-runners " +
        std::to_string(cluster.machine_runners));
  }
  if (options.scales && (cluster.num_frontends > 1 || cluster.view_ms > 0.0 ||
                         cluster.failures.every_seconds > 0.0)) {
    return InvalidArgumentError(
        "--scale goes with one frontend that knows at once, and with runners that do not fail: "
        "leave out --frontends, --view-ms and --fail-seconds");
  }
  return OkStatus();
}

Status SetRate(SimulateOptions& options) {
  SimWorkloadOptions& workload = options.workload;
  const SimClusterOptions& cluster = options.cluster;
  if (!options.recorded.empty()) {
    const auto num = static_cast<double>(options.recorded.size());
    const double seconds = options.recorded.back().arrival_seconds;
    const double recorded = seconds > 0.0 ? num / seconds : num;
    const double asked = options.requests_per_second;
    workload.requests_per_second = asked > 0.0 ? asked : recorded;
    for (TraceRequest& one : options.recorded) {
      one.arrival_seconds *= recorded / workload.requests_per_second;
    }
    return OkStatus();
  }
  workload.requests_per_second = options.requests_per_second;
  if (workload.requests_per_second > 0.0) return OkStatus();
  workload.requests_per_second =
      options.load_of == LoadShare::kRows
          ? RateOfLoad(options.load, workload, cluster)
          : RateOfPlaces(options.load, cluster.runner.costs.fetch_ms, workload, cluster);
  if (workload.requests_per_second > 0.0) return OkStatus();
  return InvalidArgumentError(
      options.load_of == LoadShare::kRows
          ? "--costs: a full batch takes no time by them; measure them anew with graft profile"
          : "--load-of places: the runners have places for all adapters; more --adapters, or fewer "
            "--adapters-max");
}

SimWorkload MakeWorkload(const SimulateOptions& options) {
  const int32_t context_tokens_max = options.cluster.runner.limits.context_tokens_max;
  if (!options.recorded.empty()) {
    SimWorkload made = WorkloadOfTrace(options.recorded, options.workload, context_tokens_max);
    made.fetch_ms = options.fetches;
    return made;
  }
  SimWorkloadOptions even = options.workload;
  const double peak = even.requests_per_second;
  if (options.hill_seconds > 0.0) {
    even.num_requests = RequestsOfHill(peak, options.hill_seconds);
    even.requests_per_second = 1.0;
  }
  SimWorkload made = MakeSimWorkload(even, context_tokens_max);
  if (options.hill_seconds > 0.0) BendIntoHill(peak, options.hill_seconds, &made.requests);
  made.fetch_ms = options.fetches;
  return made;
}

std::string Headline(const SimulateOptions& options) {
  char rate[32];
  std::snprintf(rate, sizeof(rate), "%.2f", options.workload.requests_per_second);
  return std::to_string(options.cluster.num_runners) + " runners, " +
         std::to_string(options.workload.num_adapters) + " adapters, " + rate +
         " requests a second" + (options.hill_seconds > 0.0 ? " in the middle of a hill" : "");
}

void PrintHead(const std::string& headline) {
  std::printf("%s\n\n", headline.c_str());
  std::printf("%-14s %6s %12s %12s %10s %10s %8s %8s %8s\n", "placement", "seed", "first P50 ms",
              "first P99 ms", "token ms", "token P99", "in SLO", "copies", "hours");
}

// A line of the table. Its hours are those that are paid for, where runners come and go.
void PrintRun(const OrderedJson& run) {
  const auto ms = [&](const char* of, const char* which) {
    return run[of].is_null() ? 0.0 : run[of][which].get<double>();
  };
  const char* const hours =
      run.contains("paid_runner_hours") ? "paid_runner_hours" : "runner_hours";
  std::printf("%-14s %6llu %12.1f %12.1f %10.2f %10.2f %8.3f %8.3f %8.3f\n",
              run["placement"].get<std::string>().c_str(),
              static_cast<unsigned long long>(run["seed"].get<uint64_t>()),
              ms("first_token_ms", "p50"), ms("first_token_ms", "p99"), ms("token_ms", "mean"),
              ms("token_ms", "p99"), run["slo_attainment"].get<double>(),
              run["adapter_copies_a_request"].get<double>(), run[hours].get<double>());
  std::fflush(stdout);
}

// One run, printed and added to `runs`.
SimResult RunOnce(const SimulateOptions& options, const SimWorkload& made,
                  SimClusterOptions cluster, OrderedJson& runs) {
  ProgressBar progress("simulating", options.quiet);
  cluster.on_progress = [&](int64_t done, int64_t total) { progress.Update(done, total); };
  SimResult result = ClusterSimulation(made, cluster).Run();
  progress.Update(1, 1);
  OrderedJson run = SimulationJson(made, cluster, result);
  run["seed"] = options.workload.seed;
  const LoadBound bound = LoadBoundOf(made, cluster);
  run["bound"] = {{"loads_a_request", bound.loads_a_request},
                  {"first_token_p99_ms", bound.first_token_p99_ms}};
  PrintRun(run);
  runs.push_back(std::move(run));
  return result;
}

// The same requests once more, by as many runners as are wanted, beside the least that could do
// what all runners did.
void RunScaled(const SimulateOptions& options, const SimWorkload& made, const SimResult& all,
               OrderedJson& runs) {
  SimClusterOptions cluster = options.cluster;
  cluster.scaling.is_on = true;
  const SimResult scaled = RunOnce(options, made, cluster, runs);
  const double bound = LeastRunnerSeconds(made, all.outcomes, cluster.runner.limits.sequences_max,
                                          cluster.scaling.scale.startup_seconds);
  std::printf(
      "  as many runners as wanted: %lld starts, %lld requests moved; at least %.3f hours "
      "with all known before, %.3f times that\n",
      static_cast<long long>(scaled.starts), static_cast<long long>(scaled.moves), bound / 3600.0,
      scaled.paid_seconds / bound);
  runs.back()["least_runner_hours"] = bound / 3600.0;
  runs.back()["paid_over_least"] = scaled.paid_seconds / bound;
}

void PrintBound(const LoadBound& bound) {
  if (bound.loads_a_request <= 0.0) return;
  std::printf("%-14s %6s %12s %12.1f %10s %10s %8s %8.3f\n", "clairvoyant", "", "",
              bound.first_token_p99_ms, "", "", "", bound.loads_a_request);
}

Status RunSimulate(SimulateOptions options) {
  RETURN_IF_ERROR(ReadFiles(options));
  RETURN_IF_ERROR(CheckSizes(options));
  SetSteps(options);
  SetPlacementCosts(options);
  SimWorkloadOptions& workload = options.workload;
  SimClusterOptions& cluster = options.cluster;
  cluster.runner.engine.scheduler.prefix_cache = workload.num_prefixes > 0;
  RETURN_IF_ERROR(SetRate(options));
  OrderedJson runs = OrderedJson::array();
  const std::string headline = Headline(options);
  PrintHead(headline);
  const uint64_t first_seed = workload.seed;
  if (!options.recorded.empty() && MakeWorkload(options).requests.empty()) {
    return InvalidArgumentError(options.trace +
                                " has no request with the lengths of its prompt "
                                "and its answer");
  }
  for (int i = 0; i < options.seeds; ++i) {
    workload.seed = first_seed + static_cast<uint64_t>(i);
    const SimWorkload made = MakeWorkload(options);
    for (const PlacementKind kind : options.placements) {
      cluster.placement.kind = kind;
      cluster.placement.seed = workload.seed;
      const SimResult all = RunOnce(options, made, cluster, runs);
      if (options.scales) RunScaled(options, made, all, runs);
    }
    PrintBound(LoadBoundOf(made, cluster));
  }
  RETURN_IF_ERROR(WriteText(options.picture, SimulationPicture("Simulated: " + headline, runs)));
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
          {"load", Number(o.load, Above(0)), "share of the cluster that requests fill"},
          {"load-of", OneOf(o.load_of, kLoadShareWords),
           "a share of the rows of the runners' batches, or of their places for adapters"},
          {"rate", Number(o.requests_per_second, AtLeast(0)),
           "requests a second instead; a trace is stretched to it; 0: none"},
          {"hill-seconds", Number(o.hill_seconds, AtLeast(0)),
           "the load rises from none to --load or --rate and falls back in so long, which says how "
           "many requests there are; 0: it is even"},
          {"cv", Number(w.cv, AtLeast(0)),
           "coefficient of variation of the gaps between requests; 1: a Poisson process"},
          {"day-seconds", Number(w.day_seconds, AtLeast(0)),
           "the rate swings once in so many seconds; 0: it does not"},
          {"day-swing", Number(w.day_swing, Between(0, 0.99)), "by this share of it"},
          {"crowd-at-seconds", Number(w.crowd_at_seconds, AtLeast(0)),
           "from then on a crowd asks for one adapter, the least popular one"},
          {"crowd-seconds", Number(w.crowd_seconds, AtLeast(0)), "for so long; 0: none does"},
          {"crowd-share", Number(w.crowd_share, Between(0, 1)), "of all requests"},
          {"adapter-life-seconds", Number(w.adapter_life_seconds, AtLeast(0)),
           "until an adapter is replaced by a new one, on average; 0: never"},
          {"prompt-tokens", Number(w.prompt_tokens, AtLeast(1)), "mean of a geometric law"},
          {"output-tokens", Number(w.output_tokens, AtLeast(1)), "likewise"},
          {"trace", Text(o.trace),
           "a recorded trace's requests as they came, with its lengths and adapters, instead"},
          {"prefixes", Number(w.num_prefixes, AtLeast(0)),
           "each adapter's prompts begin as one of so many; 0: no two begin alike"},
          {"prefix-tokens", Number(w.prefix_tokens, AtLeast(1)),
           "so many tokens of theirs come before what --prompt-tokens says"},
          {"lengths", Text(o.lengths), "a CSV of prompts' and answers' lengths instead"},
          {"warm-seconds", Number(o.cluster.warm_seconds, AtLeast(0)),
           "requests that come before are not counted"},
          {"seed", Number(w.seed), "of everything that is drawn"},
          {"seeds", Number(o.seeds, AtLeast(1)), "so many runs of each placement, seed by seed"}};
}

std::vector<Option> ClusterRows(SimulateOptions& o) {
  SimRunnerOptions& r = o.cluster.runner;
  return {
      {"runners", Number(o.cluster.num_runners, Between(1, 10'000)), "all alike"},
      {"machine-runners", Number(o.cluster.machine_runners, Between(1, 10'000)),
       "so many of them share a machine, and slow each other as graft profile --serve-runners "
       "measured; 1: each has its own"},
      {"placement", SomePlacements(o.placements), "each runs over the same requests"},
      {"costs", Text(o.costs), "what graft profile wrote", "Llama-2-7B on an H200"},
      {"slo-ms", Number(o.cluster.placement.slo_ms, AtLeast(0)),
       "bound of a token's time; 0: 1.5 times that of a row of rank 64 alone"},
      {"batch", Number(r.limits.sequences_max, Between(1, 4096)),
       "requests in one step of a runner"},
      GoalOptionRow(r.engine.scheduler.goal),
      {"step-tokens-max", Number(o.step_tokens_max, AtLeast(0)),
       "rows of one step; 0: 512, with --goal throughput 16384"},
      Tuned({"step-ms-max", NumberIn(kMsInNs, r.engine.scheduler.step_ns_max, AtLeast(0)),
             "what a step with decoding sequences is expected to take at most, by fewer rows of "
             "prompts in it, but 64 at least; 0: no bound, 1000 with --goal throughput"},
            "ms"),
      {"context-tokens-max", Number(r.limits.context_tokens_max, AtLeast(2)),
       "prompts and answers are cut to half of it each"},
      {"adapters-max", Number(r.limits.adapters_max, AtLeast(1)), "on a runner's device at once"},
      {"pages", Number(r.limits.num_pages, AtLeast(1)), "of a runner's pool"},
      {"page-tokens", Number(r.limits.page_tokens, AtLeast(1)),
       "of a page, as graft serve's --tune page-tokens"},
      {"cold-start", OneOf(r.engine.scheduler.cold_start, kSimColdStartWords),
       "one of the ways to compare, as graft serve's --tune cold-start"},
      {"host-adapters", Number(r.loader.host_adapters, AtLeast(0)),
       "adapters that a runner's host memory holds; 0: all of them"},
      {"fetch-ms", Number(o.fetch_ms, AtLeast(0)), "of an adapter that it does not hold"},
      {"fetch-times", Text(o.fetch_times),
       "a CSV with a column value or fetch_ms, of which each fetch's time is drawn instead"}};
}

std::vector<Option> TroubleRows(SimulateOptions& o) {
  SimClusterOptions& c = o.cluster;
  return {{"frontends", Number(c.num_frontends, Between(1, 1000)), "that place requests"},
          {"view-ms", Number(c.view_ms, AtLeast(0)),
           "how often a frontend looks at the runners, each at another time; 0: it knows at once"},
          {"fail-seconds", Number(c.failures.every_seconds, AtLeast(0)),
           "between failures of runners, on average; 0: none fails"},
          {"down-seconds", Number(c.failures.down_seconds, AtLeast(0)),
           "until a runner that failed is back, without adapters"},
          {"slowness", Number(c.failures.slowness, AtLeast(1)),
           "its steps take so many times as long then"},
          {"slow-seconds", Number(c.failures.slow_seconds, AtLeast(0)), "so long"}};
}

std::vector<Option> ScalingRows(SimulateOptions& o) {
  SimScalingOptions& s = o.cluster.scaling;
  return {{"scale", Switch(o.scales),
           "each placement runs once more with as many runners as are wanted, --runners at most"},
          {"runner-startup-seconds", Number(s.scale.startup_seconds, AtLeast(1)),
           "from a runner's order until it serves"},
          BatchShareOptionRow(s.scale.batch_share),
          {"consolidate", Boolean(s.consolidates),
           "a runner that is to go is emptied by computing its requests anew on others"}};
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
                     {"Runners that come and go", ScalingRows(*options)},
                     {"Trouble", TroubleRows(*options)},
                     {"Output",
                      {{"json", Text(options->json), "write the figures to this file, too"},
                       {"picture", Text(options->picture), "draw them to this file, as SVG"},
                       {"quiet", Switch(options->quiet), "no progress bars"}}}},
          .run = [options] { return RunSimulate(*options); },
          .environment_prefix = "GRAFT_SIMULATE_"};
}

}  // namespace graft
