#include "adapters/fetch_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace graft {
namespace {

using ::testing::ElementsAre;

// Contents are numbered in the order in which they are added.
class FetchLineTest : public ::testing::Test {
 protected:
  explicit FetchLineTest(const FetchLimits& limits = {.threads = 3, .bytes_max = 250})
      : line_(limits) {}

  int32_t Add(int32_t holder, int64_t bytes) {
    const auto content = static_cast<int32_t>(bytes_.size());
    bytes_.push_back(bytes);
    FetchOrder order;
    order.content = content;
    order.holder = holder;
    line_.Add(std::move(order), std::nullopt, /*now_ns=*/content);
    return content;
  }
  AdapterFetch* TakeNext() { return line_.TakeNext(held_bytes_, ++now_ns_); }
  AdapterFetch& At(int32_t content) {
    for (AdapterFetch& fetch : line_.fetches()) {
      if (fetch.order.content == content) return fetch;
    }
    ADD_FAILURE() << "content " << content << " is gone";
    return line_.fetches().front();
  }
  void End(int32_t content) { line_.Erase(At(content)); }
  // As many threads as have work: looks end at once, reads do not. Contents that are read now.
  std::vector<int32_t> Begin() {
    std::vector<int32_t> begun;
    while (line_.HasNext(held_bytes_)) {
      AdapterFetch& fetch = *TakeNext();
      if (fetch.phase == FetchPhase::kLooking) {
        line_.SetSize(fetch, bytes_[static_cast<size_t>(fetch.order.content)], ++now_ns_);
      } else {
        begun.push_back(fetch.order.content);
      }
    }
    EXPECT_EQ(TakeNext(), nullptr);
    return begun;
  }

