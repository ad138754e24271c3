// graft-bench adapters: thousands of synthetic adapters on one model, the evaluations of S-LoRA and
// CaraServe as suites.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "base/log.h"
#include "bench/adapter_bench.h"
#include "bench/bench_commands.h"
#include "profile/report.h"

namespace graft {
namespace {

Status RunBenchAdapters(const AdapterBenchOptions& options) {
  RETURN_IF_ERROR(InitLog(options.runtime.log.level));
  const std::vector<AdapterSuite>& suites = AdapterSuites();
  const auto suite = std::find_if(suites.begin(), suites.end(), [&](const AdapterSuite& one) {
    return options.suite == one.name;
  });
  if (suite == suites.end()) {
    std::string names;
    for (const AdapterSuite& one : suites) {
      names += "\n  " + std::string(one.name) + ": " + one.what;
    }
    return InvalidArgumentError("--suite picks one of" + names);
  }
  AdapterBench bench(options);
  RETURN_IF_ERROR(bench.Prepare());
  std::printf(
      "%s: %s\n%d sources of each rank stand for all synthetic adapters; every load copies "
      "real bytes\n",
      suite->name, suite->what, options.fleet.sources_per_rank);
  OrderedJson json = bench.JsonHeader();
  ASSIGN_OR_RETURN(json["rows"], suite->run(bench));
  return WriteJson(options.json, json);
}

OptionGroup ServerOptionGroup(RuntimeOptions& o) {
  OptionGroup group{
      "Server",
      {ContextOptionRow(o.limits.context_tokens_max), SequencesOptionRow(o.limits.sequences_max),
       AdaptersMaxOptionRow(o.limits.adapters_max), PoolGibOptionRow(o.pool_gib),
       CpuAssistOptionRow(o.cpu_assist), TurnOptionRow(o.engine.scheduler.turn_ns)}};
  for (Option& row : ColdStartOptionRows(o.engine.scheduler.cold_start)) {
    group.options.push_back(std::move(row));
  }
  for (Option& row : StepOptionRows(o)) group.options.push_back(std::move(row));
  return group;
}

OptionGroup FleetOptionGroup(AdapterBenchOptions& o) {
  return {"Adapters",
          {{"ranks", Numbers(o.fleet.ranks, Between(1, kLoraRankMax)),
            "ranks of the adapters, in turn"},
           {"modules", OneOf(o.modules, kFleetModulesWords),
            "attention (q, k, v and o, as in the papers) or all seven"},
           {"sources-per-rank", Number(o.fleet.sources_per_rank, AtLeast(1)),
            "adapters of each rank that really exist; the others share their bytes"},
           {"adapters", Numbers(o.adapters, AtLeast(1)),
            "how many there are; counts that a suite goes through"},
           {"slots", Number(o.slots, AtLeast(0)),
            "adapters on the device in adapters-over-capacity, and cold in cold-starts; 0: "
            "--adapters-max"},
           {"alpha", Number(o.alpha, Above(0)),
            "skew of who is asked for, as S-LoRA's: 1 is uniform, less is more skewed"},
           {"zipf", Number(o.zipf, AtLeast(0)),
            "exponent of Zipf's law over who is asked for, instead of --alpha"},
           {"popularity", Text(o.popularity),
            "a file of recorded requests whose adapters are asked for as often, instead"}}};
}

OptionGroup LoadOptionGroup(AdapterBenchOptions& o) {
  return {
      "Load",
      {{"seconds", Number(o.seconds, Above(0)), "of one load"},
       {"warmup-seconds", Number(o.warmup_seconds, AtLeast(0)), "of them, not counted"},
       {"prompt-tokens", Numbers(o.prompt, AtLeast(1), 2),
        "the least and the most; uniform between them"},
       {"output-tokens", Numbers(o.output, AtLeast(1), 2), "likewise"},
       {"in-flight", Number(o.in_flight, AtLeast(0)),
        "requests at once where they come without end; 0: twice the batch"},
       {"load", Number(o.load, Above(0)),
        "request rate, as a share of the capacity measured first"},
       {.name = "loads",
        .target = Numbers(o.loads, Above(0)),
        .help = "request rates that cold-starts and slo go through, likewise",
        .default_help = "--load; slo: 0.5 to 1.1"},
       {.name = "rates",
        .target = Numbers(o.rates, Above(0)),
        .help = "requests a second that throughput-by-adapters goes through, Poisson",
        .default_help = "without end"},
       {"variations", Numbers(o.variations, AtLeast(0)),
        "coefficients of variation that slo goes through"},
       {"alphas", Numbers(o.alphas, Above(0)), "skews that slo goes through"},
       {"adapter-share", Number(o.adapter_share, Inside(0, 1)),
        "adapters' share of the static pool of throughput-by-adapters"},
       {"shares", Numbers(o.shares, Inside(0, 1)), "adapters' shares that pool goes through"},
       {"pools", SomeOf(o.pools, kPoolWords), "what throughput-by-adapters goes through"},
       {.name = "cold-starts",
        .target = SomeOf(o.ways, kColdStartWayWords),
        .help = "ways that cold-starts compares with cached, auto+cpu being auto with --cpu-assist",
        .default_help = "all but auto+cpu"},
       {"slo-ms", Number(o.slo_ms, Above(0)), "a first token's time limit"},
       {"trace", Texts(o.traces), "recorded arrivals for traces; may be repeated"},
       {"probes", Number(o.probes, AtLeast(1)), "loads of each rank in stall"}}};
}

}  // namespace

Command BenchAdaptersCommand() {
  const auto options = std::make_shared<AdapterBenchOptions>();  // lives as long as the command
  options->runtime.log.level = "warn";
  return {.name = "adapters",
          .help =
              "Serve thousands of synthetic adapters: S-LoRA's and CaraServe's evaluations.\n"
              "  graft-bench adapters --suite throughput-by-adapters --shape "
              "bench/shapes/llama-2-7b.json",
          .groups = {{"Suite",
                      {{"suite", Text(options->suite), "which; without it they are listed"},
                       {"seed", Number(options->fleet.seed), "of weights, requests and arrivals"},
                       JsonOptionRow(options->json)}},
                     {"Model", BenchModelOptionRows(options->shape, options->runtime)},
                     ServerOptionGroup(options->runtime),
                     FleetOptionGroup(*options),
                     LoadOptionGroup(*options)},
          .run = [options] { return RunBenchAdapters(*options); }};
}

}  // namespace graft
