#include "bench/adapter_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "bench/bench_workload.h"
#include "profile/report.h"
#include "runtime/progress.h"
#include "runtime/runtime.h"
#include "sim/simulated_workload.h"
#include "tensor/device.h"

namespace graft {
namespace {

Status CheckRange(const char* flag, const std::vector<int>& range) {
  if (range.size() == 2 && range[0] >= 1 && range[1] >= range[0]) return OkStatus();
  return InvalidArgumentError(std::string("--") + flag + " takes the least and the most: 8,512");
}

std::vector<LoraModule> ModulesOf(FleetModules modules) {
  if (modules == FleetModules::kAll) return {kAllLoraModules.begin(), kAllLoraModules.end()};
  return {LoraModule::kQ, LoraModule::kK, LoraModule::kV, LoraModule::kO};
}

// Gauges of a server while it serves, looked at every few milliseconds.
class Sampler {
 public:
  explicit Sampler(Runtime& runtime)
      : engine_(runtime.engine()),
        waste_(runtime.metrics().Gauge("graft_adapter_page_waste_ratio",
                                       "Share of the adapters' pages that holds no row")),
        num_pages_(runtime.limits().num_pages),
        thread_([this] { Run(); }) {}
  ~Sampler() { Stop(); }

  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void Report(LoadFigures* figures) const {
    const double n = std::max<double>(1.0, static_cast<double>(num_samples_));
    // The rounded mean of equal samples may lie above all of them.
    figures->waste_mean = std::min(waste_sum_ / n, waste_max_);
    figures->waste_max = waste_max_;
    figures->adapter_pages_mean = adapter_pages_sum_ / n;
    figures->free_pages_mean = free_pages_sum_ / n;
  }

