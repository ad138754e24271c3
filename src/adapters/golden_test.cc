// Compares our numbers with those of HF transformers and PEFT (tests/goldens, demo/golden.json):
// base and adapters, every dtype, CPU and GPU, one at a time and all in one batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "adapters/adapter_test_util.h"
#include "adapters/base_copies.h"
#include "adapters/lora_weights.h"
#include "adapters/peft_config.h"
#include "base/file.h"
#include "layers/lora_store.h"
#include "model/model_test_util.h"
#include "model/test_session.h"

namespace graft {
namespace {

using testing::Argmax;
using testing::Chunk;
using testing::LogProb;
using testing::SourcePath;
using testing::TestDevice;
using testing::TestSession;

LoraWeights LoadAdapter(const std::string& dir, const ModelConfig& config, DType dtype) {
  Result<std::string> text = ReadFile(dir + "/adapter_config.json");
  CHECK(text.ok()) << text.status().ToString();
  Result<PeftConfig> peft = ParsePeftConfig(*text);
  CHECK(peft.ok()) << dir << ": " << peft.status().ToString();
  Result<SafetensorsFile> file = SafetensorsFile::Open(dir + "/adapter_model.safetensors");
  CHECK(file.ok()) << file.status().ToString();
  peft->base_copies = BaseCopiesIn(*file, config);  // base_copies_test looks at them
  Result<LoraWeights> weights = LoraWeights::Load(*file, *peft, config, dtype);
  CHECK(weights.ok()) << dir << ": " << weights.status().ToString();
  return std::move(*weights);
}

LoraTable TableOf(const LoraStore& store) {
  return {store.matrices(0, LoraModule::kQ), store.matrices_stride(), store.rank_max()};
}

// On which device and in which dtype to compute, and how close log-probabilities must come to HF's
// fp32.
struct Arithmetic {
  DeviceKind device;
  DType dtype;
  double logprob_error_max;
};

constexpr Arithmetic kArithmetics[] = {
    {DeviceKind::kCpu, DType::kF32, 1e-4},
    {DeviceKind::kCpu, DType::kBF16, 3e-2},
    {DeviceKind::kCuda, DType::kF32, 1e-4},
    {DeviceKind::kCuda, DType::kF16, 3e-2},
    // A GPU's tensor cores round every input of a GEMM to bf16.
    {DeviceKind::kCuda, DType::kBF16, 1.5e-1},
};

std::string NameOf(const Arithmetic& arithmetic) {
  return std::string(arithmetic.device == DeviceKind::kCpu ? "cpu_" : "cuda_") +
         std::string(DTypeName(arithmetic.dtype));
}

// A model folder, loaded with everything that it takes to run it.
struct Model {
  Model(const std::string& dir, DType dtype, Stream& stream, int32_t adapters_max)
      : config(TextOf(dir)),
        weights(std::move(*LoadWeights(dir, config, TypesOf(dtype, stream.device), stream))),
        loras(config, adapters_max, stream.device) {}

  static ModelConfig TextOf(const std::string& dir) {
    ModelConfig config = *LoadModelConfig(dir);
    config.text_only = true;
    return config;
  }

