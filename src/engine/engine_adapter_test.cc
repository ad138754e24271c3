// Adapters are loaded and evicted beside the steps: how long they stay, turns, and what a failure
// may touch.
#include <gmock/gmock.h>

#include "engine/engine_testing.h"

namespace graft {
namespace {

// An adapter folder on storage that does not answer must not keep other adapters from being
// fetched, although only so many are fetched at once.
TEST_F(EngineAdapterTest, AFolderThatHangsHoldsUpItsOwnRequestsAlone) {
  EngineOptions options = TestOptions();
  options.scheduler.fetches_max = 1;
  Make(TestLimits(), options);
  harness_->AddAdapter("hangs");
  harness_->AddAdapter("aa");
  harness_->loader.HangFolder("hangs");
  auto hanging = Submit("hangs", 5, 3);
  auto gone = Submit("hangs", 6, 3);
  harness_->Step();
  for (int i = 0; i < 3; ++i) {
    auto other = Submit(i == 1 ? "" : "aa", 5, 3);
    for (int step = 0; step < 8; ++step) harness_->Step();
    ExpectAnswered(*other, i == 1 ? "" : "aa");
  }
  harness_->engine.Cancel(gone->request.id);
  harness_->Step();
  hanging->Collect();
  EXPECT_TRUE(hanging->events.empty());
  harness_->loader.ReleaseFolder("hangs");
  harness_->RunAll();
  ExpectAnswered(*hanging, "hangs");
  // A fetch that was given up fails like one that cannot be read.
  harness_->loader.ClearHost();
  harness_->AddAdapter("lost");
  harness_->loader.HangFolder("lost");
  auto lost = Submit("lost", 5, 3);
  for (int step = 0; step < 5; ++step) harness_->Step();
  harness_->loader.ReleaseFolder("lost", UnavailableError("it does not answer"));
  harness_->RunAll();
  lost->Collect();
  ASSERT_TRUE(lost->done());
  EXPECT_EQ(lost->last().status.code(), StatusCode::kUnavailable);
}

TEST_F(EngineAdapterTest, SoManyAreFetchedAtOnceAsItIsTold) {
  for (const int32_t fetches_max : {1, 2, 6}) {
    EngineOptions options = TestOptions();
    options.scheduler.fetches_max = fetches_max;
    Make(TestLimits(), options);
    harness_->loader.set_delay(50);
    std::vector<std::string> contents;
    for (int i = 0; i < 7; ++i) contents.push_back("c" + std::to_string(i));
    for (const std::string& content : contents) harness_->AddAdapter(content);
    auto clients = SubmitAll(contents, 2);
    for (int step = 0; step < 5; ++step) harness_->Step();
    EXPECT_EQ(Now().adapter_fetches, fetches_max);
    harness_->RunAll();
    for (size_t i = 0; i < clients.size(); ++i) ExpectAnswered(*clients[i], contents[i]);
  }
}

// Base requests that stand behind many requests with cold adapters are not looked at.
TEST_F(EngineAdapterTest, SoManyInLineAreLookedAtAsItIsTold) {
  for (const int32_t waiting_looked_at : {3, 5}) {
    EngineOptions options = TestOptions();
    options.scheduler.waiting_looked_at = waiting_looked_at;
    Make(TestLimits(), options);
    harness_->loader.set_delay(50);
    harness_->AddAdapter("aa");
    auto clients = SubmitAll({"aa", "aa", "aa", "aa", ""}, 2);
    for (int step = 0; step < 5; ++step) harness_->Step();
    clients.back()->Collect();
    EXPECT_EQ(clients.back()->done(), waiting_looked_at == 5);
    harness_->RunAll();
    ExpectAnswered(*clients.back(), "");
  }
}

TEST_F(EngineAdapterTest, AnUnloadedAdaptersSeriesGo) {
  Make();
  harness_->AddAdapter("aa");
  Run("aa");
  const std::string series = "graft_adapter_requests_total{adapter=\"aa\"} 1";
  EXPECT_NE(harness_->metrics.Render().find(series), std::string::npos);
  harness_->adapters.Retire("aa");
  harness_->Step();
  EXPECT_EQ(harness_->metrics.Render().find("adapter=\"aa\""), std::string::npos);
}

using testing::HasSubstr;

TEST_F(EngineAdapterTest, WhatIsPinnedStaysUnderPressure) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 20;
  Make(limits);
  for (const char* content : {"aa", "bb", "cc"}) harness_->AddAdapter(content);
  ASSERT_TRUE(harness_->engine.PinAdapters({"aa", "bb"}).ok());
  EXPECT_EQ(harness_->loader.num_copies(), 2);
  EXPECT_EQ(Now().adapters_resident, 2) << "before any step";
  auto clients = SubmitAll({"aa", "", "cc", "bb", "", "cc", "aa", "bb"}, 50);
  harness_->RunAll();
  EXPECT_GT(Now().preemptions, 0);
  auto again = SubmitAll({"aa", "bb"}, 5);
  harness_->RunAll();
  ExpectAnswered(*again[0], "aa");
  EXPECT_EQ(Now().adapter_copies - Now().adapter_evictions, Now().adapters_resident);
  EXPECT_GE(Now().adapters_resident, 2);
  // Both were copied once before.
  EXPECT_EQ(Now().adapter_copies, 2 + Now().adapter_evictions + (Now().adapters_resident - 2));
}

TEST_F(EngineAdapterTest, WhereAllPlacesArePinnedOthersAreRefused) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 1;
  Make(limits);
  for (const char* content : {"aa", "bb"}) harness_->AddAdapter(content);
  ASSERT_TRUE(harness_->engine.PinAdapters({"aa"}).ok());
  auto other = Submit("bb", 5, 5);
  harness_->RunAll();
  other->Collect();
  EXPECT_THAT(other->last().status.message(), HasSubstr("all 1 places"));
  Run("aa");
}

