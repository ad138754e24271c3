#include "cluster/ask_in_turns.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace graft {
namespace {

bool IsAway(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded ||
         code == StatusCode::kCancelled;
}

bool IsVerdict(const Result<AdapterInfo>& answer) {
  const StatusCode code = answer.status().code();
  return !IsAway(code) && code != StatusCode::kNotFound && code != StatusCode::kPermissionDenied;
}

// The state of one question, shared by its threads.
struct Asked {
  std::mutex mutex;
  std::condition_variable changed;
  size_t num_open = 0;
  std::optional<Result<AdapterInfo>> verdict;
  Status best;  // of the answers that are no verdict
  bool somebody_looked = false;

  void Take(Result<AdapterInfo> answer) {
    std::lock_guard lock(mutex);
    --num_open;
    if (IsVerdict(answer)) {
      if (!verdict.has_value()) verdict = std::move(answer);
    } else if (const bool looked = !IsAway(answer.status().code());
               best.ok() || (looked && !somebody_looked)) {
      best = answer.status();
      somebody_looked = looked;
    }
    changed.notify_all();
  }
};

}  // namespace

Result<AdapterInfo> AskInTurns(const std::vector<AdapterAsk>& asks, int64_t patience_ms,
                               Status nobody) {
  Asked asked;
  std::vector<std::thread> threads;
  {
    std::unique_lock lock(asked.mutex);
    const auto is_over = [&asked] { return asked.verdict.has_value() || asked.num_open == 0; };
    for (const AdapterAsk& one : asks) {
      ++asked.num_open;
      threads.emplace_back([&asked, &one] { asked.Take(one.ask()); });
      asked.changed.wait_for(lock, std::chrono::milliseconds(patience_ms), is_over);
      if (asked.verdict.has_value()) break;
    }
    asked.changed.wait(lock, is_over);
  }
  for (size_t i = 0; i < threads.size(); ++i) asks[i].cancel();
  for (std::thread& thread : threads) thread.join();
  if (asked.verdict.has_value()) return *std::move(asked.verdict);
  return asked.best.ok() ? nobody : asked.best;
}

}  // namespace graft
