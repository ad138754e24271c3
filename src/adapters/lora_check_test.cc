#include "adapters/lora_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "adapters/adapter_test_util.h"
#include "base/unwanted_work.h"

namespace graft {
namespace {

using ::testing::AllOf;
using testing::FileOf;
using testing::FindTensor;
using ::testing::HasSubstr;
using testing::LoraTestTensors;
using testing::OddModel;
using testing::Peft;
using testing::TestTensor;

// Loads by one file and config, and tests the result against another file and config. To the
// self-test this looks like a loader with a defect.
Status Try(const std::vector<TestTensor>& loaded, const PeftConfig& loaded_peft,
           const std::vector<TestTensor>& truth, const PeftConfig& true_peft,
           const ModelConfig& model, DType dtype) {
  const Result<LoraWeights> weights = LoraWeights::Load(FileOf(loaded), loaded_peft, model, dtype);
  CHECK(weights.ok()) << weights.status().ToString();
  return SelfTestLora(FileOf(truth), true_peft, model, *weights);
}

// Rows and columns are as long as in a real model. There most terms cancel, and a bound with room
// for bf16's rounding of every term would let anything pass.
ModelConfig WideModel() {
  ModelConfig config = OddModel();
  config.num_layers = 1;
  config.hidden_size = 4096;
  config.num_heads = 1;
  config.head_dim = 256;
  return config;
}

// Transposes B of every square pair.
void TransposeB(std::vector<TestTensor>& tensors, const std::string& name) {
  TestTensor& b = FindTensor(tensors, name);
  const int64_t n = b.shape[0];
  CHECK_EQ(n, b.shape[1]);
  const size_t bytes = b.data.size() / static_cast<size_t>(n * n);
  const std::string source = b.data;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      b.data.replace(static_cast<size_t>(i * n + j) * bytes, bytes, source,
                     static_cast<size_t>(j * n + i) * bytes, bytes);
    }
  }
}

TEST(SelfTestLoraTest, PassesWhatWasLoadedRight) {
  for (const ModelConfig& model : {OddModel(), WideModel()}) {
    const PeftConfig peft =
        Peft(R"("target_modules": "all-linear", "rank_pattern": {"q_proj": 1, "v_proj": 256},
                "alpha_pattern": {"k_proj": -64}, "use_rslora": true)");
    for (const std::string from : {"F32", "BF16", "F16"}) {
      const std::vector<TestTensor> tensors = LoraTestTensors(peft, model, from);
      for (const DType to : {DType::kF32, DType::kBF16}) {
        const Status status = Try(tensors, peft, tensors, peft, model, to);
        EXPECT_TRUE(status.ok()) << from << " to " << DTypeName(to) << ": " << status.ToString();
      }
    }
  }
}

TEST(SelfTestLoraTest, PassesAnAdapterThatChangesNothing) {
  std::vector<TestTensor> tensors = LoraTestTensors(Peft(), OddModel());
  for (TestTensor& tensor : tensors) {
    if (tensor.name.ends_with("lora_B.weight")) tensor.data.assign(tensor.data.size(), '\0');
  }
  EXPECT_TRUE(Try(tensors, Peft(), tensors, Peft(), OddModel(), DType::kBF16).ok());
}

TEST(SelfTestLoraTest, CatchesAWrongScale) {
  for (const ModelConfig& model : {OddModel(), WideModel()}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::vector<TestTensor> tensors = LoraTestTensors(Peft(), model);
      for (const std::string wrong : {R"("lora_alpha": 8.1)", R"("use_rslora": true)",
                                      R"("alpha_pattern": {"v_proj": -8})"}) {
        const Status status = Try(tensors, Peft(wrong), tensors, Peft(), model, dtype);
        EXPECT_THAT(status.ToString(), AllOf(HasSubstr("INTERNAL: self-test of model.layers.0."),
                                             HasSubstr("the merged weights give")))
            << wrong;
      }
    }
  }
}

TEST(SelfTestLoraTest, CatchesATransposedB) {
  const ModelConfig model = WideModel();  // v_proj is [256, 4096]: rank 256 makes B square
  const PeftConfig peft = Peft(R"("r": 256, "target_modules": ["v_proj"])");
  for (const std::string from : {"F32", "BF16"}) {
    const std::vector<TestTensor> tensors = LoraTestTensors(peft, model, from);
    std::vector<TestTensor> transposed = tensors;
    TransposeB(transposed, LoraTensorName(OddModel(), 0, LoraModule::kV, LoraSide::kB));
    for (const DType to : {DType::kF32, DType::kBF16}) {
      EXPECT_THAT(Try(transposed, peft, tensors, peft, model, to).ToString(),
                  HasSubstr("self-test of model.layers.0.self_attn.v_proj: output 0 is"));
    }
  }
}

