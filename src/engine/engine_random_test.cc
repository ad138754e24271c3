// Randomised runs: arrivals, cancels, tiny pools, preemptions, adapters that come, are retired and
// come back, tenants, chunk sizes. After every step all pages, references and slots are accounted
// for; every output equals what the request gives alone.
#include "base/random.h"
#include "engine/engine_testing.h"

namespace graft {
namespace {

struct Shape {
  const char* name;
  ExecutorLimits limits;
  int32_t prefill_chunk_max;
  bool prefix_cache;
  bool preempts;  // the pool is too small for all that run
};

void PrintTo(const Shape& shape, std::ostream* stream) { *stream << shape.name; }

std::vector<Shape> Shapes() {
  ExecutorLimits roomy = TestLimits();
  roomy.num_pages = 256;
  ExecutorLimits tiny = TestLimits();
  tiny.num_pages = 17;
  ExecutorLimits one_row = tiny;
  one_row.step_tokens_max = 1;
  ExecutorLimits one_token_pages = TestLimits();
  one_token_pages.page_tokens = 1;
  one_token_pages.num_pages = 70;
  ExecutorLimits few_slots = TestLimits();
  few_slots.sequences_max = 2;
  few_slots.num_pages = 20;
  return {
      {"roomy", roomy, 0, true, false},       {"tiny", tiny, 0, true, true},
      {"tiny_chunks", tiny, 3, true, true},   {"tiny_without_prefix_cache", tiny, 5, false, true},
      {"one_row", one_row, 0, true, false},   {"one_token_pages", one_token_pages, 7, true, true},
      {"few_slots", few_slots, 0, true, true}};
}

class RandomRun {
 public:
  RandomRun(const Shape& shape, uint64_t seed)
      : shape_(shape), random_(seed), harness_(shape.limits, OptionsOf(shape)) {}

