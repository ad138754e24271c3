// The suites of `graft-bench adapters`: S-LoRA's and CaraServe's evaluations on this machine. What
// each shows stands in docs/benchmarks.md.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include "bench/adapter_bench.h"
#include "bench/adapter_cold_starts.h"
#include "bench/adapter_first_use.h"
#include "bench/adapter_stall.h"
#include "bench/bench_workload.h"
#include "profile/report.h"
#include "sim/simulated_workload.h"

namespace graft {
namespace {

// Serves more and more adapters, each number at `rate` requests a second or, for 0, without end.
Status ServeCounts(AdapterBench& bench, Runtime& server, const std::vector<int>& counts,
                   PoolKind pool, double rate, OrderedJson* rows) {
  double first = 0.0;
  for (const int count : counts) {
    Workload workload = {.requests_per_second = rate, .seconds = bench.options().seconds};
    ASSIGN_OR_RETURN(workload.popularity, bench.PopularityOf(count));
    ASSIGN_OR_RETURN(const LoadFigures figures, bench.Serve(server, workload));
    if (first == 0.0) first = figures.tokens_per_second;
    const double over_first = figures.tokens_per_second / first;
    bench.PrintLine(std::to_string(count) + " adapters, " + WordOf(pool, kPoolWords) +
                        (rate > 0.0 ? Text(", %.4g/s", rate) : "") + Text(" (%.3f)", over_first),
                    figures);
    OrderedJson row = ToJson(figures, bench.options().slo_ms);
    row["pool"] = WordOf(pool, kPoolWords);
    row["adapters"] = count;
    row["requests_per_second_asked"] = rate;
    row["over_first"] = over_first;
    rows->push_back(std::move(row));
  }
  return OkStatus();
}

// S-LoRA's Table 4 and Figure 6, out of one pool and out of two (no-unified-memory).
Result<OrderedJson> RunThroughput(AdapterBench& bench) {
  const std::vector<int> counts = bench.CountsOr({5, 20, 100, 200, 1000, 2000, 10000});
  const std::vector<double>& asked = bench.options().rates;
  const std::vector<double> rates = asked.empty() ? std::vector<double>{0.0} : asked;
  OrderedJson rows = OrderedJson::array();
  for (const PoolKind pool : bench.options().pools) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> server,
                     bench.Start(bench.ServerOptions(),
                                 bench.Fleet(*std::max_element(counts.begin(), counts.end())),
                                 pool == PoolKind::kStatic ? bench.options().adapter_share : 0.0));
    for (const double rate : rates) {
      RETURN_IF_ERROR(ServeCounts(bench, *server, counts, pool, rate, &rows));
    }
  }
  return rows;
}