TEST_F(EngineAdapterTest, WhatWasPinnedAndUnloadedGivesItsPagesBack) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 20;
  Make(limits);
  harness_->loader.SetRows("aa", {{kRowAlignment, 150}});  // 15 pages
  for (const char* content : {"aa", "bb"}) harness_->AddAdapter(content);
  ASSERT_TRUE(harness_->engine.PinAdapters({"aa", "bb"}).ok());
  auto refused = Submit("", 40, 5);
  harness_->RunAll();
  refused->Collect();
  EXPECT_THAT(refused->last().status.message(), HasSubstr("the pool has room for"));
  harness_->adapters.Retire("aa");
  auto client = Submit("", 40, 5);
  harness_->RunAll();
  ExpectAnswered(*client, "");
  EXPECT_EQ(Now().pages_adapters, 1) << "the other one stays";
}

TEST_F(EngineAdapterTest, PinningSaysWhenNotAllFit) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 1;
  Make(limits);
  for (const char* content : {"aa", "bb"}) harness_->AddAdapter(content);
  EXPECT_THAT(harness_->engine.PinAdapters({"aa", "bb"}).message(), HasSubstr("all 1 places"));
  harness_->loader.SetFolder("cc", "");
  harness_->AddAdapter("cc");
  EXPECT_THAT(harness_->engine.PinAdapters({"cc"}).message(), HasSubstr("is broken"));
  limits.adapters_max = 4;
  limits.num_pages = 7;
  Make(limits);
  for (const char* content : {"aa", "bb"}) {
    harness_->loader.SetRows(content, {{kRowAlignment, 40}});
    harness_->AddAdapter(content);
  }
  EXPECT_THAT(harness_->engine.PinAdapters({"aa", "bb"}).message(),
              HasSubstr("takes 4 pages, the pool has 2"));
}

TEST_F(EngineAdapterTest, EvictsTheIdleAdapterThatWasUsedLeastRecently) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 2;
  Make(limits);
  for (const char* content : {"aa", "bb", "cc"}) harness_->AddAdapter(content);
  Run("aa");
  Run("bb");
  Run("aa");
  Run("cc");
  EXPECT_EQ(Now().adapter_copies, 3);
  Run("aa");
  EXPECT_EQ(Now().adapter_copies, 3) << "bb had to go, not aa";
  Run("bb");
  EXPECT_EQ(Now().adapter_copies, 4);
}

