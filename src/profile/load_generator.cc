#include "profile/load_generator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string_view>
#include <thread>

#include "base/clock.h"

namespace graft {
namespace {

double ElapsedMs(int64_t begin_ns, int64_t end_ns) {
  return static_cast<double>(end_ns - begin_ns) * 1e-6;
}

LoadTiming RunOne(const LoadRequest& request, const RunRequest& run) {
  const Clock& clock = SteadyClock::Get();
  const int64_t begin_ns = clock.NowNs();
  int64_t first_ns = 0;
  int64_t last_ns = begin_ns;
  LoadTiming timing;
  timing.status = run(request, [&] {
    last_ns = clock.NowNs();
    if (timing.output_tokens++ == 0) first_ns = last_ns;
  });
  timing.total_ms = ElapsedMs(begin_ns, clock.NowNs());
  if (timing.output_tokens > 0) timing.first_token_ms = ElapsedMs(begin_ns, first_ns);
  if (timing.output_tokens > 1) {
    timing.token_ms = ElapsedMs(first_ns, last_ns) / (timing.output_tokens - 1);
  }
  return timing;
}

}  // namespace

LoadResult RunLoad(const std::vector<LoadRequest>& requests, int32_t requests_max,
                   const RunRequest& run) {
  LoadResult result;
  result.requests.resize(requests.size());
  std::atomic<size_t> next{0};
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  const auto serve = [&] {
    for (size_t i = next++; i < requests.size(); i = next++) {
      const auto arrival_ns = static_cast<int64_t>(requests[i].arrival_seconds * 1e9);
      const int64_t wait_ns = begin_ns + arrival_ns - SteadyClock::Get().NowNs();
      if (wait_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(wait_ns));
      const double begin_ms = ElapsedMs(begin_ns, SteadyClock::Get().NowNs());
      result.requests[i] = RunOne(requests[i], run);
      result.requests[i].begin_ms = begin_ms;
    }
  };
  std::vector<std::thread> threads;
  const size_t num_threads = std::min(requests.size(), static_cast<size_t>(requests_max));
  for (size_t i = 0; i < num_threads; ++i) threads.emplace_back(serve);
  for (std::thread& thread : threads) thread.join();
  result.seconds = NsToSeconds(SteadyClock::Get().NowNs() - begin_ns);
  for (const LoadTiming& timing : result.requests) {
    result.output_tokens += timing.output_tokens;
    result.failed += !timing.status.ok();
  }
  return result;
}

Concurrency MeanConcurrency(const std::vector<LoadRequest>& requests,
                            const std::vector<LoadTiming>& timings) {
  struct Change {
    double at_ms;
    size_t request;
    int by;
  };
  std::vector<Change> changes;
  for (size_t i = 0; i < timings.size(); ++i) {
    const LoadTiming& timing = timings[i];
    if (timing.output_tokens == 0) continue;
    changes.push_back({timing.begin_ms + timing.first_token_ms, i, 1});
    changes.push_back({timing.begin_ms + timing.total_ms, i, -1});
  }
  std::ranges::sort(changes, {}, &Change::at_ms);
  std::map<std::string_view, int> running;  // requests of an adapter, "" for the base
  double busy_ms = 0.0, requests_ms = 0.0, adapters_ms = 0.0, last_ms = 0.0;
  int num_running = 0;
  for (const Change& change : changes) {
    if (num_running > 0) {
      const double ms = change.at_ms - last_ms;
      busy_ms += ms;
      requests_ms += ms * num_running;
      adapters_ms += ms * static_cast<double>(running.size() - running.count(""));
    }
    last_ms = change.at_ms;
    num_running += change.by;
    const auto it = running.try_emplace(requests[change.request].adapter_hash).first;
    if ((it->second += change.by) == 0) running.erase(it);
  }
  if (busy_ms == 0.0) return {};
  return {requests_ms / busy_ms, adapters_ms / busy_ms};
}

RunRequest ViaGenerator(Generator& generator) {
  auto next_id =
      std::make_shared<std::atomic<uint64_t>>(1);  // shared by the copies of the function
  return [&generator, next_id](const LoadRequest& load, const std::function<void()>& on_token) {
    Request request = MakeRequest(load, (*next_id)++);
    auto stream = std::make_shared<TokenStream>();  // shared with the engine's thread
    RETURN_IF_ERROR(generator.Submit(std::move(request), stream));
    while (true) {
      const TokenEvent event = stream->Pop();
      if (event.token >= 0) on_token();
      if (event.finish_reason == FinishReason::kError) return event.status;
      if (event.finish_reason != FinishReason::kNone) return OkStatus();
    }
  };
}

}  // namespace graft