TEST(SelfTestLoraTest, CatchesRowsOfAOutOfOrder) {
  const std::vector<TestTensor> tensors = LoraTestTensors(Peft(), OddModel());
  std::vector<TestTensor> swapped = tensors;
  std::string& a =
      FindTensor(swapped, LoraTensorName(OddModel(), 2, LoraModule::kV, LoraSide::kA)).data;
  std::rotate(a.begin(), a.begin() + 21 * 4, a.end());
  EXPECT_THAT(Try(swapped, Peft(), tensors, Peft(), OddModel(), DType::kF32).ToString(),
              HasSubstr("self-test of model.layers.2.self_attn.v_proj"));
}

TEST(SelfTestLoraTest, CatchesOtherModulesAndRanks) {
  const PeftConfig more = Peft(R"("target_modules": ["q_proj", "k_proj", "v_proj"])");
  EXPECT_THAT(Try(LoraTestTensors(more, OddModel()), more, LoraTestTensors(Peft(), OddModel()),
                  Peft(), OddModel(), DType::kF32)
                  .ToString(),
              HasSubstr("loaded 9 modules, the config targets 6"));
  const PeftConfig higher = Peft(R"("rank_pattern": {"2.self_attn.q_proj": 5})");
  EXPECT_THAT(Try(LoraTestTensors(higher, OddModel()), higher, LoraTestTensors(Peft(), OddModel()),
                  Peft(), OddModel(), DType::kF32)
                  .ToString(),
              HasSubstr("model.layers.2.self_attn.q_proj: loaded with rank 5, the config gives 4"));
}

// The weights are finite but their product is not. Every answer would be NaN.
TEST(SelfTestLoraTest, CatchesAnOverflow) {
  std::vector<TestTensor> tensors = LoraTestTensors(Peft(), OddModel());
  for (TestTensor& tensor : tensors) {
    std::vector<float> huge(tensor.data.size() / sizeof(float), 1e30f);
    tensor.data = testing::BytesOf(huge);
  }
  EXPECT_THAT(Try(tensors, Peft(), tensors, Peft(), OddModel(), DType::kF32).ToString(),
              HasSubstr("self-test of model.layers.0.self_attn.q_proj"));
}

// Beside other work it finds the same, whichever thread tests a module.
TEST(SelfTestLoraTest, ACrewFindsTheSame) {
  const ModelConfig model = OddModel();
  const PeftConfig peft = Peft(R"("target_modules": "all-linear", "r": 6)");
  const std::vector<TestTensor> tensors = LoraTestTensors(peft, model, "BF16");
  const LoraWeights weights = *LoraWeights::Load(FileOf(tensors), peft, model, DType::kBF16);
  std::vector<TestTensor> others = tensors;
  for (TestTensor& tensor : others) {
    if (!tensor.name.ends_with("lora_B.weight")) continue;
    if (tensor.name.find("layers.0.") == std::string::npos) tensor.data[1] ^= 0x40;
  }
  const Status alone = SelfTestLora(FileOf(others), peft, model, weights);
  EXPECT_EQ(alone.code(), StatusCode::kInternal);
  WorkCrew several(4);
  for (WorkCrew* const crew : {static_cast<WorkCrew*>(nullptr), &several}) {
    EXPECT_EQ(LoraSelfTest::Begin(FileOf(tensors), peft, model, weights, crew)->Finish().ToString(),
              "OK");
    for (int round = 0; round < 20; ++round) {
      Result<LoraSelfTest> test = LoraSelfTest::Begin(FileOf(others), peft, model, weights, crew);
      EXPECT_EQ(test->Finish().ToString(), alone.ToString());
    }
    // One that is given up.
    (void)LoraSelfTest::Begin(FileOf(others), peft, model, weights, crew);
    // One that ends early.
    const std::atomic<bool> is_unwanted = true;
    const WatchedWork watched(is_unwanted);
    Result<LoraSelfTest> unwanted =
        LoraSelfTest::Begin(FileOf(tensors), peft, model, weights, crew);
    EXPECT_EQ(unwanted->Finish().code(), StatusCode::kCancelled);
  }
}

}  // namespace
}  // namespace graft