// Each adapter has three pages. KV needs so much room that one adapter can stay.
TEST_F(EngineAdapterTest, KvTakesThePagesOfIdleAdaptersBeforeItPreempts) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 20;
  EngineOptions options = TestOptions();
  options.scheduler.prefix_cache = false;
  Make(limits, options);
  for (const char* content : {"aa", "bb", "cc", "dd"}) {
    AddOfThreePages(content);
    Run(content);
  }
  EXPECT_EQ(Now().pages_adapters, 12);
  EXPECT_EQ(Now().pages_adapters_idle, 12);
  auto long_one = Submit("", 8, 50);
  harness_->RunAll();
  ExpectAnswered(*long_one, "");
  EXPECT_EQ(Now().preemptions, 0);
  EXPECT_EQ(Now().pages_adapters_idle, 3);
  EXPECT_EQ(Now().adapter_evictions, 3) << "15 pages of KV leave room for one of them";
  Run("dd");
  EXPECT_EQ(Now().adapter_copies, 4) << "the last used one is still there";
}

TEST_F(EngineAdapterTest, PrefixesAndAdaptersAreEvictedByOneRule) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 20;
  Make(limits);
  for (const char* content : {"aa", "bb"}) AddOfThreePages(content);
  Run("aa");                        // 3 pages, a prefix of 1
  auto prefix = Submit("", 33, 1);  // a prefix of 8 pages, used after aa
  harness_->RunAll();
  Run("bb");  // used last
  EXPECT_EQ(Now().adapter_evictions, 0);
  auto other = harness_->Submit(harness_->MakeRequest(Prompt(38, 20), 2));  // 10 pages
  harness_->RunAll();
  EXPECT_EQ(Now().adapter_evictions, 1) << "aa was the oldest, bb the newest of all";
  Run("bb");
  EXPECT_EQ(Now().adapter_copies, 2);
}

TEST_F(EngineAdapterTest, ASplitPoolKeepsThemApart) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 20;
  Make(limits);
  harness_->engine.SplitPool(6);
  EXPECT_EQ(harness_->engine.limits().context_tokens_max, 14 * 4);
  for (const char* content : {"aa", "bb", "cc"}) AddOfThreePages(content);
  Run("aa");
  Run("bb");
  auto long_one = Submit("", 8, 48);
  harness_->RunAll();
  ExpectAnswered(*long_one, "");
  EXPECT_EQ(Now().adapter_evictions, 0) << "KV took none of their pages";
  Run("cc");
  EXPECT_EQ(Now().adapter_evictions, 1);
}

// The bound: once B has found no room, requests that came after it run for one more turn at most,
// and then B's load begins.
TEST_F(EngineAdapterTest, ATurnBoundsHowLongYoungerRequestsRunAhead) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 1;
  Make(limits);
  harness_->AddAdapter("aa");
  harness_->AddAdapter("bb");
  std::vector<std::unique_ptr<TestClient>> flood;
  flood.push_back(Submit("aa", 5, 30));
  while (Now().steps == 0) harness_->Step();
  auto waiting = Submit("bb", 5, 5);
  flood.push_back(Submit("aa", 6, 50));
  const int64_t began = Now().steps;
  int64_t first_copy = -1;
  while (!waiting->done()) {
    // There is always a younger request for the adapter that is resident.
    flood.push_back(Submit("aa", 7, 50));
    harness_->Step();
    waiting->Collect();
    if (first_copy < 0 && Now().adapter_copies == 2) first_copy = Now().steps;
    ASSERT_LT(Now().steps, 200);
  }
  // The request that came before B runs to its end. Younger ones run beside it, but not after it.
  EXPECT_LE(first_copy - began, 30 + 3);
  EXPECT_GT(Now().preemptions, 0);
  EXPECT_GT(Now().turns, 0);
  harness_->RunAll();
  for (auto& client : flood) ExpectAnswered(*client, "aa");
  ExpectAnswered(*waiting, "bb");
}

TEST_F(EngineAdapterTest, TheTurnEndsAYoungerOnesRun) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 1;
  Make(limits);
  harness_->AddAdapter("aa");
  harness_->AddAdapter("bb");
  auto before = Submit("aa", 5, 2);
  while (Now().steps == 0) harness_->Step();
  auto waiting = Submit("bb", 5, 5);
  auto younger = Submit("aa", 6, 50);
  const int64_t began = Now().steps;
  while (Now().adapter_copies < 2) harness_->Step();
  EXPECT_GE(Now().steps - began, kTurnSteps - 2) << "until then they run ahead";
  EXPECT_LE(Now().steps - began, kTurnSteps + 3);
  harness_->RunAll();
  ExpectAnswered(*waiting, "bb");
  ExpectAnswered(*younger, "aa");
}

