// Answers that are bound to grammars: nothing is drawn that they forbid, however the steps run and
// wherever the answer began; requests wait for their grammars beside the others' steps.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <set>
#include <thread>

#include "engine/engine_testing.h"
#include "grammar/grammar_store.h"

namespace graft {
namespace {

// What the test lets go on.
struct Gates {
  std::atomic<bool> may_compile{true};
  std::atomic<bool> may_mask{true};  // beside the steps
  std::atomic<int> num_accepted{0};  // tokens
  std::atomic<int> num_within{0};    // masks that were made within steps
};

// "N": N tokens with remainders by 3 of 1, 2, 1, 2, and so on, then the end. "stuck": one token,
// and nothing can follow. "N/M": each mask takes M milliseconds of a core, as it says.
class CountingMatcher : public GrammarMatcher {
 public:
  CountingMatcher(int length, int64_t cost_ns, Gates& gates)
      : length_(length), cost_ns_(cost_ns), gates_(gates) {}
  GrammarAnswer Accept(int32_t token, GrammarTime* /*time*/) override {
    if (!MayCome(token)) return GrammarAnswer::kNo;
    ++gates_.num_accepted;
    ++position_;
    return GrammarAnswer::kYes;
  }
  GrammarAnswer FillMask(std::span<uint32_t> words, GrammarTime* time) override {
    if (time->left_ns < cost_ns_) {
      time->left_ns = 0;
      return GrammarAnswer::kOutOfTime;
    }
    if (time->stops == nullptr) ++gates_.num_within;
    if (cost_ns_ > AnswerBounds::kStepNsMax) {
      while (!gates_.may_mask && !*time->stops) std::this_thread::yield();
    }
    time->left_ns -= cost_ns_;
    bool any = false;
    std::fill(words.begin(), words.end(), 0);
    for (int32_t token = 0; token < TestLimits().vocab_size; ++token) {
      if (!MayCome(token)) continue;
      any = true;
      words[static_cast<size_t>(token / 32)] |= uint32_t{1} << (token % 32);
    }
    return any ? GrammarAnswer::kYes : GrammarAnswer::kNo;
  }

 private:
  bool MayCome(int32_t token) const {
    if (length_ < 0) return position_ == 0 && token == 5;
    if (position_ >= length_) return position_ == length_ && token == kEosToken;
    return token != kEosToken && token % 3 == 1 + position_ % 2;
  }

  const int length_;
  const int64_t cost_ns_;
  Gates& gates_;
  int position_ = 0;
};

class CountingGrammar : public CompiledGrammar {
 public:
  CountingGrammar(int length, int64_t cost_ns, Gates& gates)
      : length_(length), cost_ns_(cost_ns), gates_(gates) {}
  std::unique_ptr<GrammarMatcher> NewMatcher(std::shared_ptr<GrammarRoom> /*room*/) const override {
    return std::make_unique<CountingMatcher>(length_, cost_ns_, gates_);
  }
  int64_t bytes() const override { return 100; }

 private:
  const int length_;
  const int64_t cost_ns_;
  Gates& gates_;
};

class CountingCompiler : public GrammarCompiler {
 public:
  explicit CountingCompiler(Gates& gates) : gates_(gates) {}
  std::shared_ptr<const CompiledGrammar> Compile(const std::string& grammar,
                                                 const std::function<bool()>& stops,
                                                 std::string* error) const override {
    while (!gates_.may_compile && !stops()) std::this_thread::yield();
    if (stops()) return nullptr;
    if (grammar == "stuck") return std::make_shared<CountingGrammar>(-1, 0, gates_);
    if (grammar.find_first_not_of("0123456789/") == std::string::npos) {
      const size_t slash = grammar.find('/');
      const int64_t cost_ms = slash == std::string::npos ? 0 : std::stoi(grammar.substr(slash + 1));
      return std::make_shared<CountingGrammar>(std::stoi(grammar), cost_ms * 1'000'000, gates_);
    }
    *error = "is no number";
    return nullptr;
  }

