#include "bench/adapter_stall.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace graft {
namespace {

constexpr int kStepsAround = 8;    // before a load and after it
constexpr int kPromptTokens = 16;  // of the running requests
// Apart from all that the running load hands out.
constexpr uint64_t kFirstProbeId = uint64_t{1} << 62;

// From when its request came until it was there, and the part of it that the copy took.
struct Load {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  double copy_ms = 0.0;
};

// For each load of adapters of one rank: its copy, a step around it, and how much longer the steps
// during the copy took.
struct RankStalls {
  std::vector<double> copy_ms, step_ms, stall_ms;
};

double MeanOf(const std::vector<double>& values) {
  return values.empty() ? 0.0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

class StallBench {
 public:
  StallBench(AdapterBench& bench, ColdStart cold_start)
      : bench_(bench), cold_start_(cold_start), way_(WordOf(cold_start, kColdStartWords)) {}
  Result<OrderedJson> Run();

 private:
  int32_t batch() const { return bench_.options().runtime.limits.sequences_max; }
  int32_t num_ranks() const { return static_cast<int32_t>(bench_.options().fleet.ranks.size()); }
  // The first adapter of the first rank that no request runs on.
  int32_t first_probe() const { return (batch() + num_ranks() - 1) / num_ranks() * num_ranks(); }
  Status CheckFits(int32_t output_tokens) const;
  std::vector<LoadRequest> MakeRunning(int32_t output_tokens) const;
  double CopySeconds();
  Status WaitFor(const std::function<bool(const EngineSnapshot&)>& done);
  Status Probe(int32_t adapter, Load* load);
  Status ProbeAll();
  RankStalls Evaluate(const std::vector<int64_t>& token_ns, int32_t rank_idx) const;
  OrderedJson Report(const OpenLoadResult& running) const;

  AdapterBench& bench_;
  const ColdStart cold_start_;
  const char* const way_;
  std::unique_ptr<Runtime> server_;
  std::vector<Load> loads_;  // [probes][ranks]
  uint64_t next_id_ = kFirstProbeId;
};

// All run while the last adapter loads.
Status StallBench::CheckFits(int32_t output_tokens) const {
  constexpr int32_t kStepsOfLoad = 16;
  const int32_t steps = bench_.options().probes * num_ranks() * (2 * kStepsAround + kStepsOfLoad);
  if (steps <= output_tokens) return OkStatus();
  return InvalidArgumentError("so many loads may take " + std::to_string(steps) +
                              " steps, the context holds " + std::to_string(output_tokens) +
                              "; lower --probes or give fewer --ranks");
}

std::vector<LoadRequest> StallBench::MakeRunning(int32_t output_tokens) const {
  Random random(bench_.options().fleet.seed);
  std::vector<LoadRequest> requests(static_cast<size_t>(batch()));
  for (int32_t i = 0; i < batch(); ++i) {
    requests[i].adapter_hash = SyntheticFleet::HashOf(i);
    requests[i].output_tokens = output_tokens;
    requests[i].prompt_tokens.resize(kPromptTokens);
    for (int32_t& token : requests[i].prompt_tokens) {
      token = static_cast<int32_t>(random.Below(bench_.model().config.vocab_size));
    }
  }
  return requests;
}

Status StallBench::WaitFor(const std::function<bool(const EngineSnapshot&)>& done) {
  constexpr int64_t kTimeoutNs = 120'000'000'000;
  const int64_t deadline_ns = SteadyClock::Get().NowNs() + kTimeoutNs;
  while (!done(server_->engine().Snapshot())) {
    if (SteadyClock::Get().NowNs() > deadline_ns) {
      return InternalError("the server did not get where the bench wants it");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return OkStatus();
}

// A request that finds the batch full: its adapter is loaded ahead, and the request never runs.
Status StallBench::Probe(int32_t adapter, Load* load) {
  Engine& engine = server_->engine();
  prometheus::Counter& copied = server_->metrics().Counter(
      "graft_adapter_copied_bytes_total", "Bytes of adapters copied to the device");
  const int64_t steps_before = engine.Snapshot().steps;
  RETURN_IF_ERROR(
      WaitFor([&](const EngineSnapshot& now) { return now.steps >= steps_before + kStepsAround; }));
  const double bytes_before = copied.Value();
  const double copy_seconds_before = CopySeconds();
  const int64_t copies_before = engine.Snapshot().adapter_copies;
  Request request;
  request.id = next_id_++;
  request.UseAdapter(SyntheticFleet::HashOf(adapter));
  request.prompt_tokens = {1};
  request.sampling.tokens_max = 1;
  auto stream = std::make_shared<TokenStream>();  // shared with the engine's thread
  const RequestId id = request.id;
  load->begin_ns = SteadyClock::Get().NowNs();
  RETURN_IF_ERROR(engine.Submit(std::move(request), stream));
  RETURN_IF_ERROR(WaitFor([&](const EngineSnapshot&) { return copied.Value() > bytes_before; }));
  load->end_ns = SteadyClock::Get().NowNs();
  load->copy_ms = (CopySeconds() - copy_seconds_before) * 1e3;
  RETURN_IF_ERROR(
      WaitFor([&](const EngineSnapshot& now) { return now.adapter_copies > copies_before; }));
  const int64_t steps_loaded = engine.Snapshot().steps;
  RETURN_IF_ERROR(
      WaitFor([&](const EngineSnapshot& now) { return now.steps >= steps_loaded + kStepsAround; }));
  engine.Cancel(id);
  while (stream->Pop().finish_reason == FinishReason::kNone) continue;
  return OkStatus();
}

// The seconds of all copies so far.
double StallBench::CopySeconds() {
  prometheus::Histogram& histogram =
      server_->metrics().Histogram("graft_adapter_load_seconds", "", {}, {{"stage", "copy"}});
  return histogram.Collect().histogram.sample_sum;
}

Status StallBench::ProbeAll() {
  RETURN_IF_ERROR(WaitFor([this](const EngineSnapshot& now) {
    return now.requests_running == batch() && now.requests_waiting == 0;
  }));
  loads_.resize(static_cast<size_t>(bench_.options().probes * num_ranks()));
  for (size_t i = 0; i < loads_.size(); ++i) {
    RETURN_IF_ERROR(Probe(first_probe() + static_cast<int32_t>(i), &loads_[i]));
  }
  return OkStatus();
}

RankStalls StallBench::Evaluate(const std::vector<int64_t>& token_ns, int32_t rank_idx) const {
  RankStalls stalls;
  for (size_t i = static_cast<size_t>(rank_idx); i < loads_.size();
       i += static_cast<size_t>(num_ranks())) {
    const Load& load = loads_[i];
    // Steps [first, last) overlap the load; step k lies between tokens k and k + 1.
    const auto after_begin = std::upper_bound(token_ns.begin(), token_ns.end(), load.begin_ns);
    const auto after_end = std::lower_bound(token_ns.begin(), token_ns.end(), load.end_ns);
    const auto first = after_begin - token_ns.begin() - 1;
    const auto last = after_end - token_ns.begin();
    constexpr ptrdiff_t kAround = kStepsAround - 2;  // clear of the loads before and after
    if (first < kAround || last + kAround >= static_cast<ptrdiff_t>(token_ns.size())) continue;
    const auto ms = [&](ptrdiff_t begin, ptrdiff_t end) {
      return static_cast<double>(token_ns[end] - token_ns[begin]) * 1e-6;
    };
    const double step_ms =
        (ms(first - kAround, first) + ms(last, last + kAround)) / (2.0 * kAround);
    stalls.copy_ms.push_back(load.copy_ms);
    stalls.step_ms.push_back(step_ms);
    stalls.stall_ms.push_back(ms(first, last) - static_cast<double>(last - first) * step_ms);
  }
  return stalls;
}

OrderedJson StallBench::Report(const OpenLoadResult& running) const {
  std::vector<int64_t> token_ns;
  for (const double seconds : running.requests[0].token_seconds) {
    token_ns.push_back(running.begin_ns + static_cast<int64_t>(seconds * 1e9));
  }
  OrderedJson rows = OrderedJson::array();
  for (int32_t idx = 0; idx < num_ranks(); ++idx) {
    const RankStalls stalls = Evaluate(token_ns, idx);
    const Percentiles stall = ComputePercentiles(stalls.stall_ms);
    const double step_ms = MeanOf(stalls.step_ms);
    const double copy_ms = MeanOf(stalls.copy_ms);
    const int rank = bench_.options().fleet.ranks[static_cast<size_t>(idx)];
    const double mib = static_cast<double>(SyntheticBackend::BytesOf(
                           bench_.model().config, bench_.model().weights.types.adapters,
                           bench_.Fleet(0).modules, rank)) /
                       (1 << 20);
    std::printf("%-12s %6d %8.1f %9.3f %9.3f %9.3f %9.3f %9.3f %8.2f\n", way_, rank, mib, copy_ms,
                step_ms, stall.mean, stall.p50, stall.p99, 100.0 * stall.mean / step_ms);
    rows.push_back({{"cold_start", way_},
                    {"rank", rank},
                    {"mib", mib},
                    {"loads", stalls.copy_ms.size()},
                    {"copy_ms", copy_ms},
                    {"step_ms", step_ms},
                    {"stall_ms", ToJson(stall)},
                    {"stall_share_of_step", stall.mean / step_ms}});
  }
  std::fflush(stdout);
  return rows;
}

Result<OrderedJson> StallBench::Run() {
  RuntimeOptions options = bench_.ServerOptions();
  options.engine.scheduler.cold_start = cold_start_;
  options.limits.adapters_max = batch() + 4;
  const int32_t num_probes = bench_.options().probes * num_ranks();
  ASSIGN_OR_RETURN(server_, bench_.Start(options, bench_.Fleet(first_probe() + num_probes)));
  const int32_t output_tokens = server_->limits().context_tokens_max - kPromptTokens;
  RETURN_IF_ERROR(CheckFits(output_tokens));
  const std::vector<LoadRequest> requests = MakeRunning(output_tokens);
  std::atomic<bool> stop{false};
  OpenLoadResult running;
  std::thread load([&] {
    running = RunOpenLoad(server_->engine(), requests, {.stop = &stop, .keep_token_times = true});
  });
  const Status probed = ProbeAll();
  stop = true;
  load.join();
  RETURN_IF_ERROR(probed);
  return Report(running);
}

}  // namespace

Result<OrderedJson> RunStall(AdapterBench& bench) {
  std::printf("%-12s %6s %8s %9s %9s %9s %9s %9s %8s\n", "", "rank", "MiB", "copy ms", "step ms",
              "stall ms", "p50", "p99", "% of one");
  OrderedJson rows = OrderedJson::array();
  for (const ColdStart way : {ColdStart::kJoinLater, ColdStart::kBlocking}) {
    ASSIGN_OR_RETURN(const OrderedJson of_way, StallBench(bench, way).Run());
    rows.insert(rows.end(), of_way.begin(), of_way.end());
  }
  return rows;
}

}  // namespace graft