// If only younger requests run on two adapters, the adapter that costs less to lose goes. A second
// request that finds no room waits for the next turn, or for the end of a running request.
TEST_F(EngineAdapterTest, ATurnMakesRoomForOneByTheCheapestAdapter) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 2;
  Make(limits);
  for (const char* content : {"aa", "bb", "cc", "dd"}) harness_->AddAdapter(content);
  auto before = SubmitAll({"aa", "bb"}, 2);
  while (Now().requests_running < 2) harness_->Step();
  auto waiting = SubmitAll({"cc", "dd"}, 4);
  auto younger = SubmitAll({"aa", "bb", "aa"}, 50);
  while (Now().turns == 0) harness_->Step();
  EXPECT_EQ(Now().preemptions, 1) << "bb's one and neither of aa's two";
  while (Now().requests_waiting > 1) harness_->Step();
  EXPECT_EQ(Now().requests_running, 3) << "aa's two go on, beside dd";
  harness_->RunAll();
  EXPECT_EQ(Now().preemptions, 1);
  const std::string contents[] = {"aa", "bb", "aa"};
  for (size_t i = 0; i < 3; ++i) ExpectAnswered(*younger[i], contents[i]);
  ExpectAnswered(*waiting[0], "cc");
  ExpectAnswered(*waiting[1], "dd");
}

// 32 contents for 2 slots, with requests for all of them mixed. They are served in turns, and each
// content is loaded a few times instead of once per request.
TEST_F(EngineAdapterTest, SixteenTimesMoreThanFitDoNotThrash) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 2;
  limits.num_pages = 256;
  Make(limits);
  std::vector<std::string> contents;
  for (int i = 0; i < 32; ++i) {
    contents.push_back("c" + std::to_string(i));
    harness_->AddAdapter(contents.back());
  }
  std::vector<std::string> asked;
  for (int round = 0; round < 8; ++round) {
    asked.insert(asked.end(), contents.begin(), contents.end());
  }
  auto clients = SubmitAll(asked, 6);
  harness_->RunAll();
  for (size_t i = 0; i < clients.size(); ++i) ExpectAnswered(*clients[i], asked[i]);
  EXPECT_LE(Now().adapter_copies, 3 * 32) << "for 256 requests";
}

TEST_F(EngineAdapterTest, AFailureIsItsOwnRequestsAlone) {
  Make();
  for (const char* content : {"good", "broken", "changed"}) harness_->AddAdapter(content);
  harness_->loader.SetFolder("broken", "");
  harness_->loader.SetFolder("changed", "other");
  harness_->AddAdapter("large");
  harness_->loader.SetRows("large", {{kRowAlignment, 10 * 64}});
  harness_->AddAdapter("wide");
  harness_->loader.SetRows("wide", {{kRowAlignment * 11, 1}});
  auto clients = SubmitAll({"good", "broken", "changed", "large", "wide", "", "broken"}, 5);
  harness_->RunAll();
  ExpectAnswered(*clients[0], "good");
  ExpectAnswered(*clients[5], "");
  const auto reason = [&](size_t i) {
    clients[i]->Collect();
    EXPECT_EQ(clients[i]->last().finish_reason, FinishReason::kError);
    return clients[i]->last().status.message();
  };
  EXPECT_THAT(reason(1), HasSubstr("is broken"));
  EXPECT_THAT(reason(6), HasSubstr("is broken"));
  EXPECT_THAT(reason(2), HasSubstr("has changed"));
  EXPECT_THAT(reason(3), HasSubstr("the adapter takes 64 pages, the pool has 63"));
  EXPECT_THAT(reason(4), HasSubstr("--tune page-tokens"));
  EXPECT_EQ(harness_->loader.num_held(), 0);
  harness_->loader.SetFolder("broken", "broken");
  Run("broken");  // it has been repaired
}

TEST_F(EngineAdapterTest, AnAdapterBesideThePromptMustFit) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 16;
  Make(limits);
  harness_->AddAdapter("aa");
  harness_->loader.SetRows("aa", {{kRowAlignment, 40}});  // 4 pages, or 5 at worst
  auto too_long = Submit("aa", 50, 5);
  auto cut = Submit("aa", 40, 24);
  harness_->RunAll();
  too_long->Collect();
  EXPECT_THAT(too_long->last().status.message(), HasSubstr("room for 44 tokens"));
  cut->Collect();
  EXPECT_EQ(cut->output().size(), 4u);
  EXPECT_EQ(cut->last().finish_reason, FinishReason::kLength);
}

