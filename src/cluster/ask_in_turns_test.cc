#include "cluster/ask_in_turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace graft {
namespace ask_in_turns_test {
namespace {

constexpr int64_t kNoPatienceMs = 1;
constexpr int64_t kForeverMs = 3'600'000;

// A machine that answers at once, or hangs until it is cancelled.
class Machine {
 public:
  explicit Machine(std::optional<Result<AdapterInfo>> answer) : answer_(std::move(answer)) {}

  AdapterAsk ask() {
    return {.ask = [this]() -> Result<AdapterInfo> {
              ++num_asked;
              std::unique_lock lock(mutex_);
              wake_.wait(lock, [this] { return answer_.has_value() || is_cancelled_; });
              if (answer_.has_value()) return *answer_;
              return Status(StatusCode::kCancelled, "cancelled");
            },
            .cancel =
                [this] {
                  std::lock_guard lock(mutex_);
                  is_cancelled_ = true;
                  wake_.notify_all();
                }};
  }
  std::atomic<int> num_asked{0};

 private:
  const std::optional<Result<AdapterInfo>> answer_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_cancelled_ = false;
};

AdapterInfo Good(const std::string& hash) {
  AdapterInfo info;
  info.hash = hash;
  return info;
}

std::vector<AdapterAsk> AsksOf(const std::vector<Machine*>& machines) {
  std::vector<AdapterAsk> asks;
  for (Machine* const machine : machines) asks.push_back(machine->ask());
  return asks;
}

TEST(AskInTurnsTest, OneThatHangsHoldsUpNobody) {
  Machine hangs(std::nullopt), good(Good("h"));
  const auto answer = AskInTurns(AsksOf({&hangs, &good}), kNoPatienceMs, InternalError("none"));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->hash, "h");
}

TEST(AskInTurnsTest, AVerdictIsAskedForOnce) {
  Machine away(UnavailableError("away")), bad(FailedPreconditionError("it fails its self-test"));
  Machine other(Good("h"));
  const auto answer = AskInTurns(AsksOf({&away, &bad, &other}), kForeverMs, InternalError("none"));
  EXPECT_EQ(answer.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(other.num_asked, 0);
}

TEST(AskInTurnsTest, WhereNobodyCanTellTheAnswerIsOfOneThatLooked) {
  Machine away(UnavailableError("away")), late(DeadlineExceededError("late"));
  Machine without(NotFoundError("no such folder"));
  EXPECT_EQ(AskInTurns(AsksOf({&away, &late, &without}), kForeverMs, InternalError("none"))
                .status()
                .code(),
            StatusCode::kNotFound);
  EXPECT_EQ(AskInTurns(AsksOf({&away, &late}), kForeverMs, InternalError("none")).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(AskInTurns({}, kForeverMs, InternalError("none")).status().code(),
            StatusCode::kInternal);
}

}  // namespace
}  // namespace ask_in_turns_test
}  // namespace graft
