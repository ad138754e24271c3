// Ranks are real processes here, forked from the test, which is one of them.
#include "tensor/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

#include "base/log.h"
#include "tensor/shared_memory.h"

namespace graft {
namespace communicator_test {

using ::testing::HasSubstr;

constexpr int64_t kSecondNs = 1'000'000'000;

void SleepMs(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// What a rank returns: "" where all is as it should be.
using Body = std::function<std::string(Communicator&)>;

class Ranks {
 public:
  explicit Ranks(const CommunicatorLimits& limits) : processes_(limits.num_ranks, 0) {
    Result<SharedMemory> memory = SharedMemory::Create(Communicator::Bytes(limits));
    CHECK(memory.ok()) << memory.status().ToString();
    memory_ = std::move(*memory);
    Communicator::Format(limits, memory_.data());
  }
  ~Ranks() {
    for (const pid_t process : processes_) {
      if (process == 0) continue;
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
  }

  char* memory() { return memory_.data(); }
  pid_t process(int32_t rank) const { return processes_[rank]; }
  int32_t num_ranks() const { return static_cast<int32_t>(processes_.size()); }

  void Fork(int32_t rank, const Body& body) {
    processes_[rank] = fork();
    if (processes_[rank] != 0) return;
    Communicator communicator(memory_.data(), rank);
    const std::string said = body(communicator);
    if (!said.empty()) fprintf(stderr, "rank %d: %s\n", rank, said.c_str());
    _exit(said.empty() ? 0 : 1);
  }
  // All but rank 0.
  void ForkOthers(const Body& body) {
    for (int32_t rank = 1; rank < num_ranks(); ++rank) Fork(rank, body);
  }
  // The process has said that all is well.
  void ExpectWell(int32_t rank) {
    int status = -1;
    waitpid(processes_[rank], &status, 0);
    processes_[rank] = 0;
    EXPECT_EQ(status, 0) << "rank " << rank;
  }
  void ExpectOthersWell() {
    for (int32_t rank = 1; rank < num_ranks(); ++rank) ExpectWell(rank);
  }

 private:
  SharedMemory memory_;
  std::vector<pid_t> processes_;
};

// Numbers with a sum that depends on their order.
float Element(int32_t rank, int64_t round, int64_t i) {
  const float sizes[] = {1e8f, 1.0f, -1e8f, 3e-3f, 7.0f};
  return sizes[(rank + i) % 5] * (1.0f + static_cast<float>((i * 7 + round * 3 + rank) % 11));
}

float ExpectedSum(int32_t num_ranks, int64_t round, int64_t i) {
  float sum = Element(0, round, i);
  for (int32_t rank = 1; rank < num_ranks; ++rank) sum += Element(rank, round, i);
  return sum;
}

// Some ranks are late in turn, by so little that the others still look, or so much that they sleep.
void BeLate(int32_t rank, int64_t round) {
  if (round % 5 == rank) SleepMs(round % 2 == 0 ? 3 : 0);
}

std::string SumManyTimes(Communicator& ranks) {
  ThreadPool threads(2);
  const int64_t sizes[] = {0, 1, 3, 511, 512, 513, 9000};
  for (int64_t round = 0; round < 140; ++round) {
    const int64_t n = sizes[round % 7];
    const bool accumulates = round % 3 == 0;
    for (int64_t i = 0; i < n; ++i) ranks.part()[i] = Element(ranks.rank(), round, i);
    std::vector<float> out(n + 1, 0.5f);
    BeLate(ranks.rank(), round);
    const Status status = ranks.AllReduce(n, accumulates, out.data(), threads);
    if (!status.ok()) return status.ToString();
    for (int64_t i = 0; i < n; ++i) {
      const float sum = ExpectedSum(ranks.num_ranks(), round, i);
      if (out[i] != (accumulates ? 0.5f + sum : sum)) return "another sum " + std::to_string(i);
    }
    if (out[n] != 0.5f) return "more than it was asked for";
  }
  return "";
}

TEST(CommunicatorTest, SumsInTheOrderOfTheRanks) {
  for (const int32_t num_ranks : {1, 2, 3, 4, 5}) {
    Ranks ranks({.num_ranks = num_ranks, .part_floats = 9000});
    ranks.ForkOthers(SumManyTimes);
    Communicator first(ranks.memory(), 0);
    EXPECT_EQ(SumManyTimes(first), "") << num_ranks << " ranks";
    ranks.ExpectOthersWell();
  }
}

// A rank that is through with an exchange writes for the next one while others still read.
TEST(CommunicatorTest, PartsStayUntilAllHaveReadThem) {
  constexpr int kRounds = 300;
  const auto value = [](int32_t rank, int round, int i) {
    return static_cast<float>(round * 100 + rank * 10 + i);
  };
  const auto body = [&](Communicator& ranks) -> std::string {
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < 4; ++i) ranks.part()[i] = value(ranks.rank(), round, i);
      if (!ranks.Exchange().ok()) return "no exchange";
      BeLate(ranks.rank(), round);
      for (int32_t rank = 0; rank < 3; ++rank) {
        for (int i = 0; i < 4; ++i) {
          if (ranks.part_of(rank)[i] != value(rank, round, i)) return "another part";
        }
      }
    }
    return "";
  };
  Ranks ranks({.num_ranks = 3, .part_floats = 4});
  ranks.ForkOthers(body);
  Communicator first(ranks.memory(), 0);
  EXPECT_EQ(body(first), "");
  ranks.ExpectOthersWell();
}

std::vector<char> MessageOf(int number, size_t size) {
  std::vector<char> message(size);
  for (size_t i = 0; i < size; ++i) message[i] = static_cast<char>(number * 31 + i * 7);
  return message;
}

// Messages of any size pass a ring of a few bytes, in order, to readers of any pace.
TEST(CommunicatorTest, MessagesComeWholeAndInOrder) {
  const size_t sizes[] = {0, 1, 63, 64, 100, 101, 2000};
  for (const int64_t room : {64, 100, 1 << 20}) {
    Ranks ranks({.num_ranks = 3, .message_bytes = room});
    ranks.ForkOthers([&](Communicator& rank) -> std::string {
      std::vector<char> message;
      for (int i = 0; i < 28; ++i) {
        BeLate(rank.rank(), i);
        const Status status = rank.Receive(&message);
        if (!status.ok()) return status.ToString();
        if (message != MessageOf(i, sizes[i % 7])) return "another message " + std::to_string(i);
      }
      return "";
    });
    Communicator first(ranks.memory(), 0);
    for (int i = 0; i < 28; ++i) ASSERT_TRUE(first.Send(MessageOf(i, sizes[i % 7])).ok());
    ranks.ExpectOthersWell();
  }
}

// What a rank gets that waits for others which do not come.
std::string FailureOf(Communicator& rank) {
  ThreadPool threads(1);
  float sum = 0.0f;
  const Status status = rank.AllReduce(1, false, &sum, threads);
  return status.ok() ? "a sum" : status.message();
}

TEST(CommunicatorTest, AKilledRankIsToldToAll) {
  Ranks ranks({.num_ranks = 3, .part_floats = 1});
  std::string told;
  ranks.Fork(1, [](Communicator&) -> std::string {
    raise(SIGKILL);
    return "";
  });
  const std::string expected =
      "rank 1 (process " + std::to_string(ranks.process(1)) + ") has ended";
  ranks.Fork(2, [&](Communicator& rank) -> std::string {
    const std::string why = FailureOf(rank);
    return why == expected ? "" : why;
  });
  Communicator first(ranks.memory(), 0);
  EXPECT_EQ(FailureOf(first), expected);
  EXPECT_EQ(first.Send({}).message(), expected) << "nothing works any more";
  EXPECT_EQ(FailureOf(first), expected);
  ranks.ExpectWell(2);
}

// A rank may end before it has a Communicator; the process that forked it knows its process.
TEST(CommunicatorTest, ARankThatNeverCameIsToldToAll) {
  Ranks ranks({.num_ranks = 2, .part_floats = 1});
  Communicator first(ranks.memory(), 0);
  const pid_t process = fork();
  if (process == 0) _exit(0);
  first.SetProcess(1, process);
  EXPECT_THAT(FailureOf(first), HasSubstr("has ended"));
  waitpid(process, nullptr, 0);
}

TEST(CommunicatorTest, AStoppedRankIsWaitedForSoLong) {
  Ranks ranks({.num_ranks = 3, .part_floats = 1, .timeout_ns = kSecondNs});
  ranks.Fork(1, FailureOf);
  ranks.Fork(2, [](Communicator& rank) -> std::string {
    raise(SIGSTOP);
    return FailureOf(rank);
  });
  Communicator first(ranks.memory(), 0);
  EXPECT_THAT(FailureOf(first), HasSubstr(") is stopped and has not answered for 1 s"));
}

TEST(CommunicatorTest, WhoWaitsForADeviceLooksForStoppedRanks) {
  Ranks ranks({.num_ranks = 3, .part_floats = 1, .timeout_ns = kSecondNs});
  ranks.ForkOthers([](Communicator& rank) -> std::string {
    rank.Report(1);
    for (;;) SleepMs(1000);
  });
  Communicator first(ranks.memory(), 0);
  ASSERT_TRUE(first.AwaitReports(1, true).ok()) << "their processes are known";
  EXPECT_TRUE(first.LookForStopped(2 * kSecondNs).ok()) << "both go on";
  kill(ranks.process(2), SIGSTOP);
  std::string why;
  for (int i = 0; i < 1000 && why.empty(); ++i) {
    EXPECT_TRUE(first.LookForStopped(kSecondNs / 2).ok()) << "not long enough";
    why = first.LookForStopped(2 * kSecondNs).message();
    SleepMs(1);
  }
  EXPECT_THAT(why, HasSubstr("rank 2 (process "));
  EXPECT_THAT(why, HasSubstr(") is stopped and has not answered for 1 s"));
}

TEST(CommunicatorTest, ARankThatDoesNotAnswerIsWaitedForSoLong) {
  Ranks ranks({.num_ranks = 2, .part_floats = 1, .timeout_ns = kSecondNs});
  ranks.Fork(1, [](Communicator&) -> std::string {
    for (;;) SleepMs(1000);
  });
  Communicator first(ranks.memory(), 0);
  EXPECT_THAT(FailureOf(first), HasSubstr(") has not answered for 1 s"));
}

// A rank that is slow, or stopped for a while, is no failure.
TEST(CommunicatorTest, WhoComesBackInTimeIsWaitedFor) {
  Ranks ranks({.num_ranks = 2, .part_floats = 9000});
  ranks.ForkOthers(SumManyTimes);
  std::thread debugger([&] {
    for (int i = 0; i < 5; ++i) {
      SleepMs(20);
      kill(ranks.process(1), SIGSTOP);
      SleepMs(60);
      kill(ranks.process(1), SIGCONT);
    }
  });
  Communicator first(ranks.memory(), 0);
  EXPECT_EQ(SumManyTimes(first), "");
  debugger.join();
  ranks.ExpectOthersWell();
}

// A rank that was stopped itself for longer than the others may take does not blame them.
TEST(CommunicatorTest, ItsOwnSleepIsNobodysFault) {
  Ranks ranks({.num_ranks = 2, .part_floats = 1, .timeout_ns = kSecondNs});
  ranks.Fork(1, [](Communicator& rank) -> std::string { return rank.Exchange().message(); });
  SleepMs(50);
  kill(ranks.process(1), SIGSTOP);
  SleepMs(1500);
  kill(ranks.process(1), SIGCONT);
  Communicator first(ranks.memory(), 0);
  EXPECT_TRUE(first.Exchange().ok());
  ranks.ExpectWell(1);
}

TEST(CommunicatorTest, ListenersNoticeTheEndOfWhoSpeaks) {
  Ranks ranks({.num_ranks = 2});
  ranks.Fork(0, [](Communicator&) -> std::string {
    SleepMs(20);
    return "";
  });
  Communicator second(ranks.memory(), 1);
  std::vector<char> message;
  EXPECT_THAT(second.Receive(&message).message(), HasSubstr("rank 0 (process "));
}

TEST(CommunicatorTest, WhoSpeaksNoticesTheEndOfListeners) {
  Ranks ranks({.num_ranks = 2, .message_bytes = 10});
  ranks.Fork(1, [](Communicator&) -> std::string { return ""; });
  Communicator first(ranks.memory(), 0);
  EXPECT_THAT(first.Send(std::vector<char>(11)).message(), HasSubstr("rank 1 (process "));
}

TEST(CommunicatorTest, ReportsOfAllAreAwaited) {
  Ranks ranks({.num_ranks = 3, .timeout_ns = kSecondNs});
  ranks.ForkOthers([](Communicator& rank) -> std::string {
    SleepMs(rank.rank() * 20);
    rank.Report(1);
    SleepMs(1500);  // without a limit
    rank.Report(2);
    for (;;) SleepMs(1000);
  });
  Communicator first(ranks.memory(), 0);
  EXPECT_TRUE(first.AwaitReports(1, true).ok());
  EXPECT_TRUE(first.AwaitReports(2, false).ok());
  EXPECT_THAT(first.AwaitReports(3, true).message(), HasSubstr("has not answered for 1 s"));
}

TEST(CommunicatorDeathTest, TheFirstRankSaysWhyTheServerEnds) {
  const auto end = [](int32_t rank, const char* why) {
    CHECK(InitLog("info").ok());
    EndRank(rank, UnavailableError(why));
  };
  EXPECT_EXIT(end(0, "rank 1 has ended"), ::testing::ExitedWithCode(1), "rank 1 has ended");
  EXPECT_EXIT(end(1, "rank 2 has ended"), ::testing::ExitedWithCode(1), "^$");
}

TEST(CommunicatorTest, ARankSaysWhyItCannotGoOn) {
  Ranks ranks({.num_ranks = 3, .part_floats = 1});
  ranks.Fork(1, [](Communicator& rank) -> std::string {
    rank.Break("rank 1: memory ran out");
    rank.Break("and a second reason");
    return "";
  });
  ranks.Fork(2, [](Communicator& rank) -> std::string {
    std::vector<char> message;
    const std::string why = rank.Receive(&message).message();
    return why == "rank 1: memory ran out" ? "" : why;
  });
  Communicator first(ranks.memory(), 0);
  EXPECT_EQ(FailureOf(first), "rank 1: memory ran out");
  ranks.ExpectWell(1);
  ranks.ExpectWell(2);
}

// A step that comes to nothing is no end: the next one does.
TEST(CommunicatorTest, AStepMayFail) {
  Ranks ranks({.num_ranks = 3, .part_floats = 1});
  ranks.ForkOthers([](Communicator& rank) -> std::string {
    for (int step = 0; step < 2; ++step) {
      if (step == 0) rank.Fail("no memory");
      if (!rank.Exchange().ok()) return "an exchange failed";
      if (!rank.Exchange().ok()) return "the exchange between steps failed";
    }
    return "";
  });
  Communicator first(ranks.memory(), 0);
  for (const char* const expected : {"no memory", ""}) {
    EXPECT_TRUE(first.Exchange().ok());
    EXPECT_EQ(first.TakeFailure(), expected);
    EXPECT_EQ(first.TakeFailure(), "");
    EXPECT_TRUE(first.Exchange().ok());
  }
  EXPECT_TRUE(first.state().ok());
  ranks.ExpectOthersWell();
}

// What a GPU has waited for in vain is told as if the host had.
TEST(CommunicatorTest, ARankIsBlamed) {
  Ranks ranks({.num_ranks = 2, .timeout_ns = 7 * kSecondNs});
  ranks.Fork(1, [](Communicator&) -> std::string {
    for (;;) SleepMs(1000);
  });
  Communicator first(ranks.memory(), 0);
  first.SetProcess(1, ranks.process(1));
  EXPECT_EQ(*first.broken(), 0u);
  const Status blamed = first.Blame(1);
  EXPECT_THAT(blamed.message(), HasSubstr("rank 1 (process "));
  EXPECT_THAT(blamed.message(), HasSubstr("has not answered for 7 s"));
  EXPECT_NE(*first.broken(), 0u);
  EXPECT_EQ(first.header().data(), ranks.memory());
  EXPECT_EQ(first.header().size() % 4096, 0u);
}

}  // namespace communicator_test
}  // namespace graft