 private:
  Gates& gates_;
};

class EngineGrammarTest : public testing::Test {
 protected:
  void Make(ExecutorLimits limits = TestLimits()) {
    EngineOptions options = TestOptions();
    options.grammars = &store_;
    harness_ = std::make_unique<EngineHarness>(limits, options);
  }
  Request Ask(const std::string& grammar, int32_t tokens_max, int32_t prompt_tokens = 5) {
    Request request = harness_->MakeRequest(Prompt(prompt_tokens), tokens_max);
    request.grammar = grammar;
    request.sampling.ignore_eos = false;
    return request;
  }
  static void ExpectOfGrammar(const std::vector<int32_t>& output, size_t length) {
    ASSERT_EQ(output.size(), length + 1);
    for (size_t i = 0; i < length; ++i) {
      EXPECT_EQ(output[i] % 3, static_cast<int32_t>(1 + i % 2)) << i;
    }
    EXPECT_EQ(output.back(), kEosToken);
  }
  // Where all wait for the grammars' threads, these have the time they need.
  void RunAll() {
    while (harness_->Step()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  std::vector<int32_t> OutputOf(const Request& request) {
    auto client = harness_->Submit(request);
    RunAll();
    client->Collect();
    return client->output();
  }

  Gates gates_;
  GrammarStore store_{[this]() -> Result<std::unique_ptr<GrammarCompiler>> {
    return std::unique_ptr<GrammarCompiler>(std::make_unique<CountingCompiler>(gates_));
  }};
  std::unique_ptr<EngineHarness> harness_;
};

TEST_F(EngineGrammarTest, NothingIsDrawnThatItForbidsAndItsEndEndsTheAnswer) {
  Make();
  auto bound = harness_->Submit(Ask("7", 20));
  auto free = harness_->Submit(harness_->MakeRequest(Prompt(6), 12));
  auto cut = harness_->Submit(Ask("7", 4));
  RunAll();
  for (TestClient* const client : {bound.get(), free.get(), cut.get()}) client->Collect();
  ExpectOfGrammar(bound->output(), 7);
  EXPECT_EQ(bound->last().finish_reason, FinishReason::kStop);
  EXPECT_EQ(free->output(), harness_->Reference(free->request));
  EXPECT_EQ(cut->output().size(), 4u);
  EXPECT_EQ(cut->last().finish_reason, FinishReason::kLength);
}

// Where the form is complete they may come as the model's own end may, and nowhere else.
TEST_F(EngineGrammarTest, ARequestsOwnEndsMayComeWhereItMayEnd) {
  Make();
  const int32_t own = TestLimits().vocab_size / 6 * 3;  // of remainder 0: the grammar has none
  std::set<int32_t> ends;
  for (int32_t prompt_tokens = 5; prompt_tokens < 25; ++prompt_tokens) {
    Request request = Ask("7", 20, prompt_tokens);
    request.sampling.stop_token_ids = {own};
    const std::vector<int32_t> output = OutputOf(request);
    ASSERT_EQ(output.size(), 8u);
    for (size_t i = 0; i < 7; ++i) EXPECT_EQ(output[i] % 3, static_cast<int32_t>(1 + i % 2)) << i;
    ends.insert(output.back());
  }
  EXPECT_EQ(ends, (std::set<int32_t>{kEosToken, own}));
}

TEST_F(EngineGrammarTest, TheOthersStepsDoNotWaitForACompilation) {
  Make();
  gates_.may_compile = false;
  auto bound = harness_->Submit(Ask("3", 20));
  auto free = harness_->Submit(harness_->MakeRequest(Prompt(6), 12));
  for (int i = 0; i < 30; ++i) harness_->Step();
  free->Collect();
  EXPECT_TRUE(free->done());
  bound->Collect();
  EXPECT_TRUE(bound->events.empty());
  auto cancelled = harness_->Submit(Ask("4", 20));
  harness_->Step();
  harness_->engine.Cancel(cancelled->request.id);
  harness_->Step();
  cancelled->Collect();
  ASSERT_TRUE(cancelled->done());
  EXPECT_EQ(cancelled->last().finish_reason, FinishReason::kCancelled);
  gates_.may_compile = true;
  RunAll();
  bound->Collect();
  ExpectOfGrammar(bound->output(), 3);
}

TEST_F(EngineGrammarTest, WhatCannotBeCompiledOrGoneOnWithFailsItsRequestAlone) {
  Make();
  auto wrong = harness_->Submit(Ask("seven", 20));
  auto stuck = harness_->Submit(Ask("stuck", 20));
  auto free = harness_->Submit(harness_->MakeRequest(Prompt(6), 5));
  RunAll();
  for (TestClient* const client : {wrong.get(), stuck.get(), free.get()}) client->Collect();
  ASSERT_TRUE(wrong->done() && stuck->done());
  EXPECT_EQ(wrong->last().status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(wrong->last().status.message().find("is no number"), std::string::npos);
  EXPECT_EQ(stuck->output(), std::vector<int32_t>{5});
  EXPECT_EQ(stuck->last().status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(free->output(), harness_->Reference(free->request));
}

// A mask that takes longer than a step may wait is made beside the steps: the others go on, and the
// answer is what it is without. The free ones' steps are begun ahead meanwhile, too.
TEST_F(EngineGrammarTest, AMaskThatTakesLongHoldsUpItsOwnRequestAlone) {
  for (const bool runs_ahead : {false, true}) {
    ExecutorLimits limits = TestLimits();
    limits.runs_ahead = runs_ahead;
    Make(limits);
    gates_.may_mask = false;
    const Request request = Ask("7/5", 20);
    auto bound = harness_->Submit(request);
    while (!store_.bytes_held()) std::this_thread::yield();
    auto free = harness_->Submit(harness_->MakeRequest(Prompt(6), 30));
    auto more = harness_->Submit(harness_->MakeRequest(Prompt(9), 40));
    while (!more->done()) {
      harness_->Step();
      more->Collect();
    }
    free->Collect();
    bound->Collect();
    EXPECT_EQ(free->output(), harness_->Reference(free->request));
    EXPECT_EQ(more->output(), harness_->Reference(more->request));
    EXPECT_TRUE(bound->events.empty());
    if (runs_ahead) {
      EXPECT_GT(harness_->engine.Snapshot().steps_ahead, 15);
    }
    gates_.may_mask = true;
    auto beside = harness_->Submit(harness_->MakeRequest(Prompt(7), 25));
    RunAll();
    for (TestClient* const client : {bound.get(), beside.get()}) client->Collect();
    ExpectOfGrammar(bound->output(), 7);
    EXPECT_EQ(beside->output(), harness_->Reference(beside->request));
    Request quick = request;
    quick.id = ++harness_->last_id;
    quick.grammar = "7";
    EXPECT_EQ(bound->output(), OutputOf(quick));
  }
}

// Some masks in time, some not: a matcher begins anew a few times, and not for each of them.
TEST_F(EngineGrammarTest, MasksThatTakeLongCostNoSquareOfTheTokens) {
  Make();
  Request request = Ask("50/4", 60);
  const std::vector<int32_t> output = OutputOf(request);
  ExpectOfGrammar(output, 50);
  EXPECT_LT(gates_.num_accepted, 4 * 50);
}

// Among preemptions, steps begun ahead, cancellations and requests without a form.
TEST_F(EngineGrammarTest, AnswersAreTheSameWhereverTheirMasksAreMade) {
  const char* const costs[] = {"", "/2", "/4", "/900"};
  for (const bool runs_ahead : {false, true}) {
    ExecutorLimits limits = TestLimits();
    limits.num_pages = 30;
    limits.runs_ahead = runs_ahead;
    Make(limits);
    std::vector<std::unique_ptr<TestClient>> clients, free, cancelled;
    for (int32_t i = 0; i < 12; ++i) {
      clients.push_back(harness_->Submit(Ask(std::to_string(3 + 2 * i) + costs[i % 4], 40, 4 + i)));
      free.push_back(harness_->Submit(harness_->MakeRequest(Prompt(5 + i), 30)));
      cancelled.push_back(harness_->Submit(Ask("20/5", 40, 7)));
    }
    for (int step = 0; harness_->Step(); ++step) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (step % 7 == 6 && !cancelled.empty()) {
        harness_->engine.Cancel(cancelled.back()->request.id);
        cancelled.pop_back();
      }
    }
    for (auto& client : free) {
      client->Collect();
      EXPECT_EQ(client->output(), harness_->Reference(client->request));
    }
    Make();
    for (auto& client : clients) {
      client->Collect();
      Request quick = client->request;
      quick.id = ++harness_->last_id;
      const std::string& text = client->request.grammar.text();
      quick.grammar = text.substr(0, text.find('/'));
      EXPECT_EQ(client->output(), OutputOf(quick)) << text;
    }
  }
}

// Each of them may take its time within a step, and all of them together may not.
TEST_F(EngineGrammarTest, TheMasksOfAStepTakeNoMoreTogetherThanIsBounded) {
  constexpr int kWithinMax = AnswerBounds::kAllNsMax / 2'000'000;
  for (const bool runs_ahead : {false, true}) {
    ExecutorLimits limits = TestLimits();
    limits.sequences_max = 2 * kWithinMax;
    limits.step_tokens_max = 16 * kWithinMax;
    limits.num_pages = 1000;
    limits.runs_ahead = runs_ahead;
    Make(limits);
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 2 * kWithinMax; ++i) clients.push_back(harness_->Submit(Ask("7/2", 20)));
    int num_most = 0;
    gates_.num_within = 0;
    while (harness_->Step()) {
      num_most = std::max(num_most, gates_.num_within.exchange(0));
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    EXPECT_LE(num_most, kWithinMax);
    EXPECT_GT(num_most, 0);
    for (auto& client : clients) {
      client->Collect();
      ExpectOfGrammar(client->output(), 7);
    }
  }
}

TEST_F(EngineGrammarTest, ALongMaskThatNobodyWaitsForStops) {
  Make();
  gates_.may_mask = false;
  auto bound = harness_->Submit(Ask("7/5", 20));
  for (int i = 0; i < 100; ++i) {
    harness_->Step();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  harness_->engine.Cancel(bound->request.id);
  harness_->Step();
  bound->Collect();
  ASSERT_TRUE(bound->done());
  EXPECT_EQ(bound->last().finish_reason, FinishReason::kCancelled);
  // Its thread is free again though the gate is shut, or the store would never end.
}

TEST_F(EngineGrammarTest, AMaskThatTakesMoreThanASecondEndsItsRequestAlone) {
  Make();
  auto bound = harness_->Submit(Ask("7/1001", 20));
  auto free = harness_->Submit(harness_->MakeRequest(Prompt(6), 30));
  RunAll();
  for (TestClient* const client : {bound.get(), free.get()}) client->Collect();
  ASSERT_TRUE(bound->done());
  EXPECT_EQ(bound->last().status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(bound->last().status.message().find("takes too long"), std::string::npos);
  EXPECT_EQ(free->output(), harness_->Reference(free->request));
}

// A millisecond is as much as a token: a tenant with masks of two seconds goes after one with a
// hundred drawn tokens.
TEST_F(EngineGrammarTest, WhatMasksTakeIsServiceToTheirTenant) {
  ExecutorLimits limits = TestLimits();
  limits.step_tokens_max = 8;
  limits.context_tokens_max = 5000;  // more than `quick` will have by then
  limits.num_pages = 5000;
  Make(limits);
  gates_.may_mask = false;
  const auto submit = [&](Request request, const std::string& tenant) {
    request.tenant = tenant;
    return harness_->Submit(std::move(request));
  };
  auto slow = submit(Ask("20/100", 60), "slow");
  auto quick = submit(harness_->MakeRequest(Prompt(5), 4900), "quick");
  while (quick->output().size() < 100) {
    harness_->Step();
    quick->Collect();
  }
  gates_.may_mask = true;
  while (!slow->done()) {
    harness_->Step();
    slow->Collect();
    quick->Collect();
    ASSERT_FALSE(quick->done());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  auto second_of_slow = submit(harness_->MakeRequest(Prompt(40), 5), "slow");
  auto second_of_quick = submit(harness_->MakeRequest(Prompt(40), 5), "quick");
  while (second_of_slow->events.empty() && second_of_quick->events.empty()) {
    harness_->Step();
    second_of_slow->Collect();
    second_of_quick->Collect();
  }
  EXPECT_TRUE(second_of_slow->events.empty());
}

TEST_F(EngineGrammarTest, AnEngineWithoutACompilerRefuses) {
  EngineHarness harness;
  Request request = harness.MakeRequest(Prompt(5), 5);
  request.grammar = "3";
  EXPECT_EQ(harness.engine.Submit(request, std::make_shared<TokenStream>()).code(),
            StatusCode::kUnimplemented);
}

// Steps of all rows are begun ahead; those of bound ones draw once the token before is known.
TEST_F(EngineGrammarTest, StepsAreBegunAheadWithBoundRowsAmongThem) {
  ExecutorLimits limits = TestLimits();
  limits.runs_ahead = true;
  Make(limits);
  std::vector<std::unique_ptr<TestClient>> bound, free;
  for (int32_t i = 0; i < 3; ++i) {
    bound.push_back(harness_->Submit(Ask(std::to_string(8 + 5 * i), 40, 4 + i)));
    free.push_back(harness_->Submit(harness_->MakeRequest(Prompt(5 + i), 30)));
  }
  RunAll();
  for (size_t i = 0; i < 3; ++i) {
    bound[i]->Collect();
    free[i]->Collect();
    ExpectOfGrammar(bound[i]->output(), 8 + 5 * i);
    EXPECT_EQ(free[i]->output(), harness_->Reference(free[i]->request));
  }
  EXPECT_GT(harness_->engine.Snapshot().steps_ahead, 15);
}

// So few pages that sequences are preempted; and what began elsewhere goes on.
TEST_F(EngineGrammarTest, GoesOnAfterAPreemptionAndFromElsewhere) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 16;
  Make(limits);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(harness_->Submit(Ask("25", 40, 8)));
  RunAll();
  EXPECT_GT(harness_->engine.Snapshot().preemptions, 0);
  for (auto& client : clients) {
    client->Collect();
    ExpectOfGrammar(client->output(), 25);
  }
  Request request = Ask("25", 40, 8);
  request.sampling.seed = clients[0]->request.sampling.seed;
  const std::vector<int32_t> whole = clients[0]->output();
  request.output_tokens.assign(whole.begin(), whole.begin() + 10);
  auto resumed = harness_->Submit(request);
  RunAll();
  resumed->Collect();
  EXPECT_EQ(resumed->output(), std::vector<int32_t>(whole.begin() + 10, whole.end()));
}

// The smallest tokens that are not among these, and no special ones.
std::vector<int32_t> Unused(const std::vector<int32_t>& tokens, size_t count) {
  std::vector<int32_t> unused;
  for (int32_t token = 2; unused.size() < count; ++token) {
    if (std::count(tokens.begin(), tokens.end(), token) == 0) unused.push_back(token);
  }
  return unused;
}

std::vector<int32_t> First(const std::vector<int32_t>& tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

class EngineReasoningTest : public EngineGrammarTest {
 protected:
  // What an answer with this bound is.
  std::vector<int32_t> Output(Request request, const ReasoningBound& bound) {
    request.id = ++harness_->last_id;
    request.reasoning = bound;
    auto client = harness_->Submit(std::move(request));
    RunAll();
    client->Collect();
    return client->output();
  }
};

TEST_F(EngineReasoningTest, ItsEndIsDrawnWhereItHasHadItsTokens) {
  for (const bool runs_ahead : {false, true}) {
    ExecutorLimits limits = TestLimits();
    limits.runs_ahead = runs_ahead;
    EngineHarness harness(limits);  // which compiles no grammars
    const Request plain = harness.MakeRequest(Prompt(5), 20);
    const std::vector<int32_t> free = harness.Reference(plain);
    const std::vector<int32_t> marks = Unused(free, 2);
    // Where reasoning opens in the answer, only what comes after that counts.
    size_t begin = 2;
    while (std::count(free.begin(), free.end(), free[begin]) > 1) ++begin;
    ASSERT_LT(begin + 5, free.size());
    struct Case {
      ReasoningBound bound;
      size_t end;  // where the closing token is
    };
    const std::vector<Case> cases = {{{4, marks[0], marks[1], true}, 4},
                                     {{0, marks[0], marks[1], true}, 0},
                                     {{4, free[begin], marks[1], false}, begin + 5},
                                     {{4, marks[0], marks[1], false}, 20},
                                     {{-1, marks[0], marks[1], true}, 20}};
    std::vector<std::unique_ptr<TestClient>> clients;
    for (const Case& one : cases) {
      Request request = plain;
      request.id = ++harness.last_id;
      request.reasoning = one.bound;
      clients.push_back(harness.Submit(request));
    }
    harness.RunAll();
    for (size_t i = 0; i < cases.size(); ++i) {
      clients[i]->Collect();
      const std::vector<int32_t> output = clients[i]->output();
      ASSERT_EQ(output.size(), 20u) << i;
      EXPECT_EQ(First(output, cases[i].end), First(free, cases[i].end)) << i;
      if (cases[i].end < 20) {
        EXPECT_EQ(output[cases[i].end], marks[1]) << i;
      }
    }
    // What was drawn elsewhere counts.
    const std::vector<int32_t> whole = clients[0]->output();
    Request resumed = plain;
    resumed.id = ++harness.last_id;
    resumed.reasoning = cases[0].bound;
    resumed.output_tokens = First(whole, 3);
    auto client = harness.Submit(resumed);
    harness.RunAll();
    client->Collect();
    EXPECT_EQ(client->output(), std::vector<int32_t>(whole.begin() + 3, whole.end()));
  }
}

TEST_F(EngineReasoningTest, ItEndsWhereTheGrammarLetsIt) {
  Make();
  const Request request = Ask("9", 20);
  const std::vector<int32_t> free = Output(request, {});
  ExpectOfGrammar(free, 9);
  // A token that may come at even places only.
  int32_t closing = 1;
  while (std::count(free.begin(), free.begin() + 4, closing) > 0) closing += 3;
  const int32_t opening = 48;  // of no place
  const std::vector<int32_t> output = Output(request, {3, opening, closing, true});
  ExpectOfGrammar(output, 9);
  EXPECT_EQ(First(output, 4), First(free, 4));
  EXPECT_EQ(output[4], closing);
}

TEST_F(EngineReasoningTest, MarksOutsideTheVocabularyAreRefused) {
  Make();
  Request request = harness_->MakeRequest(Prompt(5), 5);
  request.reasoning = {3, 4, TestLimits().vocab_size, false};
  const Status status = harness_->engine.Submit(request, std::make_shared<TokenStream>());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("reasoning's token 1 is 50"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace graft
