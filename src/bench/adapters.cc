// graft bench adapters: thousands of synthetic adapters on one model, the evaluations of S-LoRA and
// CaraServe as suites.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "base/log.h"
#include "bench/adapter_bench.h"
#include "bench/commands.h"
#include "bench/report.h"
#include "options/config_file.h"

namespace graft {
namespace {

Status RunBenchAdapters(const AdapterBenchOptions& options) {
  RETURN_IF_ERROR(InitLog(options.runtime.log_level));
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
      suite->name, suite->what, options.sources_per_rank);
  OrderedJson json = bench.JsonHeader();
  ASSIGN_OR_RETURN(json["rows"], suite->run(bench));
  return WriteJson(options.json, json);
}

void AddServerOptions(CLI::App& command, RuntimeOptions& runtime) {
  AddModelOptions(command, runtime);
  command.add_option("--context-tokens-max", runtime.context_tokens_max, "0: the model's")
      ->capture_default_str();
  command.add_option("--sequences-max", runtime.sequences_max, "sequences in one batch")
      ->capture_default_str();
  command.add_option("--adapters-max", runtime.adapters_max, "adapters on the device at once")
      ->capture_default_str();
  command.add_option("--pool-gib", runtime.pool_gib, "GiB of KV and adapters; 0: what there is")
      ->capture_default_str();
  command.add_option("--adapter-share", runtime.adapter_share, "adapters' share of a static pool")
      ->capture_default_str();
  command.add_option("--cold-start", runtime.cold_start, "of all suites but cold-starts and stall")
      ->capture_default_str();
  command
      .add_option("--cpu-assist", runtime.cpu_assist,
                  "thread or process: where the CPU computes under cpu-assist [thread] and auto "
                  "[nowhere]")
      ->check(CLI::IsMember({"thread", "process"}));
  command
      .add_option("--turn-ms", runtime.turn_ms,
                  "how long younger requests run ahead of one whose adapter finds no room")
      ->capture_default_str();
  AddStepOptions(command, runtime);
}

void AddFleetOptions(CLI::App& command, AdapterBenchOptions& options) {
  command.add_option("--ranks", options.ranks, "ranks of the adapters, in turn")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--modules", options.modules,
                  "attention (q, k, v and o, as in the papers) or all seven")
      ->capture_default_str();
  command
      .add_option("--sources-per-rank", options.sources_per_rank,
                  "adapters of each rank that really exist; the others share their bytes")
      ->capture_default_str();
  command
      .add_option("--adapters", options.adapters,
                  "how many there are; counts that a suite goes through")
      ->delimiter(',');
  command
      .add_option("--slots", options.slots,
                  "adapters on the device in adapters-over-capacity, and cold in cold-starts; 0: "
                  "--adapters-max")
      ->capture_default_str();
  command
      .add_option("--alpha", options.alpha,
                  "skew of who is asked for, as S-LoRA's: 1 is uniform, less is more skewed")
      ->capture_default_str();
  command
      .add_option("--zipf", options.zipf,
                  "exponent of Zipf's law over who is asked for, instead of --alpha")
      ->capture_default_str();
  command.add_option("--popularity", options.popularity,
                     "a file of recorded requests whose adapters are asked for as often, instead");
}

void AddLoadOptions(CLI::App& command, AdapterBenchOptions& options) {
  const auto list = [&command](const char* flag, std::vector<double>& values, const char* what) {
    command.add_option(flag, values, what)->delimiter(',')->capture_default_str();
  };
  command.add_option("--seconds", options.seconds, "of one load")->capture_default_str();
  command.add_option("--warmup-seconds", options.warmup_seconds, "of them, not counted")
      ->capture_default_str();
  command
      .add_option("--prompt-tokens", options.prompt, "the least and the most; uniform between them")
      ->delimiter(',')
      ->expected(2)
      ->capture_default_str();
  command.add_option("--output-tokens", options.output, "likewise")
      ->delimiter(',')
      ->expected(2)
      ->capture_default_str();
  command
      .add_option("--in-flight", options.in_flight,
                  "requests at once where they come without end; 0: twice the batch")
      ->capture_default_str();
  command
      .add_option("--load", options.load, "request rate, as a share of the capacity measured first")
      ->capture_default_str();
  list(
      "--loads", options.loads,
      "request rates that cold-starts and slo go through, likewise; none: --load; slo: 0.5 to 1.1");
  list("--rates", options.rates,
       "requests a second that throughput-by-adapters goes through, Poisson; none: without end");
  list("--variations", options.variations, "coefficients of variation that slo goes through");
  list("--alphas", options.alphas, "skews that slo goes through");
  list("--shares", options.shares, "adapters' shares that pool goes through");
  command
      .add_option("--pools", options.pools,
                  "shared and static: throughput-by-adapters goes through")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--cold-starts", options.ways,
                  "ways that cold-starts compares with cached, auto+cpu being auto with "
                  "--cpu-assist; none: all but it")
      ->delimiter(',');
  command.add_option("--slo-ms", options.slo_ms, "a first token's time limit")
      ->capture_default_str();
  command.add_option("--trace", options.traces, "recorded arrivals for traces; may be repeated");
  command.add_option("--probes", options.probes, "loads of each rank in stall")
      ->capture_default_str();
}

}  // namespace

void AddBenchAdaptersCommand(CLI::App& bench, CommandRun& run) {
  CLI::App* command = bench.add_subcommand(
      "adapters",
      "Serve thousands of synthetic adapters: S-LoRA's and CaraServe's evaluations.\n"
      "  graft bench adapters --suite throughput-by-adapters --shape bench/shapes/llama-2-7b.json");
  auto options = std::make_shared<AdapterBenchOptions>();  // lives as long as the parser and `run`
  options->runtime.log_level = "warn";
  command->add_option("--suite", options->suite, "which; none: lists them");
  command->add_option("--shape", options->shape,
                      "an HF config.json to fill with random weights, instead of --model");
  AddServerOptions(*command, options->runtime);
  AddFleetOptions(*command, *options);
  AddLoadOptions(*command, *options);
  command->add_option("--seed", options->seed, "of weights, requests and arrivals")
      ->capture_default_str();
  command->add_option("--json", options->json, "write the figures to this file, too");
  AddConfigOptions(*command);
  command->callback([options, &run] { run = [options] { return RunBenchAdapters(*options); }; });
}

}  // namespace graft
