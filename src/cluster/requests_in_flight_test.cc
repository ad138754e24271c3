#include "cluster/requests_in_flight.h"

#include <gtest/gtest.h>

#include <utility>

namespace graft {
namespace {

class RequestsInFlightTest : public testing::Test {
 protected:
  InFlight& Add(const std::string& tenant = "", int64_t accepted_ns = 0) {
    auto one = std::make_unique<InFlight>();
    one->id = ++last_id_;
    one->accepted_ns = accepted_ns;
    one->request.tenant = tenant;
    return requests_.Add(std::move(one), 0);
  }
  std::string Check(size_t num_runners = 2) {
    num_on_runner_.assign(num_runners, 0);
    return requests_.CheckIntegrity(&num_on_runner_).ToString();
  }

  RequestsInFlight requests_{2};
  std::vector<int64_t> num_on_runner_;
  uint64_t last_id_ = 0;
};

TEST_F(RequestsInFlightTest, IsOnARunnerOrWaits) {
  InFlight& young = Add("", 20);
  requests_.Wait(young, 30);
  InFlight& old = Add("", 10);
  requests_.Wait(old, 40);
  requests_.Wait(old, 50);
  EXPECT_EQ(old.waiting_since_ns, 40);
  EXPECT_EQ(*requests_.waiting().begin(), &old);
  requests_.EnterLine(young);
  EXPECT_EQ(young.waiting_since_ns, 0) << "it waits for room alone";
  requests_.LeaveLine(young);
  young.waiting_since_ns = 40;
  young.ask_lacking_ns = 90;
  requests_.EnterLine(young);
  EXPECT_EQ(young.waiting_since_ns, 0) << "it has drawn nothing, and does not ask those again";
  EXPECT_TRUE(requests_.GoesFirst(old)) << "it is older than the one in line";
  requests_.EnterLine(old);
  EXPECT_FALSE(requests_.GoesFirst(young));
  EXPECT_EQ(Check(), "OK");
  requests_.PutOn(old, 1);
  EXPECT_TRUE(requests_.GoesFirst(young));
  EXPECT_EQ(Check(), "OK");
  EXPECT_EQ(num_on_runner_, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(requests_.FindOn(1, old.number), &old);
  EXPECT_EQ(requests_.FindOn(0, old.number), nullptr);
  const uint64_t number = old.number;
  requests_.TakeOff(old);
  requests_.PutOn(old, 1);
  EXPECT_EQ(requests_.FindOn(1, number), nullptr) << "it came back under another number";
  requests_.Remove(old, /*gives_place=*/false, 60);
  requests_.Remove(young, /*gives_place=*/false, 60);
  EXPECT_EQ(Check(), "OK");
  EXPECT_EQ(requests_.size(), 0u);
}

TEST_F(RequestsInFlightTest, TheNewestThatHasDrawnNothingGivesItsPlace) {
  for (int i = 0; i < 2; ++i) requests_.PutOn(Add("flood"), 0);
  InFlight& first = *requests_.Find(uint64_t{1});
  InFlight* giver = nullptr;
  EXPECT_FALSE(requests_.FindPlace({.tenant = "flood"}, &giver));
  EXPECT_TRUE(requests_.FindPlace({.tenant = "other"}, &giver));
  EXPECT_EQ(giver, requests_.Find(uint64_t{2}));
  requests_.Draw(*giver, 11);
  EXPECT_TRUE(requests_.FindPlace({.tenant = "other"}, &giver));
  EXPECT_EQ(giver, &first);
  requests_.Draw(first, 11);
  EXPECT_TRUE(requests_.FindPlace({.tenant = "other"}, &giver)) << "there is one place more";
  EXPECT_EQ(giver, nullptr);
  EXPECT_EQ(Check(), "OK");
}

TEST_F(RequestsInFlightTest, WhatIsNotWhereItBelongsIsFound) {
  InFlight& one = Add();
  EXPECT_NE(Check(), "OK") << "it is nowhere";
  requests_.EnterLine(one);
  requests_.PutOn(one, 1);
  EXPECT_NE(Check(1), "OK") << "there is no such runner";
  one.runner = InFlight::kNowhere;
  EXPECT_NE(Check(), "OK") << "it has a number and no runner";
  one.runner = 1;
  EXPECT_EQ(Check(), "OK");
  requests_.Wait(one, 0);
  EXPECT_NE(Check(), "OK") << "it is on a runner and waits";
  requests_.TakeOff(one);
  EXPECT_EQ(Check(), "OK");
  one.request.output_tokens = {11};
  EXPECT_NE(Check(), "OK") << "it has drawn, and its place may be taken";
  one.request.output_tokens.clear();
  one.lacking = {0};
  EXPECT_NE(Check(), "OK") << "it may go where its adapter cannot be used";
  one.AskAgain(0);
  EXPECT_EQ(Check(), "OK");
}

}  // namespace
}  // namespace graft
