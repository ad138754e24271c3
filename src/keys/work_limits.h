// The limits of a key, or of all keys of a tenant together: requests and tokens a minute, requests
// and sequences at once. A rate is a bucket that holds a minute's worth. Tokens are counted as
// work: the prompt once for each of its choices, and drawn tokens. `max_tokens` is taken in
// advance, and tokens that were not drawn are given back. Without `max_tokens`, tokens are taken as
// they are drawn, and the bucket may go below zero. Thread-safe, on the caller's clock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "http/api_error.h"
#include "keys/metered_places.h"

namespace graft {

// 0: no limit.
struct WorkLimits {
  int32_t requests_per_minute = 0;
  int32_t tokens_per_minute = 0;
  int32_t requests_concurrent_max = 0;
  int32_t sequences_concurrent_max = 0;
  int32_t context_tokens_max = 0;  // prompt and output of one choice
  int32_t n_max = 0;               // choices of a prompt
  bool operator==(const WorkLimits&) const = default;
};

// A rate, and what was used of it. One thread at a time.
class MinuteBucket {
 public:
  MinuteBucket() = default;
  MinuteBucket(double per_minute, int64_t now_ns)
      : per_minute_(per_minute), level_(per_minute), time_ns_(now_ns) {}

  // From now on another rate; what was used counts on.
  void SetRate(double per_minute) { per_minute_ = per_minute; }
  // This server's part of the rate, where other servers share it. Negative: all of it.
  void SetShare(double per_minute) { share_ = per_minute; }
  bool is_limited() const { return per_minute_ > 0.0; }
  double per_minute() const { return per_minute_; }

  // Seconds until so much may be taken; 0: now. More than a minute's worth needs a full bucket.
  double WaitFor(double amount, int64_t now_ns);
  // May leave a negative level; a negative amount is given back.
  void Take(double amount) { level_ -= amount; }
  double level(int64_t now_ns);
  double SecondsUntilFull(int64_t now_ns);
  // What was asked for since the last call.
  void Ask(double amount) { asked_ += amount; }
  double TakeAsked() { return std::exchange(asked_, 0.0); }

 private:
  double Capacity() const;
  void AdvanceTo(int64_t now_ns);

  double per_minute_ = 0.0;  // 0: no limit
  double share_ = -1.0;
  double level_ = 0.0;
  double asked_ = 0.0;
  int64_t time_ns_ = 0;
};

// What a request asks for.
struct Work {
  int32_t num_sequences = 0;
  int64_t prompt_tokens = 0;
  int64_t tokens = 0;  // with max_tokens, where it is given
};

// The account of a key, or of a tenant. It outlives entries of the keys file that are replaced.
class WorkMeter {
 public:
  // `who` in errors: "key" or "tenant".
  WorkMeter(std::string who, const WorkLimits& limits, int64_t now_ns);

  void SetLimits(const WorkLimits& limits);
  void SetShares(double requests_per_minute, double tokens_per_minute);
  // What was asked for since the last call.
  double TakeAskedRequests();
  double TakeAskedTokens();

  // One request more: from the bucket, and with a place until LeaveRequest. Or 429, and when to
  // come back.
  std::optional<ApiError> EnterRequest(int64_t now_ns);
  std::optional<ApiError> CountRequest(int64_t now_ns);
  void LeaveRequest(int64_t now_ns);
  // The request was let in here and is refused elsewhere.
  void UndoRequest();

  // What it asks for, until LeaveWork. 429, or 400 where it can never be.
  std::optional<ApiError> EnterWork(const Work& work, int64_t now_ns);
  // So many tokens it was.
  void LeaveWork(const Work& work, int64_t tokens, int64_t now_ns);

  // For the headers of answers.
  struct Rate {
    double limit = 0.0;  // 0: none
    double left = 0.0;
    double full_s = 0.0;
  };
  Rate RequestRate(int64_t now_ns) { return RateOf(&requests_, now_ns); }
  Rate TokenRate(int64_t now_ns) { return RateOf(&tokens_, now_ns); }

 private:
  std::optional<ApiError> TakeRequest(int64_t now_ns);  // under the lock
  Rate RateOf(MinuteBucket* bucket, int64_t now_ns);

  const std::string who_;
  std::mutex mutex_;
  WorkLimits limits_;
  MinuteBucket requests_;
  MinuteBucket tokens_;
  MeteredPlaces request_places_;
  MeteredPlaces sequence_places_;
};

// MeterLease: what a request holds of its key's and its tenant's limits: a place among the
// requests, or its `work`. When the lease is destroyed, it gives back the place, or the work except
// for the tokens that were used (SetTokens). The meters are shared, since a reload may drop the key
// while its requests run.
class MeterLease {
 public:
  MeterLease() = default;
  MeterLease(std::shared_ptr<WorkMeter> key, std::shared_ptr<WorkMeter> tenant, const Clock& clock,
             std::optional<Work> work = std::nullopt)
      : meters_{std::move(key), std::move(tenant)},
        clock_(&clock),
        work_(work),
        tokens_(work.has_value() ? work->tokens : 0) {}
  MeterLease(MeterLease&& other) noexcept { *this = std::move(other); }
  MeterLease& operator=(MeterLease&& other) noexcept;
  ~MeterLease();

  // What the work came to; else all that it asked for.
  void SetTokens(int64_t tokens) { tokens_ = tokens; }

 private:
  std::array<std::shared_ptr<WorkMeter>, 2> meters_;  // null: nothing is held
  const Clock* clock_ = nullptr;
  std::optional<Work> work_;
  int64_t tokens_ = 0;
};

// The x-ratelimit headers of an answer, by whichever of the two leaves less; none without limits.
std::vector<std::pair<std::string, std::string>> RateLimitHeaders(WorkMeter& key, WorkMeter& tenant,
                                                                  int64_t now_ns);

}  // namespace graft