TEST_F(EngineAdapterTest, TheTableIsToldWhereContentsAre) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 1;
  Make(limits);
  harness_->loader.SetFolder("broken", "");
  for (const char* content : {"a", "b", "broken"}) harness_->AddAdapter(content);
  const auto place = [this](const std::string& key) { return harness_->adapters.PlaceOf(key); };
  EXPECT_EQ(place("a"), AdapterPlace::kElsewhere);
  auto client = Submit("a", 5, 3);
  harness_->Step();
  EXPECT_EQ(place("a"), AdapterPlace::kLoading);
  harness_->RunAll();
  EXPECT_EQ(place("a"), AdapterPlace::kResident);
  Run("b");
  EXPECT_EQ(place("a"), AdapterPlace::kElsewhere) << "evicted";
  EXPECT_EQ(place("b"), AdapterPlace::kResident);
  auto failed = Submit("broken", 5, 3);
  harness_->RunAll();
  EXPECT_EQ(place("broken"), AdapterPlace::kElsewhere);
  // A new content that takes the place of a gone one starts without the old one's state.
  harness_->adapters.Retire("b");
  harness_->Step();
  EXPECT_EQ(harness_->adapters.num_contents(), 2);
  harness_->AddAdapter("new");
  EXPECT_EQ(place("new"), AdapterPlace::kElsewhere);
}

TEST_F(EngineAdapterTest, AnUnreadFolderIsIdentifiedByItsFirstUse) {
  Make();
  const std::string first = harness_->AddUnread("folder one", "content");
  const std::string second = harness_->AddUnread("folder two", "content");
  auto one = Submit(first, 9, 4);
  harness_->RunAll();
  ExpectAnswered(*one, "content");
  // Its KV belongs to the content, so a request by hash finds it, too.
  auto by_hash = Submit("content", 9, 4);
  harness_->RunAll();
  ExpectAnswered(*by_hash, "content");
  EXPECT_EQ(by_hash->last().usage.cached_tokens, 8);
  auto other = Submit(second, 9, 4);
  harness_->RunAll();
  ExpectAnswered(*other, "content");
  EXPECT_EQ(other->last().usage.cached_tokens, 8);
  EXPECT_EQ(harness_->adapters.num_contents(), 1) << "one content under three keys";
}

// The table was never told the hash, because the name was unloaded meanwhile. Even so, requests in
// flight never see what the folder holds later.
TEST_F(EngineAdapterTest, AContentStaysWhatItWasWhenFirstRead) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 1;
  Make(limits);
  harness_->loader.set_on_read({});
  const std::string key = harness_->AddUnread("folder", "old");
  harness_->AddAdapter("other");
  auto first = Submit(key, 5, 4);
  harness_->RunAll();
  ExpectAnswered(*first, "old");
  Run("other");
  harness_->loader.SetFolder("folder", "new");
  harness_->loader.ClearHost();
  auto second = Submit(key, 5, 4);
  harness_->RunAll();
  second->Collect();
  EXPECT_THAT(second->last().status.message(), HasSubstr("has changed"));
}

TEST_F(EngineAdapterTest, CancelsWhileLoadingLeaveNothingBehind) {
  Make();
  harness_->loader.set_delay(5);
  harness_->AddAdapter("aa");
  auto client = Submit("aa", 5, 5);
  harness_->Step();
  harness_->engine.Cancel(client->request.id);
  harness_->adapters.Retire("aa");
  harness_->RunAll();
  for (int step = 0; step < 12; ++step) harness_->Step();
  EXPECT_EQ(harness_->adapters.num_contents(), 0);
  EXPECT_EQ(harness_->loader.num_held(), 0);
  EXPECT_EQ(Now().pages_adapters, 0);
  client->Collect();
  EXPECT_EQ(client->last().finish_reason, FinishReason::kCancelled);
}

