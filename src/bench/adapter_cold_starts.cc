#include "bench/adapter_cold_starts.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "profile/report.h"
#include "sim/simulation_report.h"

namespace graft {
namespace {

constexpr ColdStartWay kCachedWay = {ColdStart::kCached};

// For plots: the 0th, 1st, ... 100th percentile.
OrderedJson Distribution(std::vector<double> values) {
  OrderedJson points = OrderedJson::array();
  std::sort(values.begin(), values.end());
  for (size_t i = 0; i <= 100; ++i) points.push_back(values[i * (values.size() - 1) / 100]);
  return points;
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

// The share of each request's time that the same request saved on a server that held its adapter
// already.
OrderedJson ColdShares(const LoadFigures& figures, const LoadFigures& cached) {
  CHECK_EQ(figures.total_ms.size(), cached.total_ms.size());
  std::vector<double> shares;
  for (size_t i = 0; i < figures.total_ms.size(); ++i) {
    shares.push_back(1.0 - cached.total_ms[i] / figures.total_ms[i]);
  }
  OrderedJson json = ToJson(ComputePercentiles(shares));
  json["distribution"] = Distribution(std::move(shares));
  return json;
}

std::string OverheadText(const OrderedJson& row) {
  const OrderedJson& over = row["over_cached"];
  return Text("    over cached: first token %+.1f %%",
              100.0 * over["first_token"]["mean"].get<double>()) +
         Text(" (p99 %+.1f %%)", 100.0 * over["first_token"]["p99"].get<double>()) +
         Text(", per token %+.1f %%", 100.0 * over["token"]["mean"].get<double>()) +
         Text(", total %+.1f %%", 100.0 * over["total"]["mean"].get<double>()) +
         Text("; iterations with prompts %.2f ms", row["prompt_iteration_ms"].get<double>()) +
         Text(", others %.2f ms", row["decode_iteration_ms"].get<double>());
}

// `cached` and those to compare with it.
std::vector<ColdStartWay> WaysOf(const AdapterBenchOptions& options) {
  std::vector<ColdStartWay> ways = {kCachedWay};
  if (!options.ways.empty()) {
    ways.insert(ways.end(), options.ways.begin(), options.ways.end());
    return ways;
  }
  for (const ColdStart way : {ColdStart::kBlocking, ColdStart::kJoinLater, ColdStart::kLayerwise,
                              ColdStart::kCpuAssist, ColdStart::kAuto}) {
    ways.push_back({way});
  }
  return ways;
}

// A load that every way serves: so many adapters are asked for, at a share of the capacity.
struct Point {
  int32_t num_adapters = 0;
  double load = 0.0;
  Workload workload;
  LoadFigures cached;
};

class ColdStartBench {
 public:
  explicit ColdStartBench(AdapterBench& bench) : bench_(bench) {}
  Result<OrderedJson> Run();

 private:
  Status MakePoints();
  Result<std::unique_ptr<Runtime>> Start(const ColdStartWay& way);
  Status MeasureCapacity();
  Status Serve(const ColdStartWay& way, Runtime& server, Point& point);

  AdapterBench& bench_;
  int32_t adapters_max_ = 0;
  std::vector<Point> points_;
  OrderedJson rows_ = OrderedJson::array();
};

// Every adapter brings its requests: fewer adapters, fewer requests.
Status ColdStartBench::MakePoints() {
  const AdapterBenchOptions& o = bench_.options();
  const std::vector<int> counts = bench_.CountsOr({512});
  adapters_max_ = *std::max_element(counts.begin(), counts.end());
  for (const int count : counts) {
    for (const double load : o.loads.empty() ? std::vector<double>{o.load} : o.loads) {
      Point& point = points_.emplace_back();
      point.num_adapters = count;
      point.load = load * count / adapters_max_;
      point.workload.seconds = o.seconds;
      ASSIGN_OR_RETURN(point.workload.popularity, bench_.PopularityOf(count));
    }
  }
  return OkStatus();
}

// A server of its own for every way: what one has cached and evicted is no other's.
Result<std::unique_ptr<Runtime>> ColdStartBench::Start(const ColdStartWay& way) {
  RuntimeOptions options = bench_.ServerOptions();
  options.engine.scheduler.cold_start = way.cold_start;
  if (way.with_cpu && !options.cpu_assist.has_value()) {
    options.cpu_assist = CpuAssistPlace::kThread;
  }
  options.limits.adapters_max = way == kCachedWay ? adapters_max_ : bench_.num_slots();
  return bench_.Start(options, bench_.Fleet(adapters_max_));
}

// Measures a server that holds all adapters. Its capacity sets the rates of all points.
Status ColdStartBench::MeasureCapacity() {
  ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> server, Start(kCachedWay));
  Workload workload = {.seconds = bench_.options().seconds};
  ASSIGN_OR_RETURN(workload.popularity, bench_.PopularityOf(adapters_max_));
  ASSIGN_OR_RETURN(const LoadFigures capacity, bench_.Serve(*server, workload));
  bench_.PrintLine("capacity, all resident", capacity);
  for (Point& point : points_) {
    point.workload.requests_per_second = point.load * capacity.requests_per_second;
  }
  return OkStatus();
}

Status ColdStartBench::Serve(const ColdStartWay& way, Runtime& server, Point& point) {
  const double rate = point.workload.requests_per_second;
  ASSIGN_OR_RETURN(LoadFigures figures, bench_.Serve(server, point.workload));
  const std::string name = WordOf(way, kColdStartWayWords);
  const bool is_cached = way == kCachedWay;
  if (is_cached) point.cached = figures;
  const std::string of =
      points_.size() == 1 ? "" : " of " + std::to_string(point.num_adapters) + " adapters";
  bench_.PrintLine(name + of + Text(" at %.1f/s", rate) +
                       Text(", %.0f %% cold", 100.0 * figures.copies_per_request()),
                   figures);
  OrderedJson row = ToJson(figures, bench_.options().slo_ms);
  row["cold_start"] = name;
  row["adapters"] = point.num_adapters;
  row["slots"] = server.limits().adapters_max;
  row["load"] = point.load;
  row["requests_per_second_asked"] = rate;
  row["over_cached"] = Overheads(figures, point.cached);
  if (!is_cached) row["cold_share"] = ColdShares(figures, point.cached);
  if (points_.size() == 1) {
    row["first_token_ms"]["distribution"] = Distribution(figures.first_token_ms);
    row["token_ms"]["distribution"] = Distribution(figures.token_ms);
    row["total_ms"]["distribution"] = Distribution(figures.total_ms);
  }
  if (is_cached && !bench_.options().popularity.empty()) {
    row["popularity"] = point.workload.popularity;
  }
  std::printf("%s\n", OverheadText(row).c_str());
  if (!is_cached) {
    std::printf("    %.1f %% of a request's time on average\n",
                100.0 * row["cold_share"]["mean"].get<double>());
  }
  rows_.push_back(std::move(row));
  return OkStatus();
}

Result<OrderedJson> ColdStartBench::Run() {
  RETURN_IF_ERROR(MakePoints());
  RETURN_IF_ERROR(MeasureCapacity());
  for (const ColdStartWay& way : WaysOf(bench_.options())) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> server, Start(way));
    for (Point& point : points_) RETURN_IF_ERROR(Serve(way, *server, point));
  }
  return std::move(rows_);
}

}  // namespace

// Requests of which most find their adapter absent, served in every way there is, beside a server
// that holds all adapters; at shares of what that one can do.
Result<OrderedJson> RunColdStarts(AdapterBench& bench) { return ColdStartBench(bench).Run(); }

}  // namespace graft
