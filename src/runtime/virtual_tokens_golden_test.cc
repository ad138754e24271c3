// Prompt- and prefix-tuning adapters made by PEFT, through a whole server without HTTP, against the
// numbers of HF and PEFT (tests/goldens/prompts).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/runtime.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kVirtualTokens = 5;

std::string GoldensPath(const std::string& name) {
  return std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/tests/goldens/" + name;
}

struct GoldenModel {
  const char* model;
  const char* kind;
};

std::string NameOf(const GoldenModel& golden) {
  return std::string(golden.model) + "-" + golden.kind;
}

template <typename T>
std::vector<T> GoldenValues(const SafetensorsFile& file, const std::string& name) {
  const std::span<const char> bytes = file.Bytes(name).value();
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// A server of a golden model with two adapters: the golden prompt alone, and bundled with the LoRA.
class PromptServer {
 public:
  PromptServer(const GoldenModel& golden, int32_t page_tokens, int32_t chunk_max,
               bool prefix_cache = true) {
    folder_ = fs::temp_directory_path() / ("graft-" + NameOf(golden) + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::copy(GoldensPath("prompts/" + NameOf(golden)), folder_ / "prompt");
    fs::create_directories(folder_ / "both");
    fs::copy(GoldensPath("prompts/" + NameOf(golden)), folder_ / "both" / "prompt");
    fs::copy(GoldensPath(golden.model) + "/adapter", folder_ / "both" / "lora");
    std::ofstream(folder_ / "both" / "graft.json") << R"({"format": 1})";
    RuntimeOptions options;
    options.model = GoldensPath(golden.model);
    options.adapters = folder_.string();
    options.adapter_hashes = "off";
    options.device = {.kind = DeviceChoice::Kind::kCpu};
    options.dtype = DType::kF32;
    options.pool_gib = 0.01;
    options.host_gib = 0.01;
    options.threads = 1;
    options.limits.page_tokens = page_tokens;
    options.engine.scheduler.prefill_chunk_max = chunk_max;
    options.engine.scheduler.prefix_cache = prefix_cache;
    model_ = LoadModel(options, /*quiet=*/true).value();
    runtime_ = Runtime::Create(options, *model_, /*lora=*/true).value();
    EXPECT_TRUE(runtime_->LoadAdapters().ok());
    runtime_->engine().Start();
  }
  ~PromptServer() {
    runtime_.reset();
    fs::remove_all(folder_);
  }

  Runtime& runtime() { return *runtime_; }

  // Greedy, with log-probabilities of the prompt unless it is to share pages.
  std::vector<TokenEvent> Answer(const std::vector<int32_t>& prompt, int32_t tokens_max,
                                 bool prompt_logprobs, const std::string& adapter = "prompt") {
    Request request;
    request.id = ++last_id_;
    request.UseAdapter(runtime_->catalog().Find(adapter)->key());
    request.prompt_tokens = prompt;
    request.sampling = {.temperature = 0.0f,
                        .num_logprobs = 0,
                        .prompt_logprobs = prompt_logprobs,
                        .tokens_max = tokens_max,
                        .ignore_eos = true};
    auto stream = std::make_shared<TokenStream>();
    EXPECT_TRUE(runtime_->engine().Submit(request, stream).ok());
    std::vector<TokenEvent> events;
    do {
      events.push_back(stream->Pop());
    } while (events.back().finish_reason == FinishReason::kNone);
    return events;
  }

 private:
  fs::path folder_;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<Runtime> runtime_;
  uint64_t last_id_ = 0;
};

std::vector<int32_t> TokensOf(const std::vector<TokenEvent>& events) {
  std::vector<int32_t> tokens;
  for (const TokenEvent& event : events) {
    if (event.token >= 0) tokens.push_back(event.token);
  }
  return tokens;
}

// The log-probability of `token` by the golden logits of a row.
double GoldenLogprob(const std::vector<float>& logits, size_t row, size_t vocab, int32_t token) {
  const float* first = logits.data() + row * vocab;
  double sum = 0.0;
  for (size_t i = 0; i < vocab; ++i) sum += std::exp(double{first[i]});
  return double{first[token]} - std::log(sum);
}

void ExpectGolden(const std::vector<TokenEvent>& events, const SafetensorsFile& golden,
                  const std::string& suffix) {
  const auto tokens = GoldenValues<int32_t>(golden, "input_ids");
  const auto logits = GoldenValues<float>(golden, "logits" + suffix);
  const size_t vocab = logits.size() / tokens.size();
  EXPECT_EQ(TokensOf(events), GoldenValues<int32_t>(golden, "drawn" + suffix));
  EXPECT_NEAR(events.front().logprob,
              GoldenLogprob(logits, tokens.size() - 1, vocab, events.front().token), 1e-4);
  EXPECT_EQ(events.back().usage.prompt_tokens, static_cast<int32_t>(tokens.size()));
  const std::vector<TokenLogprob>& told = events.front().prompt_logprobs;
  if (told.empty()) return;
  ASSERT_EQ(told.size(), tokens.size());
  EXPECT_EQ(told[0].token, tokens[0]);
  EXPECT_TRUE(std::isnan(told[0].logprob));
  for (size_t i = 1; i < told.size(); ++i) {
    EXPECT_EQ(told[i].token, tokens[i]);
    EXPECT_NEAR(told[i].logprob, GoldenLogprob(logits, i - 1, vocab, tokens[i]), 1e-4) << i;
  }
}

class VirtualTokensGoldenTest : public ::testing::TestWithParam<GoldenModel> {};

TEST_P(VirtualTokensGoldenTest, LogprobsAndTokensOfPeft) {
  const SafetensorsFile golden =
      SafetensorsFile::Open(GoldensPath("prompts/" + NameOf(GetParam())) + "/golden.safetensors")
          .value();
  const auto tokens = GoldenValues<int32_t>(golden, "input_ids");
  // Virtual tokens that end in a page's middle, at its end, in chunks of their own.
  for (const auto& [page_tokens, chunk_max] : {std::pair(16, 0), {5, 0}, {4, 3}, {2, 1}}) {
    SCOPED_TRACE(std::to_string(page_tokens) + " a page, chunks of " + std::to_string(chunk_max));
    PromptServer server(GetParam(), page_tokens, chunk_max);
    for (const bool prompt_logprobs : {true, false, false}) {
      ExpectGolden(server.Answer(tokens, 6, prompt_logprobs), golden, "");
      ExpectGolden(server.Answer(tokens, 6, prompt_logprobs, "both"), golden, "_with_lora");
    }
  }
}

// The second request finds the pages of the first one's virtual tokens, and is told of its own
// tokens alone.
TEST_P(VirtualTokensGoldenTest, PagesAreSharedAndNotCounted) {
  const SafetensorsFile golden =
      SafetensorsFile::Open(GoldensPath("prompts/" + NameOf(GetParam())) + "/golden.safetensors")
          .value();
  const auto tokens = GoldenValues<int32_t>(golden, "input_ids");
  PromptServer server(GetParam(), /*page_tokens=*/2, 0);
  const std::vector<TokenEvent> first = server.Answer(tokens, 3, false);
  const std::vector<TokenEvent> again = server.Answer(tokens, 3, false);
  std::vector<int32_t> other = tokens;
  other[0] = other[0] == 7 ? 8 : 7;
  const std::vector<TokenEvent> others = server.Answer(other, 3, false);
  EXPECT_EQ(TokensOf(again), TokensOf(first));
  EXPECT_EQ(first.back().usage.cached_tokens, 0);
  EXPECT_EQ(again.back().usage.cached_tokens, 2 * ((12 + kVirtualTokens - 1) / 2) - kVirtualTokens);
  EXPECT_EQ(others.back().usage.cached_tokens, 0);
  const EngineSnapshot snapshot = server.runtime().engine().Snapshot();
  EXPECT_EQ(snapshot.prefix_hit_tokens, 16 + 4) << "of the second one, and of the third one";
}

TEST_P(VirtualTokensGoldenTest, TheyCountAgainstTheContext) {
  PromptServer server(GetParam(), 16, 0);
  const int32_t context = server.runtime().limits().context_tokens_max;
  const std::vector<int32_t> fits(static_cast<size_t>(context - kVirtualTokens - 1), 9);
  const std::vector<TokenEvent> one = server.Answer(fits, 100, false);
  EXPECT_EQ(TokensOf(one).size(), 1u);
  EXPECT_EQ(one.back().finish_reason, FinishReason::kLength);
  const std::vector<int32_t> too_long(fits.size() + 1, 9);
  const std::vector<TokenEvent> refused = server.Answer(too_long, 100, false);
  EXPECT_EQ(refused.back().status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.back().status.message().find("puts 5 tokens in front"), std::string::npos)
      << refused.back().status.message();
}

INSTANTIATE_TEST_SUITE_P(
    All, VirtualTokensGoldenTest,
    ::testing::Values(GoldenModel{"llama", "prompt"}, GoldenModel{"llama", "prefix"},
                      GoldenModel{"llama", "p-tuning"}, GoldenModel{"qwen3", "prompt"},
                      GoldenModel{"qwen3", "prefix"}, GoldenModel{"mistral-window", "prompt"},
                      GoldenModel{"mistral-window", "prefix"},
                      GoldenModel{"phi3-partial-rotary", "prompt"},
                      GoldenModel{"phi3-partial-rotary", "prefix"}, GoldenModel{"gemma2", "prompt"},
                      GoldenModel{"gemma2", "prefix"}, GoldenModel{"gemma3", "prompt"},
                      GoldenModel{"gemma3", "prefix"}, GoldenModel{"granite", "prompt"},
                      GoldenModel{"glm", "prefix"}, GoldenModel{"gpt2", "prompt"},
                      GoldenModel{"gpt2", "prefix"}),
    [](const auto& info) {
      std::string name = NameOf(info.param);
      for (char& c : name) {
        if (c == '-') c = '_';
      }
      return name;
    });

}  // namespace
}  // namespace graft
