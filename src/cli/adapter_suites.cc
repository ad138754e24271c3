// The suites of `graft bench adapters`: S-LoRA's and CaraServe's evaluations on this machine. What
// each shows stands in docs/benchmarks.md.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include "cli/adapter_bench.h"
#include "cli/adapter_stall.h"
#include "sim/arrivals.h"
#include "sim/slo.h"

namespace graft {
namespace {

std::string Text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// The suite's counts of adapters, or what it goes through by default.
std::vector<int> CountsOr(const AdapterBench& bench, std::vector<int> counts) {
  return bench.options().adapters.empty() ? counts : bench.options().adapters;
}

Result<std::vector<double>> PopularityOf(const AdapterBench& bench, int32_t num_adapters) {
  const AdapterBenchOptions& o = bench.options();
  if (o.popularity.empty()) {
    return o.zipf > 0.0 ? ZipfWeights(num_adapters, o.zipf)
                        : PowerLawWeights(num_adapters, o.alpha);
  }
  ASSIGN_OR_RETURN(std::vector<double> weights, ReadPopularity(o.popularity));
  weights.resize(std::min(weights.size(), static_cast<size_t>(num_adapters)));
  return weights;
}

int SlotsOf(const AdapterBenchOptions& options) {
  return options.slots > 0 ? options.slots : options.runtime.adapters_max;
}

// S-LoRA's Table 4 and Figure 6: requests without end for more and more adapters, out of one pool
// and out of two (no-unified-memory).
Result<OrderedJson> RunThroughput(AdapterBench& bench) {
  const std::vector<int> counts = CountsOr(bench, {5, 20, 100, 200, 1000, 2000, 10000});
  OrderedJson rows = OrderedJson::array();
  for (const std::string& pool : bench.options().pools) {
    RuntimeOptions options = bench.ServerOptions();
    options.pool = pool;
    ASSIGN_OR_RETURN(
        const std::unique_ptr<Runtime> server,
        bench.Start(options, bench.Fleet(*std::max_element(counts.begin(), counts.end()))));
    double first = 0.0;
    for (const int count : counts) {
      ASSIGN_OR_RETURN(std::vector<double> popularity, PopularityOf(bench, count));
      ASSIGN_OR_RETURN(const LoadFigures figures,
                       bench.Serve(*server, {.popularity = std::move(popularity),
                                             .seconds = bench.options().seconds}));
      if (first == 0.0) first = figures.tokens_per_second;
      const double over_first = figures.tokens_per_second / first;
      bench.PrintLine(std::to_string(count) + " adapters, " + pool + Text(" (%.3f)", over_first),
                      figures);
      OrderedJson row = ToJson(figures, bench.options().slo_ms);
      row["pool"] = pool;
      row["adapters"] = count;
      row["over_first"] = over_first;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// Up to 16 times as many adapters as there are slots: throughput without end, and the wait for the
// first token at a share of what the server can do when all fit.
Result<OrderedJson> RunOverCapacity(AdapterBench& bench) {
  const AdapterBenchOptions& o = bench.options();
  const int slots = SlotsOf(o);
  const std::vector<int> counts = CountsOr(bench, {slots, 8 * slots, 16 * slots});
  RuntimeOptions options = bench.ServerOptions();
  options.adapters_max = slots;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Runtime> server,
      bench.Start(options, bench.Fleet(*std::max_element(counts.begin(), counts.end()))));
  OrderedJson rows = OrderedJson::array();
  LoadFigures all_fit;
  for (const bool closed : {true, false}) {
    for (const int count : counts) {
      Workload workload = {.popularity = PowerLawWeights(count, 1.0), .seconds = o.seconds};
      if (!closed) workload.requests_per_second = o.load * all_fit.requests_per_second;
      ASSIGN_OR_RETURN(LoadFigures figures, bench.Serve(*server, workload));
      OrderedJson row = ToJson(figures, o.slo_ms);
      row["adapters"] = count;
      row["slots"] = slots;
      row["turn_ms"] = o.runtime.turn_ms;
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

// Mean over mean and so on: what a way costs beside everything resident.
OrderedJson Overheads(const LoadFigures& figures, const LoadFigures& cached) {
  const auto over = [](const std::vector<double>& ours, const std::vector<double>& theirs) {
    const Percentiles a = ComputePercentiles(ours);
    const Percentiles b = ComputePercentiles(theirs);
    return OrderedJson{{"mean", a.mean / b.mean - 1.0},
                       {"p50", a.p50 / b.p50 - 1.0},
                       {"p99", a.p99 / b.p99 - 1.0}};
  };
  return {{"first_token", over(figures.first_token_ms, cached.first_token_ms)},
          {"token", over(figures.token_ms, cached.token_ms)},
          {"total", over(figures.total_ms, cached.total_ms)}};
}

// For plots: the 0th, 1st, ... 100th percentile.
OrderedJson Distribution(std::vector<double> values) {
  OrderedJson points = OrderedJson::array();
  std::sort(values.begin(), values.end());
  for (size_t i = 0; i <= 100; ++i) points.push_back(values[i * (values.size() - 1) / 100]);
  return points;
}

std::string OverheadText(const OrderedJson& over) {
  return Text("    over cached: first token %+.1f %%",
              100.0 * over["first_token"]["mean"].get<double>()) +
         Text(" (p99 %+.1f %%)", 100.0 * over["first_token"]["p99"].get<double>()) +
         Text(", per token %+.1f %%", 100.0 * over["token"]["mean"].get<double>()) +
         Text(", total %+.1f %%", 100.0 * over["total"]["mean"].get<double>());
}

// `cached` and those to compare with it.
std::vector<std::string> WaysOf(const AdapterBenchOptions& options) {
  std::vector<std::string> ways = {"cached"};
  if (!options.ways.empty()) {
    ways.insert(ways.end(), options.ways.begin(), options.ways.end());
    return ways;
  }
  for (const char* way : {"blocking", "join-later", "layerwise", "cpu-assist", "auto"}) {
    if (ParseColdStart(way).ok()) ways.emplace_back(way);
  }
  return ways;
}

// CaraServe's Figures 10 to 14: requests of which most find their adapter absent, served in every
// way there is, beside a server that holds all adapters; at a share of what that one can do.
Result<OrderedJson> RunColdStarts(AdapterBench& bench) {
  const AdapterBenchOptions& o = bench.options();
  const int32_t num_adapters = CountsOr(bench, {512}).front();
  OrderedJson rows = OrderedJson::array();
  Workload workload = {.seconds = o.seconds};
  ASSIGN_OR_RETURN(workload.popularity, PopularityOf(bench, num_adapters));
  LoadFigures cached;
  for (const std::string& way : WaysOf(o)) {
    RuntimeOptions options = bench.ServerOptions();
    options.cold_start = way;
    options.adapters_max = way == "cached" ? num_adapters : SlotsOf(o);
    ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> server,
                     bench.Start(options, bench.Fleet(num_adapters)));
    if (way == "cached") {
      ASSIGN_OR_RETURN(const LoadFigures capacity, bench.Serve(*server, workload));
      bench.PrintLine("capacity, all resident", capacity);
      workload.requests_per_second = o.load * capacity.requests_per_second;
    }
    ASSIGN_OR_RETURN(LoadFigures figures, bench.Serve(*server, workload));
    if (way == "cached") cached = figures;
    bench.PrintLine(way + Text(" at %.1f/s", workload.requests_per_second) +
                        Text(", %.0f %% cold", 100.0 * figures.copies_per_request()),
                    figures);
    OrderedJson row = ToJson(figures, o.slo_ms);
    row["cold_start"] = way;
    row["adapters"] = num_adapters;
    row["slots"] = options.adapters_max;
    row["load"] = o.load;
    row["requests_per_second_asked"] = workload.requests_per_second;
    row["over_cached"] = Overheads(figures, cached);
    row["first_token_ms"]["distribution"] = Distribution(figures.first_token_ms);
    row["token_ms"]["distribution"] = Distribution(figures.token_ms);
    row["total_ms"]["distribution"] = Distribution(figures.total_ms);
    if (way != "cached") std::printf("%s\n", OverheadText(row["over_cached"]).c_str());
    rows.push_back(std::move(row));
  }
  return rows;
}

// What a pool gives to a load that needs KV and few adapters, and to one that needs many.
struct PoolFigures {
  std::vector<double> tokens_per_second;
  // Of as many tokens of each load.
  double combined() const {
    double seconds = 0.0;
    for (const double rate : tokens_per_second) seconds += 1.0 / rate;
    return static_cast<double>(tokens_per_second.size()) / seconds;
  }
};

Result<PoolFigures> ServePool(AdapterBench& bench, double share, const std::vector<int>& counts,
                              OrderedJson* rows) {
  RuntimeOptions options = bench.ServerOptions();
  options.pool = share == 0.0 ? "shared" : "static";
  if (share > 0.0) options.adapter_share = share;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Runtime> server,
      bench.Start(options, bench.Fleet(*std::max_element(counts.begin(), counts.end()))));
  PoolFigures pool;
  for (const int count : counts) {
    Workload workload = {.seconds = bench.options().seconds};
    ASSIGN_OR_RETURN(workload.popularity, PopularityOf(bench, count));
    ASSIGN_OR_RETURN(const LoadFigures figures, bench.Serve(*server, workload));
    pool.tokens_per_second.push_back(figures.tokens_per_second);
    bench.PrintLine(std::to_string(count) + " adapters, " + options.pool +
                        (share == 0.0 ? "" : Text(", %.2f of it theirs", share)),
                    figures);
    std::printf(
        "    adapters hold %.1f %% of the pool, %.1f %% is free; waste %.2f %%, %.2f %% at most\n",
        100.0 * figures.adapter_pages_mean, 100.0 * figures.free_pages_mean,
        100.0 * figures.waste_mean, 100.0 * figures.waste_max);
    OrderedJson row = ToJson(figures, bench.options().slo_ms);
    row["pool"] = options.pool;
    row["adapter_share"] = share;
    row["adapters"] = count;
    rows->push_back(std::move(row));
  }
  return pool;
}

// One pool against two of the same memory in all, where KV is short: a few adapters, then many. A
// static split that suits one of the loads does not suit the other.
Result<OrderedJson> RunPool(AdapterBench& bench) {
  const std::vector<int> counts = CountsOr(bench, {5, 200});
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

// At the suite's load of what this trace's lengths allow.
Status ServeTrace(AdapterBench& bench, Runtime& server, Workload workload, const std::string& path,
                  OrderedJson* rows) {
  const AdapterBenchOptions& o = bench.options();
  ASSIGN_OR_RETURN(const std::vector<TraceRequest> trace, ReadTrace(path));
  workload.trace = trace;
  ASSIGN_OR_RETURN(const LoadFigures capacity, bench.Serve(server, workload));
  workload.requests_per_second = o.load * capacity.requests_per_second;
  workload.trace = ScaleTrace(trace, workload.requests_per_second, o.seconds);
  return ServePoint(bench, server, workload, "trace",
                    std::filesystem::path(path).filename().string(), rows);
}

// S-LoRA's SLO attainment and user satisfaction by request rate, variation of the arrivals and skew
// of the popularity; and on recorded arrivals.
Result<OrderedJson> RunSlo(AdapterBench& bench) {
  const AdapterBenchOptions& o = bench.options();
  const int32_t num_adapters = CountsOr(bench, {200}).front();
  ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> server,
                   bench.Start(bench.ServerOptions(), bench.Fleet(num_adapters)));
  Workload workload = {.seconds = o.seconds};
  ASSIGN_OR_RETURN(workload.popularity, PopularityOf(bench, num_adapters));
  ASSIGN_OR_RETURN(const LoadFigures capacity, bench.Serve(*server, workload));
  bench.PrintLine("capacity", capacity);
  OrderedJson rows = OrderedJson::array();
  for (const double load : o.loads) {
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
  workload.requests_per_second = 0.0;
  for (const std::string& path : o.traces) {
    RETURN_IF_ERROR(ServeTrace(bench, *server, workload, path, &rows));
  }
  return rows;
}

}  // namespace

const std::vector<AdapterSuite>& AdapterSuites() {
  static const std::vector<AdapterSuite> suites = {
      {"throughput-by-adapters", "requests without end, 5 to 10,000 adapters", RunThroughput},
      {"adapters-over-capacity", "up to 16 times as many adapters as --slots", RunOverCapacity},
      {"cold-starts", "every --cold-start way beside cached, --slots of 512 adapters",
       RunColdStarts},
      {"stall", "what a load does to the steps of others", RunStall},
      {"pool", "one pool against static ones of the same memory, few adapters and many", RunPool},
      {"slo", "first tokens in time by load, variation, skew and trace", RunSlo}};
  return suites;
}

}  // namespace graft
