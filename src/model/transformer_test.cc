#include "model/transformer.h"

#include <gtest/gtest.h>

#include "model/test_session.h"
#include "tensor/allocations.h"

namespace graft {
namespace {

using testing::Chunk;
using testing::TestDevice;
using testing::TestSession;

using Logits = std::vector<std::vector<float>>;

// A model of odd sizes: none is a multiple of a vector's lanes, a panel or a page.
ModelConfig OddConfig() {
  ModelConfig config;
  config.architecture = Architecture::kQwen3;
  config.vocab_size = 101;
  config.hidden_size = 54;
  config.intermediate_size = 77;
  config.num_layers = 3;
  config.num_heads = 6;
  config.num_kv_heads = 2;
  config.head_dim = 18;
  config.context_tokens_max = 200;
  config.qkv_bias = true;
  config.o_bias = true;
  config.mlp_bias = true;
  config.SetPlainLayers();
  for (LayerSpec& layer : config.layers) layer.qk_norm = true;
  config.layers[1].window = 9;
  return config;
}

// A model with sizes that suit a GPU's tensor cores and copy engine.
ModelConfig EvenConfig() {
  ModelConfig config;
  config.vocab_size = 101;
  config.hidden_size = 128;
  config.intermediate_size = 192;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.context_tokens_max = 200;
  config.SetPlainLayers();
  config.layers[1].window = 9;
  return config;
}

// A model with everything that Gemma's layers have, two ropes, and heads that rotate only in part.
ModelConfig SandwichConfig() {
  ModelConfig config = OddConfig();
  config.architecture = Architecture::kGemma3;
  config.head_dim = 20;
  config.rotary_dim = 8;
  config.scales_embeddings = true;
  config.norms_add_one = true;
  config.logit_cap = 2.0f;
  config.ropes = {RopeConfig{}, RopeConfig{.theta = 100.0}};
  config.SetPlainLayers();
  for (LayerSpec& layer : config.layers) {
    layer.score_cap = 1.5f;
    layer.output_norms = true;
    layer.activation = Activation::kGeluTanh;
  }
  config.layers[1].window = 9;
  config.layers[1].rope = 1;
  return config;
}

// The same with sizes for tensor cores, and heads of 96.
ModelConfig EvenSandwichConfig() {
  ModelConfig config = EvenConfig();
  const ModelConfig sandwich = SandwichConfig();
  config.architecture = sandwich.architecture;
  config.head_dim = 96;
  config.rotary_dim = 64;
  config.scales_embeddings = true;
  config.norms_add_one = true;
  config.logit_cap = sandwich.logit_cap;
  config.ropes = sandwich.ropes;
  config.layers = sandwich.layers;
  for (LayerSpec& layer : config.layers) layer.attention_scale = 0.1f;
  return config;
}

// EvenConfig with Granite's scales.
ModelConfig ScaledConfig() {
  ModelConfig config = EvenConfig();
  config.hidden_scale = 3.0f;
  config.logit_scale = 0.25f;
  for (LayerSpec& layer : config.layers) layer.residual_scale = 0.3f;
  return config;
}

// A model with OLMo 2's norms.
ModelConfig LateNormsConfig() {
  ModelConfig config = EvenConfig();
  config.architecture = Architecture::kOlmo2;
  for (LayerSpec& layer : config.layers) {
    layer.qk_norm = true;
    layer.qk_norm_across_heads = true;
    layer.input_norms = false;
    layer.output_norms = true;
  }
  return config;
}

std::vector<int32_t> RandomTokens(int64_t n, uint64_t seed, int32_t vocab_size) {
  Random random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n; ++i) {
    tokens.push_back(static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocab_size))));
  }
  return tokens;
}

std::vector<int32_t> Slice(const std::vector<int32_t>& tokens, size_t begin, size_t end) {
  return std::vector<int32_t>(tokens.begin() + static_cast<int64_t>(begin),
                              tokens.begin() + static_cast<int64_t>(std::min(end, tokens.size())));
}

