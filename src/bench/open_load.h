// Drives a Generator with thousands of requests in flight from one thread. It submits each request
// when its time comes, and the streams call it when they have tokens, so that a request that waits
// costs nothing. Latencies count from the time at which a request was due, not from its submission.
// The clients are virtual: there is no HTTP.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "profile/load_generator.h"
#include "request/generator.h"

namespace graft {

struct OpenLoadOptions {
  // 0: every request is submitted when it is due, whatever else is under way; else so many at most,
  // the next as soon as one ends (arrival times then only say when it may begin).
  int32_t in_flight_max = 0;
  // Requests that have not ended by then are cancelled; 0: all run to their end.
  double stop_seconds = 0.0;
  // Ends the run when it becomes true, as stop_seconds does; may be null.
  const std::atomic<bool>* stop = nullptr;
  bool keep_token_times = false;
};

// Times in seconds since the run began; negative: it never happened.
struct OpenLoadTiming {
  Status status;
  double due_seconds = 0.0;
  double first_token_seconds = -1.0;
  double last_token_seconds = -1.0;
  double end_seconds = -1.0;  // of a request that came to its own end
  int32_t output_tokens = 0;
  std::vector<double> token_seconds;  // if kept

  double first_token_ms() const { return (first_token_seconds - due_seconds) * 1e3; }
  double total_ms() const { return (end_seconds - due_seconds) * 1e3; }
  // Mean over the tokens after the first; of two tokens or more.
  double token_ms() const {
    return (last_token_seconds - first_token_seconds) * 1e3 / (output_tokens - 1);
  }
};

struct OpenLoadResult {
  std::vector<OpenLoadTiming> requests;  // of those submitted, in order
  std::vector<double> token_seconds;     // of all output tokens, ascending but for threads' jitter
  double seconds = 0.0;
  int64_t begin_ns = 0;  // by the steady clock
};

// `requests` in order of arrival.
OpenLoadResult RunOpenLoad(Generator& generator, const std::vector<LoadRequest>& requests,
                           const OpenLoadOptions& options);

}  // namespace graft