  const ModelConfig config;
  ModelWeights weights;
  LoraStore loras;
};

class GoldenTest : public ::testing::TestWithParam<std::tuple<const char*, Arithmetic>> {};

template <typename T>
std::vector<T> Values(const SafetensorsFile& file, const std::string& name) {
  const Result<std::span<const char>> bytes = file.Bytes(name);
  CHECK(bytes.ok()) << bytes.status().ToString();
  std::vector<T> values(bytes->size() / sizeof(T));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

// The differences between our numbers and the golden ones.
class Differences {
 public:
  void Add(double got, double golden) { all_.push_back(std::abs(got - golden)); }
  // The difference that a given share of all numbers does not exceed. For share 1 it is the
  // largest.
  double Quantile(double share) {
    std::sort(all_.begin(), all_.end());
    return all_[static_cast<size_t>(share * static_cast<double>(all_.size() - 1))];
  }
  double Rms() const {
    double sum = 0.0;
    for (const double difference : all_) sum += difference * difference;
    return std::sqrt(sum / static_cast<double>(all_.size()));
  }

 private:
  std::vector<double> all_;
};

Differences Compare(const std::vector<std::vector<float>>& rows, const std::vector<float>& golden) {
  Differences differences;
  size_t i = 0;
  for (const std::vector<float>& row : rows) {
    for (const float logit : row) differences.Add(double{logit}, double{golden.at(i++)});
  }
  EXPECT_EQ(i, golden.size());
  return differences;
}

TEST_P(GoldenTest, LogitsOfBaseAndAdapter) {
  const auto& [name, arithmetic] = GetParam();
  TestDevice device(arithmetic.device);
  if (!device.exists()) GTEST_SKIP() << "this machine shows no GPU";
  const DType dtype = arithmetic.dtype;
  const std::string dir = SourcePath(std::string("tests/goldens/") + name);
  Model model(dir, dtype, device.stream(), 1);
  model.loras.Set(0, LoadAdapter(dir + "/adapter", model.config, dtype).TakeRows());
  const SafetensorsFile golden = *SafetensorsFile::Open(dir + "/golden.safetensors");
  const std::vector<int32_t> tokens = Values<int32_t>(golden, "input_ids");

  TestSession session(model.config, model.weights, device.stream());
  const auto base = Values<float>(golden, "logits_base");
  const auto adapter = Values<float>(golden, "logits_adapter");
  std::vector<float> both = base;
  both.insert(both.end(), adapter.begin(), adapter.end());
  const LoraTable lora = TableOf(model.loras);
  Differences differences[] = {
      Compare(session.Step({{0, tokens, -1}}), base),
      Compare(session.Step({{1, tokens, 0}}, lora), adapter),
      Compare(session.Step({{2, tokens, -1}, {3, tokens, 0}}, lora), both)};
  for (Differences& difference : differences) {
    // These models have random weights, which enlarge rounding errors more than trained ones do, so
    // 16-bit types are held to the mean error. Logits are around 1.4.
    const double error_max = arithmetic.logprob_error_max;
    EXPECT_LT(difference.Quantile(1.0), dtype == DType::kF32 ? error_max : 3.0 * error_max);
    EXPECT_LT(difference.Rms(), error_max / 3.0);
    RecordProperty(&difference == differences       ? "base"
                   : &difference == differences + 1 ? "adapter"
                                                    : "both",
                   "rms " + std::to_string(difference.Rms()) + ", largest " +
                       std::to_string(difference.Quantile(1.0)));
  }
}

// The same in one step: rows of the base before and behind the adapter's.
TEST_P(GoldenTest, BaseAndAdapterInOneBatch) {
  const auto& [name, arithmetic] = GetParam();
  TestDevice device(arithmetic.device);
  if (!device.exists()) GTEST_SKIP() << "this machine shows no GPU";
  const DType dtype = arithmetic.dtype;
  const std::string dir = SourcePath(std::string("tests/goldens/") + name);
  Model model(dir, dtype, device.stream(), 1);
  model.loras.Set(0, LoadAdapter(dir + "/adapter", model.config, dtype).TakeRows());
  const SafetensorsFile golden = *SafetensorsFile::Open(dir + "/golden.safetensors");
  const std::vector<int32_t> tokens = Values<int32_t>(golden, "input_ids");
  TestSession session(model.config, model.weights, device.stream(), 16, 128);
  const auto rows =
      session.Step({{0, tokens, -1}, {1, tokens, 0}, {2, tokens, -1}}, TableOf(model.loras));
  const auto of = [&](int64_t sequence) {
    const auto begin = rows.begin() + sequence * static_cast<int64_t>(tokens.size());
    return std::vector(begin, begin + static_cast<int64_t>(tokens.size()));
  };
  const double error_max = arithmetic.logprob_error_max;
  for (const int64_t sequence : {0, 1, 2}) {
    const char* const expected = sequence == 1 ? "logits_adapter" : "logits_base";
    Differences differences = Compare(of(sequence), Values<float>(golden, expected));
    EXPECT_LT(differences.Quantile(1.0), dtype == DType::kF32 ? error_max : 3.0 * error_max);
    EXPECT_LT(differences.Rms(), error_max / 3.0) << expected;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Architectures, GoldenTest,
    ::testing::Combine(::testing::Values("llama", "llama-linear-rope", "llama3-rope",
                                         "mistral-window", "qwen2", "qwen2-yarn", "qwen3", "gemma",
                                         "gemma2", "gemma3", "granite", "olmo2", "phi3-longrope",
                                         "phi3-partial-rotary", "smollm3", "gemma3-wrapper",
                                         "mistral3", "ministral3", "qwen2-vl", "qwen25-vl",
                                         "qwen3-vl", "llava", "llava-next", "idefics3", "smolvlm",
                                         "gpt2", "gpt-neo", "gpt-neox", "gpt-neox-serial", "phi",
                                         "starcoder2", "olmo3", "exaone4", "glm", "glm4"),
                       ::testing::ValuesIn(kArithmetics)),
    [](const auto& info) {
      std::string name = std::get<0>(info.param);
      std::replace(name.begin(), name.end(), '-', '_');
      return name + "_" + NameOf(std::get<1>(info.param));
    });

// LoRA on the head, of models with a head of their own, a tied and capped one, and scaled logits. A
// row of the base beside it keeps its very bits.
class HeadGoldenTest : public ::testing::TestWithParam<std::tuple<const char*, Arithmetic>> {};

TEST_P(HeadGoldenTest, ARowsAdapterAloneChangesItsLogits) {
  const auto& [name, arithmetic] = GetParam();
  TestDevice device(arithmetic.device);
  if (!device.exists()) GTEST_SKIP() << "this machine shows no GPU";
  const DType dtype = arithmetic.dtype;
  const double error_max = arithmetic.logprob_error_max;
  for (const std::string kind : {"-with-head", "-head-alone"}) {
    const std::string dir = SourcePath("tests/goldens/heads/" + std::string(name) + kind);
    Model model(SourcePath(std::string("tests/goldens/") + name), dtype, device.stream(), 1);
    model.loras.Set(0, LoadAdapter(dir + "/adapter", model.config, dtype).TakeRows());
    EXPECT_TRUE(model.loras.changes_head(0) && model.loras.any_changes_head());
    const SafetensorsFile golden = *SafetensorsFile::Open(dir + "/golden.safetensors");
    const std::vector<int32_t> tokens = Values<int32_t>(golden, "input_ids");
    TestSession session(model.config, model.weights, device.stream());
    const auto base_alone = session.Step({{0, tokens, -1}});
    session.ChangeHead();
    const auto both = session.Step({{1, tokens, -1}, {2, tokens, 0}}, TableOf(model.loras));
    const auto middle = both.begin() + static_cast<std::ptrdiff_t>(tokens.size());
    EXPECT_EQ(std::vector(both.begin(), middle), base_alone);
    Differences difference =
        Compare(std::vector(middle, both.end()), Values<float>(golden, "logits_adapter"));
    EXPECT_LT(difference.Quantile(1.0), dtype == DType::kF32 ? error_max : 3.0 * error_max);
    EXPECT_LT(difference.Rms(), error_max / 3.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, HeadGoldenTest,
                         ::testing::Combine(::testing::Values("llama", "gemma2", "granite"),
                                            ::testing::ValuesIn(kArithmetics)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  NameOf(std::get<1>(info.param));
                         });

// Phi's head has a bias, which LoRA does not add again: twice the scale is twice the difference.
TEST(HeadBiasTest, IsAddedOnce) {
  const std::string dir = SourcePath("tests/goldens/phi");
  TestDevice device(DeviceKind::kCpu);
  Model model(dir, DType::kF32, device.stream(), 2);
  ASSERT_TRUE(model.config.head_bias);
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5};
  for (const int slot : {0, 1}) {
    const PeftConfig peft = testing::Peft(
        R"("r": 2, "target_modules": ["lm_head"], "lora_alpha": )" + std::to_string(2 << slot));
    const SafetensorsFile file = testing::FileOf(testing::LoraTestTensors(peft, model.config));
    LoraWeights weights = *LoraWeights::Load(file, peft, model.config, DType::kF32);
    model.loras.Set(slot, std::move(weights).TakeRows());
  }
  TestSession session(model.config, model.weights, device.stream());
  session.ChangeHead();
  const LoraTable lora = TableOf(model.loras);
  const auto base = session.Step({{0, tokens, -1}}, lora);
  const auto once = session.Step({{1, tokens, 0}}, lora);
  const auto twice = session.Step({{2, tokens, 1}}, lora);
  double largest = 0.0;
  for (size_t row = 0; row < base.size(); ++row) {
    for (size_t word = 0; word < base[row].size(); ++word) {
      const double difference = double{once[row][word]} - double{base[row][word]};
      EXPECT_NEAR(twice[row][word] - base[row][word], 2.0 * difference, 1e-4);
      largest = std::max(largest, std::abs(difference));
    }
  }
  EXPECT_GT(largest, 1e-2);
}

// An activated LoRA: rows before its invocation are the base's, and their keys and values too.
TEST(ActivatedLoraTest, LogitsArePefts) {
  const std::string llama = SourcePath("tests/goldens/llama");
  const SafetensorsFile golden =
      *SafetensorsFile::Open(SourcePath("tests/goldens/alora/golden.safetensors"));
  const auto tokens = Values<int32_t>(golden, "input_ids");
  const auto generated = Values<int32_t>(golden, "generated");
  const auto invocation = Values<int32_t>(golden, "invocation");
  const auto begin =
      std::find_end(tokens.begin(), tokens.end(), invocation.begin(), invocation.end());
  ASSERT_EQ(begin - tokens.begin(), 13) << "the last of two";
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    TestDevice device(kind);
    if (!device.exists()) continue;
    Model model(llama, DType::kF32, device.stream(), 1);
    model.loras.Set(0, LoadAdapter(llama + "/adapter", model.config, DType::kF32).TakeRows());
    TestSession session(model.config, model.weights, device.stream());
    auto rows = session.Step({{0, {tokens.begin(), begin}, -1}});
    const auto acted = session.Step({{0, {begin, tokens.end()}, 0}}, TableOf(model.loras));
    rows.insert(rows.end(), acted.begin(), acted.end());
    EXPECT_LT(Compare(rows, Values<float>(golden, "logits")).Quantile(1.0), 1e-4);
    std::vector<std::vector<float>> drawn = {rows.back()};
    for (size_t i = 0; i < generated.size(); ++i) {
      EXPECT_EQ(Argmax(drawn.back()), generated[i]);
      if (i + 1 == generated.size()) break;
      drawn.push_back(session.Step({{0, {generated[i]}, 0}}, TableOf(model.loras)).back());
    }
    EXPECT_LT(Compare(drawn, Values<float>(golden, "logits_generated")).Quantile(1.0), 1e-4);
    const auto absent = session.Step({{1, Values<int32_t>(golden, "absent_ids"), -1}});
    EXPECT_LT(Compare(absent, Values<float>(golden, "logits_absent")).Quantile(1.0), 1e-4);
  }
}

// longrope's short factors apply where no position of the server's context needs the long ones. HF
// chooses by the length of the sequence.
TEST(LongRopeTest, ShortContexts) {
  const std::string dir = SourcePath("tests/goldens/phi3-longrope");
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    TestDevice device(kind);
    if (!device.exists()) continue;
    Model model(dir, DType::kF32, device.stream(), 1);
    const int32_t context = model.config.ropes[0].original_tokens;
    const SafetensorsFile golden = *SafetensorsFile::Open(dir + "/golden.safetensors");
    std::vector<int32_t> tokens = Values<int32_t>(golden, "input_ids");
    tokens.resize(static_cast<size_t>(context));
    const std::vector<float> expected = Values<float>(golden, "logits_short");
    const auto largest = [&](int32_t context_tokens_max) {
      ModelConfig config = model.config;
      config.context_tokens_max = context_tokens_max;
      TestSession session(config, model.weights, device.stream());
      return Compare(session.Step({{0, tokens, -1}}), expected).Quantile(1.0);
    };
    EXPECT_LT(largest(context), 1e-4);
    EXPECT_GT(largest(context + 1), 1e-2);
  }
}

// One entry of demo/golden.json.
struct Expected {
  std::string model;
  std::vector<int32_t> prompt;
  std::vector<int32_t> greedy;
  std::vector<double> prompt_logprobs;  // of prompt[1], prompt[2], and so on
  std::vector<double> greedy_logprobs;
  std::vector<int32_t> top_ids;  // for the first generated token
  std::vector<double> top_logprobs;
};

std::vector<Expected> DemoGolden() {
  const Result<Json> json = ParseJsonFile(SourcePath("demo/golden.json"));
  CHECK(json.ok()) << json.status().ToString();
  std::vector<Expected> all;
  for (const Json& entry : *json) {
    Expected expected{
        entry["model"],           entry["prompt_ids"],   entry["greedy_ids"],       {},
        entry["greedy_logprobs"], entry["next_top_ids"], entry["next_top_logprobs"]};
    for (const Json& logprob : entry["prompt_logprobs"]) {
      if (!logprob.is_null()) expected.prompt_logprobs.push_back(logprob);
    }
    CHECK_EQ(expected.prompt_logprobs.size() + 1, expected.prompt.size());
    all.push_back(std::move(expected));
  }
  CHECK(!all.empty());
  return all;
}

class DemoGoldenTest : public ::testing::TestWithParam<Arithmetic> {
 protected:
  void SetUp() override {
    if (!device_.exists()) GTEST_SKIP() << "this machine shows no GPU";
    const DType dtype = GetParam().dtype;
    model_.emplace(SourcePath("demo/base"), dtype, device_.stream(), 16);
    for (const Expected& expected : expected_) {
      if (expected.model == "base" || slots_.contains(expected.model)) continue;
      const auto slot = static_cast<int32_t>(slots_.size());
      slots_[expected.model] = slot;
      model_->loras.Set(
          slot, LoadAdapter(SourcePath("demo/adapters/" + expected.model), model_->config, dtype)
                    .TakeRows());
    }
    CHECK_EQ(slots_.size(), 8u);
  }

  int32_t SlotOf(const Expected& expected) const {
    return expected.model == "base" ? -1 : slots_.at(expected.model);
  }

  TestDevice device_{GetParam().device};
  const std::vector<Expected> expected_ = DemoGolden();
  std::optional<Model> model_;
  std::map<std::string, int32_t> slots_;
};

// A sequence that is fed step by step: its prompt, then the golden tokens one by one.
struct Sequence {
  std::vector<int32_t> tokens;  // the prompt and the greedy tokens
  size_t num_done = 0;
};

// Fills one step with the next chunk of each sequence that has joined and is not done. A sequence
// joins when the prompt before it is done. Prompts go in chunks of 4. Returns false when all are
// done.
bool NextStep(const std::vector<Expected>& expected, const std::vector<Sequence>& sequences,
              std::vector<Chunk>* chunks) {
  chunks->clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (i > 0 && sequences[i - 1].num_done < expected[i - 1].prompt.size()) break;
    const Sequence& sequence = sequences[i];
    const size_t chunk_tokens = sequence.num_done < expected[i].prompt.size() ? 4 : 1;
    const size_t end = std::min(sequence.num_done + chunk_tokens, sequence.tokens.size());
    if (end == sequence.num_done) continue;
    chunks->push_back(
        {static_cast<int32_t>(i),
         std::vector<int32_t>(sequence.tokens.begin() + static_cast<int64_t>(sequence.num_done),
                              sequence.tokens.begin() + static_cast<int64_t>(end))});
  }
  return !chunks->empty();
}

// All entries of the golden file at once, prefill and decode mixed. Each step is fed the golden
// token, so that one near tie in bf16 does not change what follows.
TEST_P(DemoGoldenTest, EveryModelInOneBatch) {
  TestSession session(model_->config, model_->weights, device_.stream(), 16, 256);
  std::vector<Sequence> sequences;
  for (const Expected& expected : expected_) {
    sequences.push_back({expected.prompt});
    sequences.back().tokens.insert(sequences.back().tokens.end(), expected.greedy.begin(),
                                   expected.greedy.end() - 1);
  }
  Differences differences;
  double widest_gap = 0.0;  // where they differ: our first choice over the golden one
  std::vector<Chunk> chunks;
  while (NextStep(expected_, sequences, &chunks)) {
    for (Chunk& chunk : chunks) chunk.adapter_slot = SlotOf(expected_[chunk.sequence]);
    const std::vector<std::vector<float>> logits = session.Step(chunks, TableOf(model_->loras));
    auto row = logits.begin();
    for (const Chunk& chunk : chunks) {
      const Expected& expected = expected_[chunk.sequence];
      const size_t prompt = expected.prompt.size();
      for (size_t i = 0; i < chunk.tokens.size(); ++i, ++row) {
        const size_t next = ++sequences[chunk.sequence].num_done;  // position of the next token
        if (next < prompt) {
          differences.Add(LogProb(*row, expected.prompt[next]), expected.prompt_logprobs[next - 1]);
          continue;
        }
        const double golden = expected.greedy_logprobs[next - prompt];
        const int32_t token = expected.greedy[next - prompt];
        differences.Add(LogProb(*row, token), golden);
        widest_gap = std::max(widest_gap, LogProb(*row, Argmax(*row)) - LogProb(*row, token));
        for (size_t k = 0; next == prompt && k < expected.top_ids.size(); ++k) {
          differences.Add(LogProb(*row, expected.top_ids[k]), expected.top_logprobs[k]);
        }
      }
    }
  }
  for (const Sequence& sequence : sequences) EXPECT_EQ(sequence.num_done, sequence.tokens.size());
  EXPECT_LT(differences.Quantile(1.0), GetParam().logprob_error_max);
  if (GetParam().dtype == DType::kF32) {
    EXPECT_EQ(widest_gap, 0.0) << "every greedy token is HF's";
  } else {
    EXPECT_LT(widest_gap, GetParam().logprob_error_max) << "only near ties may fall the other way";
  }
  RecordProperty("logprobs", "rms " + std::to_string(differences.Rms()) + ", 99 % under " +
                                 std::to_string(differences.Quantile(0.99)) + ", largest " +
                                 std::to_string(differences.Quantile(1.0)) + ", widest gap " +
                                 std::to_string(widest_gap));
}

// Greedy decoding without golden tokens, one model after the other, must give exactly HF's tokens.
TEST_P(DemoGoldenTest, GreedyTokens) {
  if (GetParam().dtype != DType::kF32) GTEST_SKIP() << "near ties may fall either way";
  for (const Expected& expected : expected_) {
    TestSession session(model_->config, model_->weights, device_.stream(), 16, 64);
    std::vector<int32_t> tokens = expected.prompt;
    std::vector<int32_t> greedy;
    while (greedy.size() < expected.greedy.size()) {
      const auto logits = session.Step({{0, tokens, SlotOf(expected)}}, TableOf(model_->loras));
      greedy.push_back(Argmax(logits.back()));
      tokens = {greedy.back()};
    }
    EXPECT_EQ(greedy, expected.greedy) << expected.model;
  }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, DemoGoldenTest, ::testing::ValuesIn(kArithmetics),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace graft