// Up to 16 times as many adapters as there are slots: throughput without end, and the wait for the
// first token at a share of what the server can do when all fit.
Result<OrderedJson> RunOverCapacity(AdapterBench& bench) {
  const AdapterBenchOptions& o = bench.options();
  const int slots = bench.num_slots();
  std::vector<int> counts = bench.CountsOr({slots, 8 * slots, 16 * slots});
  // First as many as fit: what the others are compared with.
  std::ranges::sort(counts);
  const auto more = std::ranges::upper_bound(counts, slots);
  if (more != counts.begin()) std::rotate(counts.begin(), more - 1, more);
  RuntimeOptions options = bench.ServerOptions();
  options.limits.adapters_max = slots;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Runtime> server,
      bench.Start(options, bench.Fleet(*std::max_element(counts.begin(), counts.end()))));
  OrderedJson rows = OrderedJson::array();
  LoadFigures all_fit;
  for (const bool closed : {true, false}) {
    for (const int count : counts) {
      Workload workload = {.seconds = o.seconds};
      ASSIGN_OR_RETURN(workload.popularity, bench.PopularityOf(count));
      if (!closed) workload.requests_per_second = o.load * all_fit.requests_per_second;
      ASSIGN_OR_RETURN(LoadFigures figures, bench.Serve(*server, workload));
      OrderedJson row = ToJson(figures, o.slo_ms);
      row["adapters"] = count;
      row["slots"] = slots;
      row["turn_ms"] = o.runtime.engine.scheduler.turn_ns / kMsInNs;
      row["requests_per_second_asked"] = workload.requests_per_second;
      if (closed && count == counts.front()) all_fit = figures;
      const double ratio = figures.tokens_per_second / all_fit.tokens_per_second;
      if (closed) row["over_all_fit"] = ratio;
      bench.PrintLine(
          std::to_string(count) + " adapters, " + std::to_string(slots) + " slots" +
              (closed ? Text(" (%.3f)", ratio) : Text(", %.1f/s", workload.requests_per_second)),
          figures);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// What a pool gives to a load that needs KV and few adapters, and to one that needs many.
struct PoolFigures {
  std::vector<double> tokens_per_second;
  // The rate if each load had as many tokens.
  double combined() const {
    double seconds = 0.0;
    for (const double rate : tokens_per_second) seconds += 1.0 / rate;
    return static_cast<double>(tokens_per_second.size()) / seconds;
  }
};

Result<PoolFigures> ServePool(AdapterBench& bench, double share, const std::vector<int>& counts,
                              OrderedJson* rows) {
  const PoolKind kind = share == 0.0 ? PoolKind::kShared : PoolKind::kStatic;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Runtime> server,
      bench.Start(bench.ServerOptions(),
                  bench.Fleet(*std::max_element(counts.begin(), counts.end())), share));
  PoolFigures pool;
  for (const int count : counts) {
    Workload workload = {.seconds = bench.options().seconds};
    ASSIGN_OR_RETURN(workload.popularity, bench.PopularityOf(count));
    ASSIGN_OR_RETURN(const LoadFigures figures, bench.Serve(*server, workload));
    pool.tokens_per_second.push_back(figures.tokens_per_second);
    bench.PrintLine(std::to_string(count) + " adapters, " + WordOf(kind, kPoolWords) +
                        (share == 0.0 ? "" : Text(", %.2f of it theirs", share)),
                    figures);
    std::printf(
        "    adapters hold %.1f %% of the pool, %.1f %% is free; waste %.2f %%, %.2f %% at most\n",
        100.0 * figures.adapter_pages_mean, 100.0 * figures.free_pages_mean,
        100.0 * figures.waste_mean, 100.0 * figures.waste_max);
    OrderedJson row = ToJson(figures, bench.options().slo_ms);
    row["pool"] = WordOf(kind, kPoolWords);
    row["adapter_share"] = share;
    row["adapters"] = count;
    rows->push_back(std::move(row));
  }
  return pool;
}

// One pool against two of the same memory in all, where KV is short: a few adapters, then many. A
// static split that suits one of the loads does not suit the other.
Result<OrderedJson> RunPool(AdapterBench& bench) {
  const std::vector<int> counts = bench.CountsOr({5, 200});
  OrderedJson rows = OrderedJson::array();
  ASSIGN_OR_RETURN(const PoolFigures shared, ServePool(bench, 0.0, counts, &rows));
  for (const double share : bench.options().shares) {
    const size_t first = rows.size();
    ASSIGN_OR_RETURN(const PoolFigures split, ServePool(bench, share, counts, &rows));
    std::printf("    shared over static:");
    for (size_t i = 0; i < counts.size(); ++i) {
      const double ratio = shared.tokens_per_second[i] / split.tokens_per_second[i];
      rows[first + i]["shared_over_this"] = ratio;
      rows[first + i]["shared_over_this_combined"] = shared.combined() / split.combined();
      std::printf(" %.3f with %d adapters,", ratio, counts[i]);
    }
    std::printf(" %.3f over both\n", shared.combined() / split.combined());
  }
  return rows;
}

// Serves one point of the SLO suite and notes it.
Status ServePoint(AdapterBench& bench, Runtime& server, const Workload& workload,
                  const std::string& varied, OrderedJson value, OrderedJson* rows) {
  ASSIGN_OR_RETURN(const LoadFigures figures, bench.Serve(server, workload));
  const double slo_ms = bench.options().slo_ms;
  bench.PrintLine(varied + " " + value.dump() + Text(" at %.1f/s", workload.requests_per_second),
                  figures);
  std::printf("    first token within %.0f ms: %.1f %%, user satisfaction %.3f\n", slo_ms,
              100.0 * SloAttainment(figures.first_token_ms, slo_ms),
              UserSatisfaction(figures.first_token_ms, slo_ms));
  OrderedJson row = ToJson(figures, slo_ms);
  row["varied"] = varied;
  row["value"] = std::move(value);
  row["requests_per_second_asked"] = workload.requests_per_second;
  rows->push_back(std::move(row));
  return OkStatus();
}

// S-LoRA's SLO attainment and user satisfaction by request rate, variation of the arrivals and skew
// of the popularity.
Result<OrderedJson> RunSlo(AdapterBench& bench) {
  const AdapterBenchOptions& o = bench.options();
  const int32_t num_adapters = bench.CountsOr({200}).front();
  ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> server,
                   bench.Start(bench.ServerOptions(), bench.Fleet(num_adapters)));
  Workload workload = {.seconds = o.seconds};
  ASSIGN_OR_RETURN(workload.popularity, bench.PopularityOf(num_adapters));
  ASSIGN_OR_RETURN(const LoadFigures capacity, bench.Serve(*server, workload));
  bench.PrintLine("capacity", capacity);
  OrderedJson rows = OrderedJson::array();
  const std::vector<double> loads =
      o.loads.empty() ? std::vector<double>{0.5, 0.7, 0.8, 0.9, 1.0, 1.1} : o.loads;
  for (const double load : loads) {
    workload.requests_per_second = load * capacity.requests_per_second;
    RETURN_IF_ERROR(ServePoint(bench, *server, workload, "load", load, &rows));
  }
  workload.requests_per_second = o.load * capacity.requests_per_second;
  for (const double variation : o.variations) {
    Workload varied = workload;
    varied.variation = variation;
    RETURN_IF_ERROR(ServePoint(bench, *server, varied, "cv", variation, &rows));
  }
  for (const double alpha : o.alphas) {
    Workload varied = workload;
    varied.popularity = PowerLawWeights(num_adapters, alpha);
    RETURN_IF_ERROR(ServePoint(bench, *server, varied, "alpha", alpha, &rows));
  }
  return rows;
}