// A family's list of LoRA's targets in another order than kDenseTargets.
std::span<const TargetSpec> OtherTargets() {
  static const std::array<TargetSpec, kLoraModules> targets = {
      kDenseTargets[6], kDenseTargets[4], kDenseTargets[5], kDenseTargets[3],
      kDenseTargets[0], kDenseTargets[1], kDenseTargets[2]};
  return targets;
}

// Where a family's list has the target that kDenseTargets has at `module`.
LoraModule PlaceOf(const ModelConfig& config, LoraModule module) {
  const auto found =
      std::ranges::find(config.lora_targets, LoraModuleName(module), &TargetSpec::name);
  return static_cast<LoraModule>(found - config.lora_targets.begin());
}

// Adapters of odd ranks with random numbers: slot 0 changes every module, slot 1 only v and down.
// They lie in page-locked memory, which a GPU can read, too. The numbers do not depend on the order
// of the targets.
class RandomAdapters {
 public:
  RandomAdapters(const ModelConfig& config, DType dtype)
      : stride_(config.num_lora_matrices()), matrices_(2 * stride_ * int64_t{sizeof(LoraMatrix)}) {
    for (int slot = 0; slot < 2; ++slot) {
      for (int32_t layer = 0; layer < config.num_layers; ++layer) {
        for (const LoraModule module : kAllLoraModules) {
          if (slot == 1 && module != LoraModule::kV && module != LoraModule::kDown) continue;
          const int32_t rank = slot == 0 ? 3 + static_cast<int32_t>(module) : 17;
          const LoraModuleShape shape = ShapeOfLoraModule(config, PlaceOf(config, module));
          const int64_t place = config.lora_matrix(layer, PlaceOf(config, module));
          LoraMatrix& matrix = matrices_.as<LoraMatrix>()[slot * stride_ + place];
          matrix.a_rows = Rows(rank, shape.in, dtype);
          matrix.b_rows = Rows(rank, shape.out, dtype);
          matrix.rank = rank;
          matrix.scale = 0.5f;
        }
      }
    }
  }
  LoraTable table() const { return {matrices_.as<LoraMatrix>(), stride_, 17}; }

 private:
  const void* const* Rows(int32_t rank, int64_t n, DType dtype) {
    const void** const rows =
        buffers_.emplace_back(rank * int64_t{sizeof(void*)}).as<const void*>();
    for (int32_t j = 0; j < rank; ++j) {
      char* const row = buffers_.emplace_back(n * DTypeBytes(dtype)).as<char>();
      for (int64_t i = 0; i < n; ++i) {
        const float x = static_cast<float>(random_.Normal() * 0.2);
        ConvertElements(DType::kF32, &x, dtype, row + i * DTypeBytes(dtype), 1);
      }
      rows[j] = row;
    }
    return rows;
  }

  Random random_{3};
  const int64_t stride_;
  PinnedBuffer matrices_;
  std::vector<PinnedBuffer> buffers_;
};

struct TestCase {
  const char* name;
  ModelConfig (*config)();
  DeviceKind device;
  DType dtype;
  int32_t page_tokens = 5;
};

class TransformerTest : public ::testing::TestWithParam<TestCase> {
 protected:
  void SetUp() override {
    if (!device_.exists()) GTEST_SKIP() << "this machine shows no GPU";
    weights_ = RandomWeights(config_, TypesOf(GetParam().dtype, device_.stream().device), 11,
                             device_.stream());
  }

  TestSession Session(const ModelConfig& config) {
    return TestSession(config, weights_, device_.stream(), GetParam().page_tokens);
  }

  // Runs one sequence alone and returns its logits. The prompt goes in chunks of `chunk_tokens`.
  Logits Alone(const std::vector<int32_t>& tokens, size_t chunk_tokens, int32_t adapter_slot) {
    TestSession session = Session(config_);
    Logits all;
    for (size_t begin = 0; begin < tokens.size(); begin += chunk_tokens) {
      Logits logits = session.Step({{0, Slice(tokens, begin, begin + chunk_tokens), adapter_slot}},
                                   adapters_.table());
      std::move(logits.begin(), logits.end(), std::back_inserter(all));
    }
    return all;
  }

