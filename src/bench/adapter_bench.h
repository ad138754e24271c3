// What the suites of `graft-bench adapters` share: one model, servers of synthetic adapters on it
// one after the other, workloads, and the figures of a served load. Main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "bench/open_load.h"
#include "bench/synthetic_backend.h"
#include "runtime/runtime.h"
#include "sim/simulation_report.h"
#include "sim/trace.h"

namespace graft {

enum class FleetModules : uint8_t {
  kAttention,  // q, k, v and o, as in the papers
  kAll,
};
inline constexpr OptionWord<FleetModules> kFleetModulesWords[] = {
    {FleetModules::kAttention, "attention"}, {FleetModules::kAll, "all"}};

// A cold start to compare with others.
struct ColdStartWay {
  ColdStart cold_start = ColdStart::kAuto;
  bool with_cpu = false;  // kAuto with the CPU assist

  bool operator==(const ColdStartWay&) const = default;
};
inline constexpr OptionWord<ColdStartWay> kColdStartWayWords[] = {
    {{ColdStart::kBlocking}, "blocking"},   {{ColdStart::kJoinLater}, "join-later"},
    {{ColdStart::kLayerwise}, "layerwise"}, {{ColdStart::kCpuAssist}, "cpu-assist"},
    {{ColdStart::kAuto}, "auto"},           {{ColdStart::kAuto, true}, "auto+cpu"},
    {{ColdStart::kCached}, "cached"}};

enum class PoolKind : uint8_t {
  kShared,
  kStatic,  // adapters and KV each have their own pages: Engine::SplitPool
};
inline constexpr OptionWord<PoolKind> kPoolWords[] = {{PoolKind::kShared, "shared"},
                                                      {PoolKind::kStatic, "static"}};

struct AdapterBenchOptions {
  RuntimeOptions runtime;
  std::string shape;  // HF config.json with random weights, instead of --model
  std::string suite;
  std::string json;
  FleetModules modules = FleetModules::kAttention;
  SyntheticFleet fleet = {.ranks = {8, 16, 32, 64}};  // of as many adapters as a suite has
  std::vector<int> adapters;                          // counts that a suite goes through
  int slots = 32;                      // adapters on the device where they shall not all fit; 0:
                                       // as many as a server takes
  int in_flight = 0;                   // requests of a closed loop; 0: twice the batch
  std::vector<int> prompt = {8, 512};  // tokens, uniform between the two
  std::vector<int> output = {8, 512};
  double seconds = 10.0;
  double warmup_seconds = 3.0;                    // not counted
  double alpha = 1.0;                             // of the popularity's power law; 1: uniform
  double zipf = 0.0;                              // exponent of Zipf's law, instead; 0: alpha's
  double load = 0.7;                              // of the capacity measured first
  std::vector<double> loads;                      // of the capacity, that a suite goes through
  std::vector<double> rates;                      // requests/s that throughput-by-adapters does
  std::vector<double> variations = {1, 2, 4, 8};  // of gaps between arrivals
  std::vector<double> alphas = {0.1, 0.3, 0.6, 1.0};
  double adapter_share = 0.25;                     // of throughput-by-adapters' static pool
  std::vector<double> shares = {0.25, 0.5, 0.75};  // of a static pool that are adapters'
  std::vector<ColdStartWay> ways;  // cold starts beside cached; none: all but auto with the CPU
  double slo_ms = 6000.0;
  std::vector<PoolKind> pools = {PoolKind::kShared,
                                 PoolKind::kStatic};  // of throughput-by-adapters
  std::vector<std::string> traces;
  std::string popularity;  // a file with adapters' popularity; "" for uniform
  int probes = 20;
};

// Which requests come, for which adapters, and when.
struct Workload {
  std::vector<double> popularity;    // of the adapters, one weight each
  double requests_per_second = 0.0;  // 0: a closed loop
  double variation = 1.0;            // of the gaps
  double seconds = 0.0;
  std::vector<TraceRequest> trace;  // lengths as recorded, and in an open loop arrivals
};

// The figures of a served load. Latencies are those of requests that were due after the warm-up;
// the end of a closed loop cuts requests off, and a wait that it cuts counts as long as it was.
struct LoadFigures {
  double requests_per_second = 0.0;  // that came to their end
  double tokens_per_second = 0.0;    // of output
  std::vector<double> first_token_ms, token_ms, total_ms;
  int64_t num_requests = 0;
  int64_t num_failed = 0;
  std::string failure;      // why the first one did
  double batch = 0.0;       // rows of a step
  double gap_share = 0.0;   // of the time, in which a GPU waited for the host
  double waste_mean = 0.0;  // share of the adapters' pages that held no row
  double waste_max = 0.0;
  double adapter_pages_mean = 0.0;  // share of the pool's pages
  double free_pages_mean = 0.0;
  EngineSnapshot counts;  // steps, copies, ... of this load alone
  double seconds = 0.0;