  void Run() {
    constexpr int kRequests = 400;
    while (num_submitted_ < kRequests || !live_.empty()) {
      if (num_submitted_ < kRequests && random_.Below(3) == 0) {
        Arrive();
        if (random_.Below(6) == 0) Cancel();
      }
      if (random_.Below(20) == 0) ChangeAdapters();
      const bool ran = harness_.Step();
      Collect();
      ASSERT_TRUE(ran || live_.empty()) << "requests wait, nobody runs";
      ASSERT_LT(++num_steps_, 200000) << "no progress";
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(num_compared_, kRequests / 2);
    const EngineSnapshot snapshot = harness_.engine.Snapshot();
    EXPECT_EQ(snapshot.preemptions > 0, shape_.preempts) << snapshot.preemptions;
    EXPECT_EQ(snapshot.prefix_hit_tokens > 0, shape_.prefix_cache);
    EXPECT_EQ(snapshot.pages_referenced, 0);
    for (const std::string& hash : contents_) harness_.adapters.Retire(hash);
    EXPECT_EQ(harness_.adapters.num_taken(), 0);
  }

 private:
  static EngineOptions OptionsOf(const Shape& shape) {
    EngineOptions options = TestOptions();
    options.prefill_chunk_max = shape.prefill_chunk_max;
    options.prefix_cache = shape.prefix_cache;
    return options;
  }

  int32_t Below(uint64_t n) { return static_cast<int32_t>(random_.Below(n)); }

  void Arrive() {
    // Few distinct prompts, long and short, so that prefixes recur.
    Request request = harness_.MakeRequest(Prompt(1 + Below(40), 2 + Below(2)), Below(30));
    if (random_.Below(3) == 0) request.prompt_tokens.back() = 2 + Below(48);
    if (random_.Below(20) == 0) request.prompt_tokens[0] = kPoisonToken;
    request.tenant = random_.Below(2) == 0 ? "a" : "b";
    request.sampling.seed = SeedOfTenant(request.tenant, static_cast<uint32_t>(random_.Below(3)));
    request.sampling.ignore_eos = random_.Below(2) == 0;
    request.sampling.prompt_logprobs = random_.Below(10) == 0;
    if (random_.Below(4) == 0) request.sampling.stop_token_ids = {2 + Below(48), 2 + Below(48)};
    request.sampling.tokens_min = Below(static_cast<uint64_t>(request.sampling.tokens_max) + 1);
    if (random_.Below(4) != 0) request.adapter_hash = contents_[random_.Below(contents_.size())];
    if (!harness_.adapters.Contains(request.adapter_hash)) request.adapter_hash.clear();
    live_.push_back(harness_.Submit(std::move(request)));
    ++num_submitted_;
  }

  void ChangeAdapters() {
    const std::string& hash = contents_[random_.Below(contents_.size())];
    if (harness_.adapters.Contains(hash)) {
      harness_.adapters.Retire(hash);
    } else {
      harness_.LoadAdapter(hash);
    }
  }

  void Cancel() {
    TestClient& client = *live_[random_.Below(live_.size())];
    harness_.engine.Cancel(client.request.id);
    cancelled_.insert(client.request.id);
  }

  void Collect() {
    for (auto& client : live_) {
      client->Collect();
      if (!client->done()) continue;
      Compare(*client);
      client.reset();
    }
    std::erase(live_, nullptr);
  }

  void Compare(const TestClient& client) {
    const std::vector<int32_t> expected = harness_.Reference(client.request);
    const std::vector<int32_t> output = client.output();
    const FinishReason reason = client.last().finish_reason;
    EXPECT_EQ(client.last().usage.output_tokens, static_cast<int32_t>(output.size()));
    if (reason == FinishReason::kCancelled) {
      EXPECT_EQ(cancelled_.count(client.request.id), 1u);
      ASSERT_LE(output.size(), expected.size());
      EXPECT_TRUE(std::equal(output.begin(), output.end(), expected.begin()));
      return;
    }
    if (reason == FinishReason::kError) {
      EXPECT_EQ(client.request.prompt_tokens[0], kPoisonToken);
      EXPECT_TRUE(output.empty());
      return;
    }
    ++num_compared_;
    ASSERT_EQ(output, expected) << "request " << client.request.id;
    if (client.request.sampling.prompt_logprobs) {
      const auto& logprobs = client.events[0].prompt_logprobs;
      ASSERT_EQ(logprobs.size(), client.request.prompt_tokens.size());
      const auto last = static_cast<int32_t>(logprobs.size()) - 1;
      if (last > 0) {
        EXPECT_EQ(logprobs.back().logprob, ReferencePromptLogprob(client.request, last));
      }
    }
  }

  const Shape shape_;
  const std::vector<std::string> contents_ = {"c0", "c1", "c2", "c3", "c4", "c5"};
  Random random_;
  EngineHarness harness_;
  std::vector<std::unique_ptr<TestClient>> live_;
  std::set<RequestId> cancelled_;
  int num_submitted_ = 0;
  int num_compared_ = 0;
  int num_steps_ = 0;
};

class EngineRandomTest : public testing::TestWithParam<Shape> {};

TEST_P(EngineRandomTest, EveryOutputIsThatOfTheRequestAlone) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun(GetParam(), seed).Run();
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, EngineRandomTest, testing::ValuesIn(Shapes()),
                         [](const auto& shape) { return std::string(shape.param.name); });

// The requests of one mixed batch, once together and once each in an engine of its own.
TEST(EngineBatchTest, AnAnswerDoesNotDependOnTheRestOfTheBatch) {
  EngineHarness together;
  const std::vector<std::string> contents = {"c0", "c1", "c2"};
  for (const std::string& hash : contents) together.LoadAdapter(hash);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 12; ++i) {
    Request request = together.MakeRequest(Prompt(3 + 3 * i, 2 + i), 10 + i);
    if (i % 4 != 0) request.adapter_hash = contents[static_cast<size_t>(i % 4 - 1)];
    clients.push_back(together.Submit(request));
    together.Step();
  }
  together.RunAll();
  for (auto& client : clients) {
    client->Collect();
    EngineHarness alone;
    for (const std::string& hash : contents) alone.LoadAdapter(hash);
    auto single = alone.Submit(client->request);
    alone.RunAll();
    single->Collect();
    EXPECT_EQ(client->output(), single->output());
  }
}

}  // namespace
}  // namespace graft