double MeanOutputTokens(const std::vector<LoadRequest>& requests) {
  double sum = 0.0;
  for (const LoadRequest& request : requests) sum += request.output_tokens;
  return sum / static_cast<double>(std::max<size_t>(1, requests.size()));
}

// At the load of what the server does with the trace's lengths: by the tokens of its answers, as
// long ones may not come to their end in a short closed loop.
Status ServeTrace(AdapterBench& bench, Runtime& server, const std::string& path,
                  OrderedJson* rows) {
  const AdapterBenchOptions& o = bench.options();
  Workload workload = {.seconds = o.seconds};
  ASSIGN_OR_RETURN(workload.popularity, bench.PopularityOf(bench.CountsOr({200}).front()));
  ASSIGN_OR_RETURN(const std::vector<TraceRequest> trace, ReadTrace(path));
  workload.trace = trace;
  ASSIGN_OR_RETURN(const LoadFigures capacity, bench.Serve(server, workload));
  const double mean = MeanOutputTokens(bench.MakeRequests(workload, server));
  workload.requests_per_second = o.load * capacity.tokens_per_second / mean;
  workload.trace = ScaleTrace(trace, workload.requests_per_second, o.seconds);
  return ServePoint(bench, server, workload, "trace",
                    std::filesystem::path(path).filename().string(), rows);
}

// Recorded arrivals and lengths. A trace that gives too little for a short window spoils no other.
Result<OrderedJson> RunTraces(AdapterBench& bench) {
  const std::vector<std::string>& traces = bench.options().traces;
  if (traces.empty()) return InvalidArgumentError("--suite traces needs a --trace FILE or more");
  ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> server,
                   bench.Start(bench.ServerOptions(), bench.Fleet(bench.CountsOr({200}).front())));
  OrderedJson rows = OrderedJson::array();
  for (const std::string& path : traces) {
    const Status served = ServeTrace(bench, *server, path, &rows);
    if (served.ok()) continue;
    if (served.code() != StatusCode::kFailedPrecondition) return served;
    std::printf("%s: %s\n", path.c_str(), served.message().c_str());
  }
  return rows;
}

}  // namespace

const std::vector<AdapterSuite>& AdapterSuites() {
  static const std::vector<AdapterSuite> suites = {
      {"throughput-by-adapters", "requests without end or at --rates, 5 to 10,000 adapters",
       RunThroughput},
      {"adapters-over-capacity", "up to 16 times as many adapters as --slots", RunOverCapacity},
      {"cold-starts", "every way of a cold start beside cached, --slots of 512 adapters",
       RunColdStarts},
      {"first-use", "adapters' folders that are first asked for, one alone and 100 at once",
       RunFirstUse},
      {"stall", "what a load does to the steps of others", RunStall},
      {"pool", "one pool against static ones of the same memory, few adapters and many", RunPool},
      {"slo", "first tokens in time by load, variation and skew", RunSlo},
      {"traces", "recorded arrivals and lengths", RunTraces}};
  return suites;
}

}  // namespace graft