  double copies_per_request() const {
    return static_cast<double>(counts.adapter_copies) /
           static_cast<double>(std::max<int64_t>(1, num_requests));
  }
  // Means, as the running requests saw them: of steps with rows of a prompt, and of the others.
  double prompt_iteration_ms() const {
    return NsToSeconds(counts.prompt_iteration_ns) * 1e3 /
           static_cast<double>(std::max<int64_t>(1, counts.prompt_steps));
  }
  double decode_iteration_ms() const {
    return NsToSeconds(counts.decode_iteration_ns) * 1e3 /
           static_cast<double>(std::max<int64_t>(1, counts.steps - counts.prompt_steps));
  }
};

// The difference of two snapshots.
EngineSnapshot Difference(const EngineSnapshot& before, EngineSnapshot after);

OrderedJson ToJson(const Percentiles& percentiles);
OrderedJson ToJson(const LoadFigures& figures, double slo_ms);

class AdapterBench {
 public:
  explicit AdapterBench(const AdapterBenchOptions& options) : options_(options) {}

  // Loads the model; checks the options.
  Status Prepare();

  const AdapterBenchOptions& options() const { return options_; }
  LoadedModel& model() { return *model_; }
  // The counts of adapters asked for, or what the suite goes through by itself.
  std::vector<int> CountsOr(std::vector<int> counts) const {
    return options_.adapters.empty() ? counts : options_.adapters;
  }
  int num_slots() const {
    return options_.slots > 0 ? options_.slots : options_.runtime.limits.adapters_max;
  }
  // How often each of so many adapters is asked for, by the options' law or file.
  Result<std::vector<double>> PopularityOf(int32_t num_adapters) const;
  SyntheticFleet Fleet(int32_t num_adapters) const;
  // A server of so many adapters, running. One at a time: each takes the pool's memory.
  // `adapter_share`: of the pages, which are adapters' alone, the others KV's; 0: one pool.
  Result<std::unique_ptr<Runtime>> Start(RuntimeOptions runtime, const SyntheticFleet& fleet,
                                         double adapter_share = 0.0);
  // The options that every server has in common.
  RuntimeOptions ServerOptions() const;
  std::vector<LoadRequest> MakeRequests(const Workload& workload, const Runtime& runtime) const;
  Result<LoadFigures> Serve(Runtime& runtime, const Workload& workload) const;

  // One line per load, under a header for the first.
  void PrintLine(const std::string& label, const LoadFigures& figures);
  // What every suite's JSON begins with.
  OrderedJson JsonHeader() const;

 private:
  const AdapterBenchOptions options_;
  std::unique_ptr<LoadedModel> model_;
  bool printed_header_ = false;
};

// The suites, by the names of --suite; each prints its table and returns its JSON's rows.
struct AdapterSuite {
  const char* name;
  const char* what;
  Result<OrderedJson> (*run)(AdapterBench& bench);
};
const std::vector<AdapterSuite>& AdapterSuites();

}  // namespace graft