  TestDevice device_{GetParam().device};
  const ModelConfig config_ = GetParam().config();
  ModelWeights weights_;
  const RandomAdapters adapters_{config_, GetParam().dtype};
};

TEST_P(TransformerTest, ChunkingDoesNotChangeABit) {
  const std::vector<int32_t> tokens = RandomTokens(41, 1, config_.vocab_size);
  for (const int32_t adapter_slot : {-1, 0, 1}) {
    const Logits whole = Alone(tokens, tokens.size(), adapter_slot);
    ASSERT_EQ(whole.size(), tokens.size());
    for (const size_t chunk_tokens : {1, 3, 7, 16}) {
      EXPECT_EQ(Alone(tokens, chunk_tokens, adapter_slot), whole)
          << "chunks of " << chunk_tokens << ", adapter " << adapter_slot;
    }
  }
}

// Five sequences of base and adapters prefill and decode at different paces in shared steps.
TEST_P(TransformerTest, CompanyDoesNotChangeABit) {
  struct Member {
    std::vector<int32_t> tokens;
    size_t chunk_tokens;
    int32_t adapter_slot;
    size_t joins;  // the step at which it joins
    Logits got;
    size_t num_done = 0;
  };
  std::vector<Member> members = {{RandomTokens(40, 2, 101), 1, -1, 0, {}},
                                 {RandomTokens(33, 3, 101), 16, 0, 2, {}},
                                 {RandomTokens(9, 4, 101), 3, 1, 0, {}},
                                 {RandomTokens(50, 5, 101), 7, 0, 4, {}},
                                 {RandomTokens(60, 6, 101), 60, -1, 5, {}}};
  TestSession session = Session(config_);
  for (size_t step = 0; step < 60; ++step) {
    std::vector<Chunk> chunks;
    std::vector<size_t> owners;  // the owner of each row
    for (size_t i = 0; i < members.size(); ++i) {
      Member& member = members[i];
      if (step < member.joins || member.num_done == member.tokens.size()) continue;
      chunks.push_back(
          {static_cast<int32_t>(i),
           Slice(member.tokens, member.num_done, member.num_done + member.chunk_tokens),
           member.adapter_slot});
      member.num_done += chunks.back().tokens.size();
      owners.insert(owners.end(), chunks.back().tokens.size(), i);
    }
    if (chunks.empty()) break;
    Logits logits = session.Step(chunks, adapters_.table());
    for (size_t row = 0; row < owners.size(); ++row) {
      members[owners[row]].got.push_back(std::move(logits[row]));
    }
  }
  for (const Member& member : members) {
    EXPECT_EQ(member.got, Alone(member.tokens, member.tokens.size(), member.adapter_slot));
  }
}

// LoRA goes beside the products in every step, so that earlier steps leave their traces.
TEST_P(TransformerTest, LoraBesideTheProductsHasTheVeryBits) {
  TestSession after = Session(config_);
  TestSession mlp_beside = Session(config_);
  TestSession beside = Session(config_);
  after.TreatRowsAsDrawn(LoraBesideScope::kNone);
  mlp_beside.TreatRowsAsDrawn(LoraBesideScope::kMlp);
  beside.TreatRowsAsDrawn(LoraBesideScope::kAll);
  for (uint64_t step = 0; step < 20; ++step) {
    std::vector<Chunk> chunks;
    for (int32_t i = 0; i < 6; ++i) {
      const int64_t num_tokens = 1 + static_cast<int64_t>(step * 7 + i * 5) % (i == 3 ? 11 : 3);
      chunks.push_back({i, RandomTokens(num_tokens, 40 * step + i, 101), i / 2 - 1});
    }
    const auto expected = after.Step(chunks, adapters_.table());
    ASSERT_EQ(beside.Step(chunks, adapters_.table()), expected) << "step " << step;
    ASSERT_EQ(mlp_beside.Step(chunks, adapters_.table()), expected) << "step " << step;
  }
}

