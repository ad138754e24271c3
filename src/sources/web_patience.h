// WebPatience: when a request that failed is made again. Answers that ask for time (429, 503) are
// given it; other faults that may pass are tried after ever longer waits. What went on counts: each
// byte that came begins the count anew. One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/status.h"
#include "sources/web_connection.h"

namespace graft {

struct WebPatienceOptions {
  int tries_max = 6;                                   // in a row without a byte
  int unreached_tries_max = 3;                         // without an answer to a first request
  int64_t wait_ns_max = int64_t{300} * 1'000'000'000;  // that a server may ask for
  int64_t first_wait_ns = 500'000'000;                 // doubled each time, 20 s at most
  // Sleeps for so long; for tests. Empty: in pieces, so that a cancelled fetch ends at once.
  std::function<void(int64_t ns)> sleep = {};
};

// Whether an answer's status may be another a moment later: 408, 425, 429 and 500 to 504.
bool IsPassingStatus(int http_status);

// What an answer asks for: Retry-After in seconds or as a date, or t= of the hub's RateLimit.
std::optional<int64_t> AskedWaitNs(const WebAnswer& answer, int64_t now_unix_s);

class WebPatience {
 public:
  WebPatience(WebPatienceOptions options, const std::atomic<bool>* is_cancelled)
      : options_(std::move(options)), is_cancelled_(is_cancelled) {}

  void OnProgress() { tries_ = 0; }
  // Waits, then OK; or why it is not tried again: `failure` itself, or kCancelled.
  Status WaitAfter(const Status& failure, std::optional<int64_t> asked_ns = std::nullopt);
  // The request until an answer does not ask for time; the last one where patience ends.
  Result<WebAnswer> Ask(WebConnection& connection, const WebOrder& order);

 private:
  Status Sleep(int64_t ns) const;

  const WebPatienceOptions options_;
  const std::atomic<bool>* const is_cancelled_;
  int tries_ = 0;
};

}  // namespace graft
