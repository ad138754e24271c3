#include "keys/work_limits.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"

namespace graft {
namespace {

ApiError LimitError(std::string message, double wait_s) {
  ApiError error = HttpError(429, "rate_limit_exceeded", std::move(message));
  error.retry_after_s = std::max(1, static_cast<int>(std::ceil(wait_s)));
  return error;
}

std::string Seconds(double seconds) {
  return std::to_string(static_cast<int64_t>(std::ceil(seconds))) + "s";
}

using Headers = std::vector<std::pair<std::string, std::string>>;

void AppendRate(const char* what, const WorkMeter::Rate& a, const WorkMeter::Rate& b,
                Headers* headers) {
  const bool is_b = a.limit <= 0.0 || (b.limit > 0.0 && b.left < a.left);
  const WorkMeter::Rate& rate = is_b ? b : a;
  if (rate.limit <= 0.0) return;
  const auto add = [&](const char* kind, std::string value) {
    headers->emplace_back(std::string("x-ratelimit-") + kind + "-" + what, std::move(value));
  };
  add("limit", std::to_string(static_cast<int64_t>(rate.limit)));
  add("remaining", std::to_string(static_cast<int64_t>(std::max(rate.left, 0.0))));
  add("reset", Seconds(rate.full_s));
}

}  // namespace

double MinuteBucket::Capacity() const {
  constexpr double kShareMin = 0.01;  // a minute, so that every caller's turn comes
  return share_ < 0.0 ? per_minute_ : std::max(share_, kShareMin);
}

void MinuteBucket::AdvanceTo(int64_t now_ns) {
  const double capacity = Capacity();
  level_ += NsToSeconds(now_ns - time_ns_) * capacity / 60.0;
  level_ = std::min(level_, std::max(capacity, 1.0));
  time_ns_ = now_ns;
}

double MinuteBucket::WaitFor(double amount, int64_t now_ns) {
  if (!is_limited()) return 0.0;
  AdvanceTo(now_ns);
  const double capacity = Capacity();
  const double missing = std::min(amount, std::max(capacity, 1.0)) - level_;
  return missing <= 0.0 ? 0.0 : missing / (capacity / 60.0);
}

double MinuteBucket::level(int64_t now_ns) {
  AdvanceTo(now_ns);
  return level_;
}

double MinuteBucket::SecondsUntilFull(int64_t now_ns) {
  AdvanceTo(now_ns);
  return std::max(0.0, Capacity() - level_) / (Capacity() / 60.0);
}

WorkMeter::WorkMeter(std::string who, const WorkLimits& limits, int64_t now_ns)
    : who_(std::move(who)),
      limits_(limits),
      requests_(limits.requests_per_minute, now_ns),
      tokens_(limits.tokens_per_minute, now_ns) {}

void WorkMeter::SetLimits(const WorkLimits& limits) {
  std::lock_guard lock(mutex_);
  limits_ = limits;
  requests_.SetRate(limits.requests_per_minute);
  tokens_.SetRate(limits.tokens_per_minute);
}

void WorkMeter::SetShares(double requests_per_minute, double tokens_per_minute) {
  std::lock_guard lock(mutex_);
  requests_.SetShare(requests_per_minute);
  tokens_.SetShare(tokens_per_minute);
}

double WorkMeter::TakeAskedRequests() {
  std::lock_guard lock(mutex_);
  return requests_.TakeAsked();
}

double WorkMeter::TakeAskedTokens() {
  std::lock_guard lock(mutex_);
  return tokens_.TakeAsked();
}

std::optional<ApiError> WorkMeter::TakeRequest(int64_t now_ns) {
  if (!requests_.is_limited()) return std::nullopt;
  requests_.Ask(1);
  const double wait_s = requests_.WaitFor(1, now_ns);
  if (wait_s > 0.0) {
    return LimitError("This " + who_ + "'s limit is " +
                          std::to_string(limits_.requests_per_minute) +
                          " requests a minute; try again in " + Seconds(wait_s) + ".",
                      wait_s);
  }
  requests_.Take(1);
  return std::nullopt;
}

std::optional<ApiError> WorkMeter::EnterRequest(int64_t now_ns) {
  std::lock_guard lock(mutex_);
  const int32_t concurrent_max = limits_.requests_concurrent_max;
  if (concurrent_max > 0 && request_places_.num_taken() >= concurrent_max) {
    return LimitError("This " + who_ + " has " + std::to_string(request_places_.num_taken()) +
                          " requests running, its limit.",
                      request_places_.RetryAfterS(1, now_ns));
  }
  if (auto error = TakeRequest(now_ns)) return error;
  request_places_.Take(1, concurrent_max, now_ns);
  return std::nullopt;
}

std::optional<ApiError> WorkMeter::CountRequest(int64_t now_ns) {
  std::lock_guard lock(mutex_);
  return TakeRequest(now_ns);
}

void WorkMeter::LeaveRequest(int64_t now_ns) {
  std::lock_guard lock(mutex_);
  request_places_.Free(1, limits_.requests_concurrent_max, now_ns);
}

void WorkMeter::UndoRequest() {
  std::lock_guard lock(mutex_);
  if (requests_.is_limited()) requests_.Take(-1);
}

std::optional<ApiError> WorkMeter::EnterWork(const Work& work, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  const int32_t sequences_max = limits_.sequences_concurrent_max;
  if (sequences_max > 0 && work.num_sequences > sequences_max) {
    return InvalidRequestError("n", "This " + who_ + " may have " + std::to_string(sequences_max) +
                                        " choices at once, and the request asks for " +
                                        std::to_string(work.num_sequences) +
                                        ": lower n or send fewer prompts.");
  }
  const int64_t taken = sequence_places_.num_taken();
  if (sequences_max > 0 && taken + work.num_sequences > sequences_max) {
    const int64_t missing = taken + work.num_sequences - sequences_max;
    return LimitError("This " + who_ + " has " + std::to_string(taken) +
                          " choices running, and its limit is " + std::to_string(sequences_max) +
                          ".",
                      sequence_places_.RetryAfterS(missing, now_ns));
  }
  if (tokens_.is_limited()) {
    const auto tokens = static_cast<double>(work.tokens);
    if (work.tokens > limits_.tokens_per_minute) {
      return InvalidRequestError("max_tokens",
                                 "The request asks for up to " + std::to_string(work.tokens) +
                                     " tokens, more than this " + who_ + " has in a minute (" +
                                     std::to_string(limits_.tokens_per_minute) +
                                     "): lower max_tokens or n, or shorten the prompt.");
    }
    tokens_.Ask(tokens);
    const double wait_s = tokens_.WaitFor(tokens, now_ns);
    if (wait_s > 0.0) {
      return LimitError("This " + who_ + "'s limit is " +
                            std::to_string(limits_.tokens_per_minute) +
                            " tokens a minute, and the request asks for up to " +
                            std::to_string(work.tokens) + "; try again in " + Seconds(wait_s) + ".",
                        wait_s);
    }
    tokens_.Take(tokens);
  }
  sequence_places_.Take(work.num_sequences, sequences_max, now_ns);
  return std::nullopt;
}

void WorkMeter::LeaveWork(const Work& work, int64_t tokens, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  sequence_places_.Free(work.num_sequences, limits_.sequences_concurrent_max, now_ns);
  if (tokens_.is_limited()) tokens_.Take(static_cast<double>(tokens - work.tokens));
}

WorkMeter::Rate WorkMeter::RateOf(MinuteBucket* bucket, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  if (!bucket->is_limited()) return {};
  return {.limit = bucket->per_minute(),
          .left = bucket->level(now_ns),
          .full_s = bucket->SecondsUntilFull(now_ns)};
}

MeterLease& MeterLease::operator=(MeterLease&& other) noexcept {
  std::swap(meters_, other.meters_);
  std::swap(clock_, other.clock_);
  std::swap(work_, other.work_);
  std::swap(tokens_, other.tokens_);
  return *this;
}

MeterLease::~MeterLease() {
  for (const std::shared_ptr<WorkMeter>& meter : meters_) {
    if (meter == nullptr) continue;
    if (work_.has_value()) {
      meter->LeaveWork(*work_, tokens_, clock_->NowNs());
    } else {
      meter->LeaveRequest(clock_->NowNs());
    }
  }
}

Headers RateLimitHeaders(WorkMeter& key, WorkMeter& tenant, int64_t now_ns) {
  Headers headers;
  AppendRate("requests", key.RequestRate(now_ns), tenant.RequestRate(now_ns), &headers);
  AppendRate("tokens", key.TokenRate(now_ns), tenant.TokenRate(now_ns), &headers);
  return headers;
}

}  // namespace graft