// A family names its targets in an order of its own.
TEST_P(TransformerTest, TargetsMayStandInAnyOrder) {
  ModelConfig other = config_;
  other.lora_targets = OtherTargets();
  const RandomAdapters adapters(other, GetParam().dtype);
  const std::vector<int32_t> tokens = RandomTokens(9, 21, config_.vocab_size);
  for (const int32_t slot : {0, 1}) {
    TestSession session = Session(other);
    EXPECT_EQ(session.Step({{0, tokens, slot}}, adapters.table()), Alone(tokens, 9, slot));
  }
}

TEST_P(TransformerTest, AdaptersAndWindowsMatter) {
  const std::vector<int32_t> tokens = RandomTokens(30, 7, config_.vocab_size);
  const Logits base = Alone(tokens, 30, -1);
  EXPECT_NE(Alone(tokens, 30, 0), base);
  EXPECT_NE(Alone(tokens, 30, 1), base);
  EXPECT_NE(Alone(tokens, 30, 1), Alone(tokens, 30, 0));
  ModelConfig without = config_;
  without.layers[1].window = 0;
  TestSession session = Session(without);
  const Logits full = session.Step({{0, tokens, -1}});
  for (size_t row = 0; row < 30; ++row) {
    // Rows within the window do not change; rows past it do.
    EXPECT_EQ(full[row] == base[row], row < 9) << row;
  }
}

// Each field of a LayerSpec changes the answer.
TEST(TransformerSpecTest, EveryPartMatters) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const ModelConfig config = SandwichConfig();
  const ModelWeights weights = RandomWeights(config, TypesOf(DType::kF32), 11, stream);
  const std::vector<int32_t> tokens = RandomTokens(20, 7, config.vocab_size);
  const auto logits = [&](const ModelConfig& changed) {
    TestSession session(changed, weights, stream);
    return session.Step({{0, tokens, -1}});
  };
  const Logits expected = logits(config);
  for (const std::vector<float>& row : expected) {
    for (const float logit : row) EXPECT_LE(std::abs(logit), 2.0f);
  }
  const auto expect_other = [&](const char* what, const auto& change) {
    ModelConfig changed = config;
    change(changed);
    EXPECT_NE(logits(changed), expected) << what;
  };
  expect_other("score_cap", [](ModelConfig& c) { c.layers[0].score_cap = 0.01f; });
  expect_other("scale", [](ModelConfig& c) { c.layers[0].attention_scale *= 2.0f; });
  expect_other("rope", [](ModelConfig& c) { c.layers[1].rope = 0; });
  expect_other("rotary_dim", [](ModelConfig& c) { c.rotary_dim = 16; });
  expect_other("output_norms", [](ModelConfig& c) { c.layers[2].output_norms = false; });
  expect_other("activation", [](ModelConfig& c) { c.layers[2].activation = Activation::kSilu; });
  expect_other("logit_cap", [](ModelConfig& c) { c.logit_cap = 0.0f; });
  expect_other("embeddings", [](ModelConfig& c) { c.scales_embeddings = false; });
}

TEST_P(TransformerTest, LogitsOfFurtherRows) {
  const std::vector<int32_t> tokens = RandomTokens(12, 8, config_.vocab_size);
  TestSession session = Session(config_);
  const Logits all = session.Step({{0, tokens, -1}});
  const std::vector<int32_t> rows = {11, 0, 5, 5};
  const float* logits = session.transformer().Logits(rows, device_.stream(), {});
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<float> row(101);
    CopyFromDevice(row.data(), logits + i * 101, 101 * int64_t{sizeof(float)}, device_.stream());
    Synchronize(device_.stream());
    EXPECT_EQ(row, all[rows[i]]) << rows[i];
  }
}

TEST_P(TransformerTest, TimesCoverTheParts) {
  TestSession session = Session(config_);
  ForwardTimes times;
  session.Step({{0, RandomTokens(20, 9, 101), -1}}, {}, &times);
  EXPECT_GT(times.gemm_ns, 0);
  EXPECT_GT(times.attention_ns, 0);
  EXPECT_EQ(times.lora_ns, 0);  // without segments there is no LoRA work
  EXPECT_GE(times.total_ns, times.gemm_ns + times.attention_ns);
  session.Step({{1, RandomTokens(20, 9, 101), 0}}, adapters_.table(), &times);
  EXPECT_GT(times.lora_ns, 0);
  EXPECT_GE(times.total_ns, times.gemm_ns + times.attention_ns + times.lora_ns);
}

