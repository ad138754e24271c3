// The demo model: a request that is cut at any token and resumed elsewhere ends as if it had not
// been cut.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/runtime.h"

namespace graft {
namespace {

struct ResumeCase {
  const char* name;
  std::string adapter;
  SamplingParams sampling;
};

// The engine of one process, with a prefix cache of its own.
struct DemoEngine {
  explicit DemoEngine(DeviceChoice::Kind device) {
    RuntimeOptions options;
    const std::string demo = std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/demo";
    options.model = demo + "/base";
    options.adapters = demo + "/adapters";
    options.adapter_hashes = "off";
    options.pool_gib = 0.1;
    options.host_gib = 0.1;
    options.threads = 1;
    options.device = {.kind = device};
    options.engine.scheduler.shares_drawn_pages = false;
    model = LoadModel(options, /*quiet=*/true).value();
    runtime = Runtime::Create(options, *model, /*lora=*/true).value();
    EXPECT_TRUE(runtime->LoadAdapters().ok());
    runtime->engine().Start();
  }

  std::vector<TokenEvent> Answer(const ResumeCase& test, std::vector<int32_t> output_tokens) {
    Request request;
    request.id = ++last_id;
    if (!test.adapter.empty()) {
      request.UseAdapter(runtime->catalog().Find(test.adapter)->key());
    }
    request.prompt_tokens = {1, 306, 471, 263, 931, 29892, 727};
    request.output_tokens = std::move(output_tokens);
    request.sampling = test.sampling;
    request.sampling.ignore_eos = true;
    request.sampling.seed = 7;
    request.sampling.tokens_max = 10;
    for (int32_t& token : request.prompt_tokens) token %= model->config.vocab_size;
    auto stream = std::make_shared<TokenStream>();
    EXPECT_TRUE(runtime->engine().Submit(request, stream).ok());
    std::vector<TokenEvent> events;
    do {
      events.push_back(stream->Pop());
    } while (events.back().finish_reason == FinishReason::kNone);
    return events;
  }

  uint64_t last_id = 0;
  std::unique_ptr<LoadedModel> model;
  std::unique_ptr<Runtime> runtime;
};

void ExpectSameEvent(const TokenEvent& got, const TokenEvent& want) {
  EXPECT_EQ(got.token, want.token);
  EXPECT_EQ(got.logprob, want.logprob);
  ASSERT_EQ(got.top_logprobs.size(), want.top_logprobs.size());
  for (size_t i = 0; i < got.top_logprobs.size(); ++i) {
    EXPECT_EQ(got.top_logprobs[i].token, want.top_logprobs[i].token);
    EXPECT_EQ(got.top_logprobs[i].logprob, want.top_logprobs[i].logprob);
  }
  EXPECT_EQ(got.finish_reason, want.finish_reason);
}

void ExpectSameAnswersHoweverCut(DeviceChoice::Kind device) {
  const SamplingParams greedy = {.temperature = 0.0f, .num_logprobs = 3};
  const SamplingParams sampled = {.temperature = 1.2f, .top_p = 0.95f, .top_k = 50};
  SamplingParams penalised = sampled;
  penalised.repetition_penalty = 1.3f;
  penalised.frequency_penalty = 0.5f;
  penalised.presence_penalty = 0.5f;
  penalised.num_logprobs = 0;
  const ResumeCase cases[] = {{"greedy", "", greedy},
                              {"sampled", "", sampled},
                              {"adapter greedy", "austen", greedy},
                              {"adapter sampled", "wells", sampled},
                              {"adapter penalties", "austen", penalised}};
  DemoEngine whole_engine(device);
  DemoEngine rest_engine(device);
  for (const ResumeCase& test : cases) {
    SCOPED_TRACE(test.name);
    const std::vector<TokenEvent> whole = whole_engine.Answer(test, {});
    ASSERT_EQ(whole.size(), 10u);
    std::vector<int32_t> output;
    for (size_t cut = 1; cut < whole.size(); ++cut) {
      output.push_back(whole[cut - 1].token);
      const std::vector<TokenEvent> rest = rest_engine.Answer(test, output);
      ASSERT_EQ(rest.size(), whole.size() - cut);
      for (size_t i = 0; i < rest.size(); ++i) ExpectSameEvent(rest[i], whole[cut + i]);
      EXPECT_EQ(rest.back().usage.output_tokens, 10);
    }
  }
}

TEST(ResumeTest, TokensAndLogprobsAreTheSameBitForBit) {
  ExpectSameAnswersHoweverCut(DeviceChoice::Kind::kCpu);
}

// Where rows of a prompt and drawn rows are not computed alike.
TEST(ResumeTest, GpuTokensAndLogprobsAreTheSameBitForBit) {
  if (NumCudaDevices() == 0) GTEST_SKIP() << "this machine shows no GPU";
  ExpectSameAnswersHoweverCut(DeviceChoice::Kind::kCuda);
}

}  // namespace
}  // namespace graft