  FetchLine line_;
  std::vector<int64_t> bytes_;  // by content
  int64_t held_bytes_ = 0;
  int64_t now_ns_ = 1000;
};

TEST_F(FetchLineTest, OneHoldersFetchesBeginInOrder) {
  for (int i = 0; i < 6; ++i) Add(1, 10);
  EXPECT_THAT(Begin(), ElementsAre(0, 1, 2)) << "so many threads are a holder's";
  EXPECT_EQ(line_.num_with_thread(), 3);
  EXPECT_EQ(line_.bytes(), 30);
  End(1);
  EXPECT_THAT(Begin(), ElementsAre(3));
  At(0).is_slow = true;
  EXPECT_THAT(Begin(), ElementsAre(4)) << "another thread takes its place";
}

// Also where none of its fetches was slow before.
TEST_F(FetchLineTest, ThreadsOfWhatWasGivenUpDoNotCount) {
  for (int i = 0; i < 5; ++i) Add(1, 10);
  EXPECT_THAT(Begin(), ElementsAre(0, 1, 2));
  for (int32_t content = 0; content < 3; ++content) At(content).is_given_up = true;
  EXPECT_THAT(Begin(), ElementsAre(3, 4));
}

TEST_F(FetchLineTest, HoldersTakeTurnsForRoom) {
  for (int i = 0; i < 4; ++i) Add(1, 200);
  EXPECT_THAT(Begin(), ElementsAre(0));
  for (int i = 0; i < 4; ++i) Add(2, 100);
  Add(3, 50);
  EXPECT_THAT(Begin(), ElementsAre()) << "50 would fit, and it is not its turn";
  End(0);
  EXPECT_THAT(Begin(), ElementsAre(1));
  End(1);
  EXPECT_THAT(Begin(), ElementsAre(4, 8)) << "the first holder's turn comes again";
  End(8);
  EXPECT_THAT(Begin(), ElementsAre());
  End(4);
  EXPECT_THAT(Begin(), ElementsAre(2));
}

TEST_F(FetchLineTest, AHolderWithAllItsThreadsKeepsNoRoom) {
  for (int i = 0; i < 4; ++i) Add(1, 50);
  EXPECT_THAT(Begin(), ElementsAre(0, 1, 2));
  for (int i = 0; i < 2; ++i) Add(2, 50);
  EXPECT_THAT(Begin(), ElementsAre(4, 5));
}

TEST_F(FetchLineTest, ALargeOneIsReadAloneHoweverManySmallOnesCome) {
  Add(1, 100);
  Add(2, 1000);
  EXPECT_THAT(Begin(), ElementsAre(0));
  for (int32_t holder = 3; holder < 9; ++holder) Add(holder, 10);
  EXPECT_THAT(Begin(), ElementsAre());
  End(0);
  EXPECT_THAT(Begin(), ElementsAre(1));
  End(1);
  EXPECT_THAT(Begin(), ElementsAre(2, 3, 4, 5, 6, 7));
}

TEST_F(FetchLineTest, WhatNeedsNoRoomWaitsForNone) {
  Add(1, 250);
  Add(2, 100);
  EXPECT_THAT(Begin(), ElementsAre(0));
  Add(3, 0);
  EXPECT_THAT(Begin(), ElementsAre(2));
}

// The storage may not answer when it is asked for a file's size.
TEST_F(FetchLineTest, WhatIsLookedAtKeepsNothingFromOthers) {
  Add(1, 100);
  Add(1, 100);
  Add(2, 100);
  AdapterFetch* const hangs = TakeNext();
  ASSERT_EQ(hangs->order.content, 0);
  EXPECT_EQ(hangs->phase, FetchPhase::kLooking);
  EXPECT_THAT(Begin(), ElementsAre(1, 2));
  End(1);
  End(2);
  // Its place in line is still the first.
  Add(1, 200);
  line_.SetSize(*hangs, 200, ++now_ns_);
  EXPECT_THAT(Begin(), ElementsAre(0));
  End(0);
  EXPECT_THAT(Begin(), ElementsAre(3));
  End(3);
  EXPECT_THAT(Begin(), ElementsAre());
}

TEST_F(FetchLineTest, AThreadThatLooksIsItsHolders) {
  for (int i = 0; i < 4; ++i) Add(1, 10);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(TakeNext()->phase, FetchPhase::kLooking);
  EXPECT_EQ(TakeNext(), nullptr);
  At(0).is_slow = true;
  EXPECT_EQ(TakeNext()->order.content, 3);
}

TEST_F(FetchLineTest, WhatIsHeldTakesRoom) {
  held_bytes_ = 240;
  Add(1, 20);
  Add(1, 20);
  EXPECT_THAT(Begin(), ElementsAre(0)) << "one is always read";
  held_bytes_ = 200;
  EXPECT_THAT(Begin(), ElementsAre(1));
}

// Slow ones count. Where they take all room, one at a time is read beside them, and only so many.
TEST_F(FetchLineTest, SlowOnesCountAndTakeNotAllRoom) {
  for (int i = 0; i < 10; ++i) Add(1, 100);
  EXPECT_THAT(Begin(), ElementsAre(0, 1));
  At(0).is_slow = true;
  EXPECT_THAT(Begin(), ElementsAre()) << "it still takes its memory";
  At(1).is_slow = true;
  for (int32_t content = 2; content < 6; ++content) {
    EXPECT_THAT(Begin(), ElementsAre(content));
    At(content).is_slow = true;
  }
  EXPECT_THAT(Begin(), ElementsAre()) << "four are beyond the limit";
  EXPECT_EQ(line_.bytes(), 600);
  At(3).is_given_up = true;
  EXPECT_THAT(Begin(), ElementsAre(6));
  EXPECT_EQ(line_.bytes(), 700) << "its memory may still be taken";
  for (const int32_t content : {0, 1, 2, 4, 5}) End(content);
  EXPECT_THAT(Begin(), ElementsAre(7)) << "room for two, with the one that is read";
}

// One holder's slow storage does not keep others from reading: each of these has one read, too.
TEST_F(FetchLineTest, AHolderOfWhichNothingIsReadGoesBeyondOnce) {
  for (int i = 0; i < 9; ++i) Add(1, 100);
  EXPECT_THAT(Begin(), ElementsAre(0, 1));
  for (int32_t content = 0; content < 2; ++content) At(content).is_slow = true;
  for (int32_t content = 2; content < 6; ++content) {
    EXPECT_THAT(Begin(), ElementsAre(content));
    At(content).is_slow = true;
  }
  EXPECT_THAT(Begin(), ElementsAre()) << "four are beyond the limit";
  for (int i = 0; i < 2; ++i) Add(2, 100);  // 9, 10
  for (int i = 0; i < 2; ++i) Add(3, 300);  // 11, 12
  EXPECT_THAT(Begin(), ElementsAre(9)) << "although the first holder's are before it";
  EXPECT_THAT(Begin(), ElementsAre()) << "one at a time, as long as it is not slow";
  At(9).is_slow = true;
  EXPECT_THAT(Begin(), ElementsAre(11));
  At(11).is_slow = true;
  EXPECT_THAT(Begin(), ElementsAre()) << "each has one";
  End(9);
  EXPECT_THAT(Begin(), ElementsAre(10));
  End(10);
  End(11);
  EXPECT_THAT(Begin(), ElementsAre(12));
  End(12);
  End(5);
  EXPECT_THAT(Begin(), ElementsAre(6)) << "one of the four has ended";
}

// One that is slow while it is looked at stays so, as its event was told.
TEST_F(FetchLineTest, StorageThatWasSlowOnceIsSlow) {
  Add(1, 1000);
  AdapterFetch* const slow = TakeNext();
  slow->is_slow = true;
  line_.SetSize(*slow, 1000, ++now_ns_);
  EXPECT_THAT(Begin(), ElementsAre(0));
  EXPECT_TRUE(slow->is_slow);
  Add(1, 10);
  EXPECT_THAT(Begin(), ElementsAre(1)) << "it is not waited for";
}

// A thread is slow by its own time, and a fetch is given up by all of its.
TEST_F(FetchLineTest, APhaseHasItsTimeAndAllOfThemHaveOne) {
  Add(1, 10);
  const int64_t slow_ns = FetchLimits().slow_ns, give_up_ns = FetchLimits().give_up_ns;
  EXPECT_EQ(line_.GiveUpFromNs(At(0)), give_up_ns);
  AdapterFetch* const fetch = TakeNext();
  EXPECT_EQ(line_.SlowFromNs(*fetch), now_ns_ + slow_ns);
  EXPECT_EQ(line_.GiveUpFromNs(*fetch), give_up_ns);
  line_.SetSize(*fetch, 10, 5000);
  EXPECT_EQ(fetch->since_ns, 5000);
  EXPECT_EQ(line_.GiveUpFromNs(*fetch), give_up_ns);
  now_ns_ = 6000;
  EXPECT_EQ(TakeNext(), fetch);
  EXPECT_TRUE(fetch->has_thread());
  EXPECT_EQ(line_.SlowFromNs(*fetch), 6001 + slow_ns);
  EXPECT_EQ(line_.GiveUpFromNs(*fetch), give_up_ns);
}

}  // namespace
}  // namespace graft