// The two younger requests share their prefix's page, so it counts once.
TEST_F(EngineAdapterTest, NobodyIsPreemptedInVain) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 14;
  limits.sequences_max = 2;
  limits.page_tokens = 16;
  limits.step_tokens_max = 64;
  Make(limits);
  harness_->loader.SetRows("aa", {{kRowAlignment, 50}});
  harness_->loader.SetRows("bb", {{kRowAlignment, 100}});
  for (const char* content : {"aa", "bb"}) harness_->AddAdapter(content);
  harness_->loader.set_delay(2);
  auto first = Submit("aa", 5, 3);
  auto second = Submit("bb", 5, 3);
  auto younger = Submit("", 17, 15);
  harness_->Step();
  auto youngest = Submit("", 17, 15);
  harness_->RunAll();
  ExpectAnswered(*first, "aa");
  ExpectAnswered(*second, "bb");
  for (const auto& client : {&younger, &youngest}) ExpectAnswered(**client, "");
  EXPECT_EQ(Now().preemptions, 0);
}

// If it did, it would meet the next adapter that arrives, and so on for ever.
TEST_F(EngineAdapterTest, NobodyBeginsAnewForAnAdapterOnItsWay) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 6;
  limits.page_tokens = 3;
  limits.step_tokens_max = 4;
  EngineOptions options = TestOptions();
  options.scheduler.prefix_cache = false;
  Make(limits, options);
  for (const char* content : {"aa", "bb"}) {
    harness_->loader.SetRows(content, {{kRowAlignment, 15}});  // two pages
    harness_->AddAdapter(content);
  }
  auto oldest = Submit("", 13, 2);
  harness_->Step();
  auto younger = SubmitAll({"aa", "bb"}, 1);
  harness_->Step();
  harness_->loader.set_delay(3);  // copies into the pages that the oldest needs next
  harness_->RunAll();
  ExpectAnswered(*oldest, "");
  ExpectAnswered(*younger[0], "aa");
  ExpectAnswered(*younger[1], "bb");
  EXPECT_EQ(Now().preemptions, 0);
}

TEST_F(EngineAdapterTest, WhatIsNotBegunHoldsNobodyUp) {
  Make();
  harness_->loader.set_delay(20);
  auto running = Submit("", 5, 40);
  harness_->Step();
  std::vector<std::unique_ptr<TestClient>> cold;
  for (int i = 0; i < 30; ++i) {
    const std::string content = "a" + std::to_string(i);
    harness_->AddAdapter(content);
    cold.push_back(Submit(content, 9, 3));
  }
  auto base = Submit("", 5, 5);
  harness_->Step();
  EXPECT_EQ(Now().requests_running, 2) << "pages are kept for the four that are being fetched";
  harness_->RunAll();
  ExpectAnswered(*base, "");
  ExpectAnswered(*cold.back(), "a29");
}

TEST_F(EngineAdapterTest, WaitingRequestsAreLoadedForAhead) {
  ExecutorLimits limits = TestLimits();
  limits.sequences_max = 1;
  Make(limits);
  harness_->AddAdapter("aa");
  auto running = Submit("", 5, 30);
  harness_->Step();
  auto waiting = Submit("aa", 5, 5);
  for (int step = 0; step < 5; ++step) harness_->Step();
  EXPECT_EQ(Now().requests_running, 1);
  EXPECT_EQ(Now().adapters_resident, 1) << "before there is a place for it in the batch";
  harness_->RunAll();
  ExpectAnswered(*waiting, "aa");
}

TEST_F(EngineAdapterTest, WhoeverWaitsForPagesHoldsUpNoLoads) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 20;
  EngineOptions options = TestOptions();
  options.scheduler.prefix_cache = false;
  Make(limits, options);
  for (const char* content : {"aa", "bb", "cc"}) harness_->AddAdapter(content);
  auto running = Submit("", 30, 25);
  harness_->Step();
  auto first = Submit("", 50, 5);  // needs 13 pages; 12 are left
  auto behind = SubmitAll({"aa", "bb", "cc"}, 1);
  harness_->Step();
  harness_->Step();
  EXPECT_EQ(Now().requests_running, 1);
  EXPECT_EQ(harness_->loader.num_fetches(), 3);
  EXPECT_EQ(Now().adapter_copies, 0) << "pages go to who waits for them first";
  harness_->RunAll();
  ExpectAnswered(*running, "");
  ExpectAnswered(*first, "");
  for (size_t i = 0; i < behind.size(); ++i) {
    ExpectAnswered(*behind[i], std::vector<const char*>{"aa", "bb", "cc"}[i]);
  }
  EXPECT_EQ(Now().turns, 0) << "nobody's adapter was short of room";
}

}  // namespace
}  // namespace graft