TEST_P(TransformerTest, ItsSizesAreWhatItTakes) {
  const Device device = device_.stream().device;
  const KvLayout layout = MakeKvLayout(config_, GetParam().page_tokens, weights_.types.kv);
  for (const bool lora_beside : {true, false}) {
    const TransformerLimits limits = {.step_tokens_max = 33,
                                      .logits_rows_max = 12,
                                      .sequences_max = 5,
                                      .context_tokens_max = 100,
                                      .lora_beside = lora_beside};
    const TransformerSizes sizes = SizesOf(limits, config_, weights_.types, layout, device);
    KvPool pool(layout, 4, device);
    const int64_t on_device = AllocatedBytes(device);
    const int64_t on_host = AllocatedBytes({});
    const Transformer transformer(config_, weights_, pool, limits, device_.stream());
    EXPECT_EQ(AllocatedBytes(device) - on_device, sizes.on_device());
    if (!device.is_cpu()) {
      EXPECT_EQ(AllocatedBytes({}) - on_host, sizes.batch_on_host);
    }
  }
}

TEST_P(TransformerTest, NothingToDo) {
  TestSession session = Session(config_);
  EXPECT_TRUE(session.Step({}).empty());
}

INSTANTIATE_TEST_SUITE_P(
    Cases, TransformerTest,
    ::testing::Values(
        TestCase{"odd_cpu_fp32", OddConfig, DeviceKind::kCpu, DType::kF32},
        TestCase{"odd_cpu_bf16", OddConfig, DeviceKind::kCpu, DType::kBF16},
        TestCase{"sandwich_cpu_fp32", SandwichConfig, DeviceKind::kCpu, DType::kF32},
        TestCase{"sandwich_cpu_bf16", SandwichConfig, DeviceKind::kCpu, DType::kBF16},
        TestCase{"sandwich_cuda_fp32", SandwichConfig, DeviceKind::kCuda, DType::kF32},
        TestCase{"sandwich_cuda_bf16", EvenSandwichConfig, DeviceKind::kCuda, DType::kBF16},
        TestCase{"scaled_cpu_fp32", ScaledConfig, DeviceKind::kCpu, DType::kF32},
        TestCase{"scaled_cpu_bf16", ScaledConfig, DeviceKind::kCpu, DType::kBF16},
        TestCase{"scaled_cuda_fp32", ScaledConfig, DeviceKind::kCuda, DType::kF32},
        TestCase{"scaled_cuda_bf16", ScaledConfig, DeviceKind::kCuda, DType::kBF16},
        TestCase{"late_norms_cpu_fp32", LateNormsConfig, DeviceKind::kCpu, DType::kF32},
        TestCase{"late_norms_cpu_bf16", LateNormsConfig, DeviceKind::kCpu, DType::kBF16},
        TestCase{"late_norms_cuda_fp32", LateNormsConfig, DeviceKind::kCuda, DType::kF32},
        TestCase{"late_norms_cuda_bf16", LateNormsConfig, DeviceKind::kCuda, DType::kBF16},
        TestCase{"odd_cuda_fp32", OddConfig, DeviceKind::kCuda, DType::kF32},
        TestCase{"odd_cuda_bf16", OddConfig, DeviceKind::kCuda, DType::kBF16},
        TestCase{"even_cuda_bf16", EvenConfig, DeviceKind::kCuda, DType::kBF16},
        TestCase{"even_cuda_fp16", EvenConfig, DeviceKind::kCuda, DType::kF16},
        // Pages of which Hopper's copy engine takes the keys of given rows.
        TestCase{"even_pages_cuda_bf16", EvenConfig, DeviceKind::kCuda, DType::kBF16, 8},
        TestCase{"even_pages_cuda_fp16", EvenConfig, DeviceKind::kCuda, DType::kF16, 16},
        TestCase{"sandwich_pages_cuda_bf16", EvenSandwichConfig, DeviceKind::kCuda, DType::kBF16,
                 16}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace graft
