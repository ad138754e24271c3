#include "sources/web_patience.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/fault.h"
#include "base/strings.h"

namespace graft {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kWaitNsMax = 20 * kNsPerSecond;
constexpr int64_t kSleepPieceNs = 50'000'000;
constexpr int64_t kAskedSecondsMax = 1 << 30;

std::optional<int64_t> WholeNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return std::min(number, kAskedSecondsMax);
}

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::optional<int64_t> UnixTimeOf(const std::string& date) {
  std::tm time{};
  const char* const end = strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &time);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return timegm(&time);
}

}  // namespace

bool IsPassingStatus(int http_status) {
  return http_status == 408 || http_status == 425 || http_status == 429 ||
         (http_status >= 500 && http_status <= 504);
}

std::optional<int64_t> AskedWaitNs(const WebAnswer& answer, int64_t now_unix_s) {
  const std::string after = answer.Header("retry-after");
  if (const auto seconds = WholeNumber(after); seconds.has_value()) return *seconds * kNsPerSecond;
  if (const auto when = UnixTimeOf(after); when.has_value()) {
    return std::clamp<int64_t>(*when - now_unix_s, 0, kAskedSecondsMax) * kNsPerSecond;
  }
  // RateLimit: "api";r=0;t=55
  const std::string limit = answer.Header("ratelimit");
  const size_t at = limit.find(";t=");
  if (answer.status != 429 || at == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(limit).substr(at + 3);
  const auto seconds = WholeNumber(Trimmed(rest.substr(0, rest.find(';'))));
  if (!seconds.has_value()) return std::nullopt;
  return *seconds * kNsPerSecond;
}

Status WebPatience::Sleep(int64_t ns) const {
  if (options_.sleep) {
    options_.sleep(ns);
    ns = 0;
  }
  const int64_t end_ns = SteadyClock::Get().NowNs() + ns;
  for (;;) {
    if (is_cancelled_ != nullptr && is_cancelled_->load()) {
      return CancelledError("the fetch was cancelled");
    }
    const int64_t left_ns = end_ns - SteadyClock::Get().NowNs();
    if (left_ns <= 0) return OkStatus();
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left_ns, kSleepPieceNs)));
  }
}

Status WebPatience::WaitAfter(const Status& failure, std::optional<int64_t> asked_ns) {
  if (!IsPassing(failure) || ++tries_ >= options_.tries_max) return failure;
  if (asked_ns.value_or(0) > options_.wait_ns_max) return failure;
  const int64_t own_ns = std::min(options_.first_wait_ns << (tries_ - 1), kWaitNsMax);
  return Sleep(asked_ns.value_or(own_ns));
}

Result<WebAnswer> WebPatience::Ask(WebConnection& connection, const WebOrder& order) {
  for (;;) {
    Result<WebAnswer> answer = connection.Ask(order);
    std::optional<int64_t> asked_ns;
    Status failure = answer.status();
    if (answer.ok() && IsPassingStatus(answer->status)) {
      asked_ns = AskedWaitNs(*answer, UnixTimeSeconds());
      failure =
          UnavailableError(answer->url.ForPeople() + " answered " + std::to_string(answer->status));
    }
    if (failure.ok()) {
      tries_ = 0;
      return answer;
    }
    if (!answer.ok() && tries_ + 1 >= options_.unreached_tries_max) return answer;
    RETURN_IF_ERROR(WaitAfter(failure, asked_ns));
  }
}

}  // namespace graft
