#include "bench/open_load.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "base/clock.h"

namespace graft {
namespace {

// Unique in the process, as a generator may serve several runs.
std::atomic<uint64_t> next_request_id{1};

// Streams that have something to read, as their writer's thread tells it, and when it came.
class Bell {
 public:
  struct Ring {
    size_t request = 0;
    int64_t ns = 0;
  };

  void Add(size_t request) {
    const std::lock_guard lock(mutex_);
    rings_.push_back({request, SteadyClock::Get().NowNs()});
    if (rings_.size() == 1) rang_.notify_one();
  }

  // Those since the last call; waits for one until `deadline_ns`.
  void Take(int64_t deadline_ns, std::vector<Ring>* rings) {
    rings->clear();
    std::unique_lock lock(mutex_);
    const int64_t wait_ns = deadline_ns - SteadyClock::Get().NowNs();
    if (wait_ns > 0) {
      rang_.wait_for(lock, std::chrono::nanoseconds(wait_ns), [this] { return !rings_.empty(); });
    }
    rings->swap(rings_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable rang_;
  std::vector<Ring> rings_;
};

class OpenLoad {
 public:
  OpenLoad(Generator& generator, const std::vector<LoadRequest>& requests,
           const OpenLoadOptions& options)
      : generator_(generator), requests_(requests), options_(options) {}

  OpenLoadResult Run();

 private:
  struct InFlight {
    RequestId id = 0;
    // Shared with the engine's thread, which may still hold it when its last event was read.
    std::shared_ptr<TokenStream> stream;
  };

  double Seconds(int64_t ns) const { return NsToSeconds(ns - begin_ns_); }
  double Now() const { return Seconds(SteadyClock::Get().NowNs()); }
  bool MaySubmit() const {
    return !stopping_ && next_ < requests_.size() &&
           (options_.in_flight_max == 0 || num_in_flight_ < options_.in_flight_max);
  }
  int64_t Deadline() const;
  void SubmitDue();
  void Submit(const LoadRequest& load);
  void Read(const Bell::Ring& ring);
  void StopIfAsked();

  Generator& generator_;
  const std::vector<LoadRequest>& requests_;
  const OpenLoadOptions& options_;
  Bell bell_;
  int64_t begin_ns_ = 0;
  size_t next_ = 0;
  int32_t num_in_flight_ = 0;
  bool stopping_ = false;
  std::vector<InFlight> in_flight_;  // by request; without a stream once it ended
  OpenLoadResult result_;
};

// When to look next if no event comes before.
int64_t OpenLoad::Deadline() const {
  constexpr int64_t kLookNs = 20'000'000;  // for `stop`
  int64_t deadline_ns = SteadyClock::Get().NowNs() + kLookNs;
  if (MaySubmit()) {
    const auto due_ns = begin_ns_ + static_cast<int64_t>(requests_[next_].arrival_seconds * 1e9);
    deadline_ns = std::min(deadline_ns, due_ns);
  }
  return deadline_ns;
}

void OpenLoad::SubmitDue() {
  while (MaySubmit() && requests_[next_].arrival_seconds <= Now()) Submit(requests_[next_++]);
}

void OpenLoad::Submit(const LoadRequest& load) {
  const size_t idx = result_.requests.size();
  OpenLoadTiming& timing = result_.requests.emplace_back();
  // In a closed loop a client asks when it has its last answer.
  timing.due_seconds = options_.in_flight_max == 0 ? load.arrival_seconds : Now();
  Request request = MakeRequest(load, next_request_id++);
  InFlight& in_flight = in_flight_.emplace_back();
  in_flight.id = request.id;
  in_flight.stream = std::make_shared<TokenStream>();
  in_flight.stream->SetReadyCallback([this, idx] { bell_.Add(idx); });
  timing.status = generator_.Submit(std::move(request), in_flight.stream);
  if (timing.status.ok()) {
    ++num_in_flight_;
  } else {
    in_flight.stream.reset();
  }
}

void OpenLoad::Read(const Bell::Ring& ring) {
  InFlight& in_flight = in_flight_[ring.request];
  OpenLoadTiming& timing = result_.requests[ring.request];
  const double now = Seconds(ring.ns);
  while (in_flight.stream != nullptr) {
    const std::optional<TokenEvent> event = in_flight.stream->TryPop();
    if (!event.has_value()) return;
    if (event->token >= 0) {
      if (timing.output_tokens++ == 0) timing.first_token_seconds = now;
      timing.last_token_seconds = now;
      if (options_.keep_token_times) timing.token_seconds.push_back(now);
      result_.token_seconds.push_back(now);
    }
    if (event->finish_reason == FinishReason::kNone) continue;
    timing.status = event->status;
    if (event->finish_reason == FinishReason::kLength ||
        event->finish_reason == FinishReason::kStop) {
      timing.end_seconds = now;
    }
    in_flight.stream.reset();
    --num_in_flight_;
  }
}

void OpenLoad::StopIfAsked() {
  if (stopping_) return;
  const bool is_late = options_.stop_seconds > 0.0 && Now() >= options_.stop_seconds;
  if (!is_late && (options_.stop == nullptr || !options_.stop->load())) return;
  stopping_ = true;
  for (const InFlight& in_flight : in_flight_) {
    if (in_flight.stream != nullptr) generator_.Cancel(in_flight.id);
  }
}

OpenLoadResult OpenLoad::Run() {
  std::vector<Bell::Ring> rings;
  begin_ns_ = SteadyClock::Get().NowNs();
  for (;;) {
    SubmitDue();
    StopIfAsked();
    if (num_in_flight_ == 0 && (stopping_ || next_ == requests_.size())) break;
    bell_.Take(Deadline(), &rings);
    for (const Bell::Ring& ring : rings) Read(ring);
  }
  result_.seconds = Now();
  result_.begin_ns = begin_ns_;
  return std::move(result_);
}

}  // namespace

OpenLoadResult RunOpenLoad(Generator& generator, const std::vector<LoadRequest>& requests,
                           const OpenLoadOptions& options) {
  return OpenLoad(generator, requests, options).Run();
}

}  // namespace graft