 private:
  void Run() {
    while (!stop_) {
      const EngineSnapshot now = engine_.Snapshot();
      const double waste = waste_.Value();
      waste_sum_ += waste;
      waste_max_ = std::max(waste_max_, waste);
      adapter_pages_sum_ += static_cast<double>(now.pages_adapters) / num_pages_;
      free_pages_sum_ += static_cast<double>(now.pages_free + now.pages_cached) / num_pages_;
      ++num_samples_;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  Engine& engine_;
  prometheus::Gauge& waste_;
  const double num_pages_;
  double waste_sum_ = 0.0, waste_max_ = 0.0, adapter_pages_sum_ = 0.0, free_pages_sum_ = 0.0;
  int64_t num_samples_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last: it uses the others
};

// One full context must fit into what is left to KV.
Status SplitPool(Runtime& server, double adapter_share) {
  const ExecutorLimits& limits = server.limits();
  const int32_t adapter_pages = std::max(1, static_cast<int32_t>(limits.num_pages * adapter_share));
  const int64_t kv_pages = limits.num_pages - adapter_pages;
  if (kv_pages < PagesPerContext(limits)) {
    return ResourceExhaustedError(
        "a static pool would hold " + std::to_string(kv_pages) + " pages beside the adapters' " +
        std::to_string(adapter_pages) + ", one full context needs " +
        std::to_string(PagesPerContext(limits)) + "; raise --pool-gib or lower the share");
  }
  server.engine().SplitPool(adapter_pages);
  return OkStatus();
}

// Counts what ended, and keeps the latencies of requests due in [begin, end).
void Collect(const OpenLoadResult& result, bool is_closed, double begin, double end,
             LoadFigures* figures) {
  int64_t num_ended = 0;
  for (const OpenLoadTiming& timing : result.requests) {
    if (!timing.status.ok()) {
      if (figures->num_failed++ == 0) figures->failure = timing.status.ToString();
    }
    num_ended += timing.end_seconds >= begin && timing.end_seconds < end;
    if (timing.due_seconds < begin || timing.due_seconds >= end) continue;
    if (timing.first_token_seconds >= 0.0) {
      figures->first_token_ms.push_back(timing.first_token_ms());
    } else {
      figures->first_token_ms.push_back(is_closed ? (end - timing.due_seconds) * 1e3 : kNeverMs);
    }
    if (timing.end_seconds < 0.0) continue;
    if (timing.output_tokens > 1) figures->token_ms.push_back(timing.token_ms());
    figures->total_ms.push_back(timing.total_ms());
  }
  const auto tokens = std::count_if(result.token_seconds.begin(), result.token_seconds.end(),
                                    [&](double at) { return at >= begin && at < end; });
  figures->requests_per_second = static_cast<double>(num_ended) / (end - begin);
  figures->tokens_per_second = static_cast<double>(tokens) / (end - begin);
  figures->num_requests = static_cast<int64_t>(result.requests.size());
  figures->seconds = result.seconds;
}

}  // namespace

EngineSnapshot Difference(const EngineSnapshot& before, EngineSnapshot after) {
  after.steps -= before.steps;
  after.executor_ns -= before.executor_ns;
  after.overhead_ns -= before.overhead_ns;
  after.gap_ns -= before.gap_ns;
  after.steps_ahead -= before.steps_ahead;
  after.rows -= before.rows;
  after.prompt_tokens -= before.prompt_tokens;
  after.output_tokens -= before.output_tokens;
  after.preemptions -= before.preemptions;
  after.mixed_steps -= before.mixed_steps;
  after.prompt_steps -= before.prompt_steps;
  after.prompt_iteration_ns -= before.prompt_iteration_ns;
  after.decode_iteration_ns -= before.decode_iteration_ns;
  after.adapter_fetches -= before.adapter_fetches;
  after.adapter_copies -= before.adapter_copies;
  after.adapter_evictions -= before.adapter_evictions;
  after.adapter_failures -= before.adapter_failures;
  after.layerwise_starts -= before.layerwise_starts;
  after.cpu_assist_starts -= before.cpu_assist_starts;
  after.join_later_starts -= before.join_later_starts;
  after.steps_with_arrivals -= before.steps_with_arrivals;
  after.turns -= before.turns;
  return after;
}

OrderedJson ToJson(const Percentiles& percentiles) {
  return {{"mean", percentiles.mean},
          {"p50", percentiles.p50},
          {"p90", percentiles.p90},
          {"p99", percentiles.p99}};
}

OrderedJson ToJson(const LoadFigures& f, double slo_ms) {
  const auto latency = [](const std::vector<double>& values) {
    return ToJson(ComputePercentiles(values));
  };
  return {{"requests_per_second", f.requests_per_second},
          {"tokens_per_second", f.tokens_per_second},
          {"requests", f.num_requests},
          {"failed", f.num_failed},
          {"first_token_ms", latency(f.first_token_ms)},
          {"token_ms", latency(f.token_ms)},
          {"total_ms", latency(f.total_ms)},
          {"slo_attainment", SloAttainment(f.first_token_ms, slo_ms)},
          {"user_satisfaction", UserSatisfaction(f.first_token_ms, slo_ms)},
          {"rows_per_step", f.batch},
          {"steps", f.counts.steps},
          {"prompt_steps", f.counts.prompt_steps},
          {"prompt_iteration_ms", f.prompt_iteration_ms()},
          {"decode_iteration_ms", f.decode_iteration_ms()},
          {"gap_share", f.gap_share},
          {"adapter_copies", f.counts.adapter_copies},
          {"adapter_evictions", f.counts.adapter_evictions},
          {"copies_per_request", f.copies_per_request()},
          {"layerwise_starts", f.counts.layerwise_starts},
          {"cpu_assist_starts", f.counts.cpu_assist_starts},
          {"join_later_starts", f.counts.join_later_starts},
          {"steps_with_arrivals", f.counts.steps_with_arrivals},
          {"turns", f.counts.turns},
          {"preemptions", f.counts.preemptions},
          {"adapters_resident", f.counts.adapters_resident},
          {"waste_mean", f.waste_mean},
          {"waste_max", f.waste_max},
          {"adapter_pages_share", f.adapter_pages_mean},
          {"free_pages_share", f.free_pages_mean},
          {"seconds", f.seconds}};
}

Status AdapterBench::Prepare() {
  const AdapterBenchOptions& o = options_;
  RETURN_IF_ERROR(CheckRange("prompt-tokens", o.prompt));
  RETURN_IF_ERROR(CheckRange("output-tokens", o.output));
  if (o.seconds <= o.warmup_seconds) {
    return InvalidArgumentError("--seconds must exceed --warmup-seconds");
  }
  ASSIGN_OR_RETURN(model_, LoadBenchModel(o.runtime, o.shape));
  return OkStatus();
}

Result<std::vector<double>> AdapterBench::PopularityOf(int32_t num_adapters) const {
  const AdapterBenchOptions& o = options_;
  if (o.popularity.empty()) {
    return o.zipf > 0.0 ? ZipfWeights(num_adapters, o.zipf)
                        : PowerLawWeights(num_adapters, o.alpha);
  }
  ASSIGN_OR_RETURN(std::vector<double> weights, ReadPopularity(o.popularity));
  weights.resize(std::min(weights.size(), static_cast<size_t>(num_adapters)));
  return weights;
}

SyntheticFleet AdapterBench::Fleet(int32_t num_adapters) const {
  SyntheticFleet fleet = options_.fleet;
  fleet.num_adapters = num_adapters;
  fleet.modules = ModulesOf(options_.modules);
  return fleet;
}

RuntimeOptions AdapterBench::ServerOptions() const {
  RuntimeOptions runtime = options_.runtime;
  runtime.adapters.clear();
  runtime.engine.scheduler.prefix_cache = false;  // random prompts share nothing
  runtime.engine.requests_max = 1 << 16;
  return runtime;
}

Result<std::unique_ptr<Runtime>> AdapterBench::Start(RuntimeOptions runtime,
                                                     const SyntheticFleet& fleet,
                                                     double adapter_share) {
  const ServedTypes& types = model_->weights.types;
  runtime.adapters_listed_max = fleet.num_adapters;
  runtime.host_gib =
      static_cast<double>(SyntheticBackend::HostBytes(fleet, model_->config, types.adapters) +
                          (int64_t{64} << 20)) /
      (int64_t{1} << 30);
  const auto make_backend = [&](HostStore& store) -> Result<std::unique_ptr<PeftBackend>> {
    ASSIGN_OR_RETURN(
        std::unique_ptr<SyntheticBackend> backend,
        SyntheticBackend::Create(fleet, model_->config, types, *model_->threads, store));
    return std::unique_ptr<PeftBackend>(std::move(backend));
  };
  ASSIGN_OR_RETURN(std::unique_ptr<Runtime> server,
                   Runtime::Create(runtime, *model_, /*lora=*/true, make_backend));
  if (adapter_share > 0.0) RETURN_IF_ERROR(SplitPool(*server, adapter_share));
  std::vector<std::string> hashes;
  for (int32_t i = 0; i < fleet.num_adapters; ++i) hashes.push_back(SyntheticFleet::HashOf(i));
  RETURN_IF_ERROR(server->ListSynthetic(hashes));
  if (!model_->device.is_cpu()) {
    ProgressBar bar("recording decode graphs", /*quiet=*/false);
    server->executor().RecordGraphs(
        [&bar](int64_t done, int64_t total) { bar.Update(done, total); },
        *std::max_element(fleet.ranks.begin(), fleet.ranks.end()));
  }
  server->engine().Start();
  return server;
}

std::vector<LoadRequest> AdapterBench::MakeRequests(const Workload& workload,
                                                    const Runtime& runtime) const {
  // More than any closed loop gets through.
  constexpr double kClosedLoopRequestsPerSecond = 2000.0;
  const AdapterBenchOptions& o = options_;
  Random arrival_random(o.fleet.seed + 1);
  Random adapter_random(o.fleet.seed + 2);
  Random length_random(o.fleet.seed + 3);
  Random token_random(o.fleet.seed + 4);
  std::vector<TraceRequest> shape = workload.trace;
  if (shape.empty()) {
    std::vector<double> arrivals(
        static_cast<size_t>(kClosedLoopRequestsPerSecond * workload.seconds));
    if (workload.requests_per_second > 0.0) {
      arrivals = GammaArrivals(workload.requests_per_second, workload.variation, workload.seconds,
                               arrival_random);
    }
    for (const double arrival : arrivals) shape.push_back({.arrival_seconds = arrival});
  }
  const auto between = [&](const std::vector<int>& range) {
    return range[0] + static_cast<int32_t>(length_random.Below(range[1] - range[0] + 1));
  };
  const WeightedPicker picker(workload.popularity);
  const int32_t context = runtime.limits().context_tokens_max;
  std::vector<LoadRequest> requests;
  for (const TraceRequest& from : shape) {
    LoadRequest& request = requests.emplace_back();
    if (workload.requests_per_second > 0.0) request.arrival_seconds = from.arrival_seconds;
    const int32_t prompt = from.prompt_tokens > 0 ? from.prompt_tokens : between(o.prompt);
    const int32_t output = from.output_tokens > 0 ? from.output_tokens : between(o.output);
    request.output_tokens = std::min(output, context / 2);
    request.prompt_tokens.resize(
        static_cast<size_t>(std::min(prompt, context - request.output_tokens)));
    for (int32_t& token : request.prompt_tokens) {
      token = static_cast<int32_t>(token_random.Below(model_->config.vocab_size));
    }
    const auto num_adapters = static_cast<int32_t>(workload.popularity.size());
    const int32_t picked = picker.Pick(adapter_random);
    request.adapter_hash =
        SyntheticFleet::HashOf(from.adapter >= 0 ? from.adapter % num_adapters : picked);
  }
  return requests;
}

Result<LoadFigures> AdapterBench::Serve(Runtime& runtime, const Workload& workload) const {
  const bool is_closed = workload.requests_per_second == 0.0;
  const std::vector<LoadRequest> requests = MakeRequests(workload, runtime);
  OpenLoadOptions load;
  if (is_closed) {
    load.in_flight_max =
        options_.in_flight > 0 ? options_.in_flight : 2 * runtime.limits().sequences_max;
    load.stop_seconds = workload.seconds;
  }
  LoadFigures figures;
  const EngineSnapshot before = runtime.engine().Snapshot();
  Sampler sampler(runtime);
  const OpenLoadResult result = RunOpenLoad(runtime.engine(), requests, load);
  sampler.Stop();
  sampler.Report(&figures);
  figures.counts = Difference(before, runtime.engine().Snapshot());
  Collect(result, is_closed, options_.warmup_seconds, workload.seconds, &figures);
  const auto steps = static_cast<double>(std::max<int64_t>(figures.counts.steps, 1));
  figures.batch = static_cast<double>(figures.counts.rows) / steps;
  figures.gap_share = NsToSeconds(figures.counts.gap_ns) / figures.seconds;
  if (figures.num_failed > 0) {
    return InternalError(std::to_string(figures.num_failed) + " requests failed, the first with " +
                         figures.failure);
  }
  if (is_closed ? figures.tokens_per_second == 0.0 : figures.total_ms.empty()) {
    return FailedPreconditionError(
        "no request that came after the warm-up was answered within the counted time; give more "
        "--seconds");
  }
  return figures;
}

void AdapterBench::PrintLine(const std::string& label, const LoadFigures& f) {
  if (!std::exchange(printed_header_, true)) {
    std::printf("%-34s %7s %8s %6s %8s %8s %8s %7s %7s %8s %8s %6s %6s %6s %6s\n", "", "req/s",
                "tok/s", "rows", "first ms", "p50", "p99", "tok ms", "p99", "total ms", "p99",
                "loads", "turns", "preem", "gap %");
  }
  const Percentiles first = ComputePercentiles(f.first_token_ms);
  const Percentiles token = ComputePercentiles(f.token_ms);
  const Percentiles total = ComputePercentiles(f.total_ms);
  std::printf(
      "%-34s %7.2f %8.0f %6.1f %8.1f %8.1f %8.1f %7.2f %7.2f %8.0f %8.0f %6lld %6lld %6lld %6.2f\n",
      label.c_str(), f.requests_per_second, f.tokens_per_second, f.batch, first.mean, first.p50,
      first.p99, token.mean, token.p99, total.mean, total.p99,
      static_cast<long long>(f.counts.adapter_copies), static_cast<long long>(f.counts.turns),
      static_cast<long long>(f.counts.preemptions), 100.0 * f.gap_share);
  std::fflush(stdout);
}

OrderedJson AdapterBench::JsonHeader() const {
  const AdapterBenchOptions& o = options_;
  return {{"machine", DescribeMachine()},
          {"device", DescribeDevice(model_->device)},
          {"shape", BenchModelName(o.runtime, o.shape)},
          {"dtype", std::string(DTypeName(model_->weights.types.operands))},
          {"suite", o.suite},
          {"modules", WordOf(o.modules, kFleetModulesWords)},
          {"ranks", o.fleet.ranks},
          {"sources_per_rank", o.fleet.sources_per_rank},
          {"sequences_max", o.runtime.limits.sequences_max},
          {"step_tokens_max", StepTokensMax(o.runtime, model_->device)},
          {"pool_gib", o.runtime.pool_gib},
          {"cold_start", WordOf(o.runtime.engine.scheduler.cold_start, kColdStartWords)},
          {"lora", WordOf(o.runtime.lora, kLoraTimingWords)},
          {"prompt_tokens", o.prompt},
          {"output_tokens", o.output},
          {"in_flight", o.in_flight},
          {"alpha", o.alpha},
          {"zipf", o.zipf},
          {"seconds", o.seconds},
          {"warmup_seconds", o.warmup_seconds},
          {"slo_ms", o.slo_ms},
          {"seed", o.fleet.seed}};
}

}  // namespace graft
