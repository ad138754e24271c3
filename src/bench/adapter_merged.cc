#include "bench/adapter_merged.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/arrivals.h"

namespace graft {
namespace {

constexpr int kWindows = 3;

struct MergedFigures {
  double tokens_per_second = 0.0;
  double rows_per_step = 0.0;
  size_t num_turns = 0;
  EngineSnapshot counts;
};

// One adapter after the other within each window, the first of a window being the last one's last.
std::vector<std::vector<LoadRequest>> TurnsOf(const std::vector<LoadRequest>& requests,
                                              size_t window) {
  std::vector<std::vector<LoadRequest>> turns;
  for (size_t begin = 0; begin < requests.size(); begin += window) {
    const size_t end = std::min(begin + window, requests.size());
    std::vector<LoadRequest> sorted(requests.begin() + static_cast<ptrdiff_t>(begin),
                                    requests.begin() + static_cast<ptrdiff_t>(end));
    const std::string merged = turns.empty() ? "" : turns.back().front().adapter_hash;
    std::stable_sort(sorted.begin(), sorted.end(), [&](const LoadRequest& a, const LoadRequest& b) {
      return std::pair(a.adapter_hash != merged, a.adapter_hash) <
             std::pair(b.adapter_hash != merged, b.adapter_hash);
    });
    for (LoadRequest& request : sorted) {
      const bool goes_on =
          !turns.empty() && turns.back().front().adapter_hash == request.adapter_hash;
      if (!goes_on) turns.emplace_back();
      turns.back().push_back(std::move(request));
    }
  }
  return turns;
}

// All of a turn's requests end before the next one's begin.
Result<MergedFigures> ServeTurns(Runtime& server, int32_t in_flight,
                                 const std::vector<std::vector<LoadRequest>>& turns) {
  MergedFigures figures{.num_turns = turns.size()};
  const EngineSnapshot before = server.engine().Snapshot();
  double seconds = 0.0;
  for (const std::vector<LoadRequest>& turn : turns) {
    const OpenLoadResult result = RunOpenLoad(server.engine(), turn, {.in_flight_max = in_flight});
    for (const OpenLoadTiming& timing : result.requests) RETURN_IF_ERROR(timing.status);
    seconds += result.seconds;
  }
  figures.counts = Difference(before, server.engine().Snapshot());
  figures.tokens_per_second = static_cast<double>(figures.counts.output_tokens) / seconds;
  figures.rows_per_step = static_cast<double>(figures.counts.rows) /
                          static_cast<double>(std::max<int64_t>(1, figures.counts.steps));
  return figures;
}

class MergedBench {
 public:
  explicit MergedBench(AdapterBench& bench) : bench_(bench), counts_(bench.CountsOr({1, 2, 4})) {}
  Result<OrderedJson> Run();

 private:
  Status Serve(bool merges, Runtime& server);

  AdapterBench& bench_;
  const std::vector<int> counts_;   // of adapters
  std::vector<double> on_the_fly_;  // tokens per second of each load
  OrderedJson rows_ = OrderedJson::array();
};

// Every count of adapters with every skew; of one adapter skew says nothing.
Status MergedBench::Serve(bool merges, Runtime& server) {
  const AdapterBenchOptions& o = bench_.options();
  const int32_t in_flight = o.in_flight > 0 ? o.in_flight : 2 * server.limits().sequences_max;
  const auto window = static_cast<size_t>(in_flight);
  size_t load = 0;
  for (const int count : counts_) {
    for (const double alpha : count == 1 ? std::vector<double>{1.0} : o.alphas) {
      std::vector<LoadRequest> requests = bench_.MakeRequests(
          {.popularity = PowerLawWeights(count, alpha), .seconds = 10.0}, server);
      requests.resize(std::min(requests.size(), kWindows * window));
      ASSIGN_OR_RETURN(
          const MergedFigures figures,
          ServeTurns(server, in_flight,
                     merges ? TurnsOf(requests, window)
                            : std::vector<std::vector<LoadRequest>>{std::move(requests)}));
      if (!merges) on_the_fly_.push_back(figures.tokens_per_second);
      const double ratio = figures.tokens_per_second / on_the_fly_[load++];
      const char* way = merges ? "merged" : "on the fly";
      std::printf("%-12s %8d %6.2f %9.0f %7.3f %6zu %7lld %8lld %6.1f\n", way, count, alpha,
                  figures.tokens_per_second, ratio, figures.num_turns,
                  static_cast<long long>(figures.counts.merges),
                  static_cast<long long>(figures.counts.merged_steps), figures.rows_per_step);
      std::fflush(stdout);
      rows_.push_back({{"way", way},
                       {"adapters", count},
                       {"alpha", alpha},
                       {"tokens_per_second", figures.tokens_per_second},
                       {"over_on_the_fly", ratio},
                       {"turns", figures.num_turns},
                       {"merges", figures.counts.merges},
                       {"merged_steps", figures.counts.merged_steps},
                       {"steps", figures.counts.steps},
                       {"rows_per_step", figures.rows_per_step}});
    }
  }
  return OkStatus();
}

Result<OrderedJson> MergedBench::Run() {
  std::printf("%-12s %8s %6s %9s %7s %6s %7s %8s %6s\n", "", "adapters", "alpha", "tok/s", "ratio",
              "turns", "merges", "steps so", "rows");
  for (const bool merges : {false, true}) {
    RuntimeOptions options = bench_.ServerOptions();
    options.merge = merges ? Merge::kAuto : Merge::kOff;
    if (options.merge_after_steps == 0) options.merge_after_steps = 1;
    ASSIGN_OR_RETURN(
        const std::unique_ptr<Runtime> server,
        bench_.Start(options, bench_.Fleet(*std::max_element(counts_.begin(), counts_.end()))));
    RETURN_IF_ERROR(Serve(merges, *server));
  }
  return std::move(rows_);
}

}  // namespace

// A backlog of requests for a few adapters: all in one batch, computed on the fly; or of each
// window of the backlog one adapter's after the other's, each merged into the weights.
Result<OrderedJson> RunMerged(AdapterBench& bench) { return MergedBench(bench).Run(); }

}  // namespace graft
