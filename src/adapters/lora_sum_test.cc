// Sums of adapters, against the products in double precision.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adapters/adapter_test_util.h"

namespace graft {
namespace {

using testing::FileOf;
using testing::FusedOddModel;
using testing::LoraTestTensors;
using testing::OddModel;
using testing::Peft;

LoraWeights Adapter(const ModelConfig& model, const std::string& extra, uint64_t seed,
                    DType dtype) {
  const PeftConfig peft = Peft(extra);
  return *LoraWeights::Load(FileOf(LoraTestTensors(peft, model, "F32", seed)), peft, model, dtype);
}

double At(const void* row, int64_t i, DType dtype) {
  return DispatchDType(dtype, [&]<typename T>() {
    return static_cast<double>(ToFloat(static_cast<const T*>(row)[i]));
  });
}

// scale B A x of a module for a fixed x.
std::vector<double> Product(const LoraMatrix& matrix, const LoraModuleShape& shape, DType dtype) {
  std::vector<double> y(static_cast<size_t>(shape.out), 0.0);
  for (int32_t j = 0; j < matrix.rank; ++j) {
    double h = 0.0;
    for (int64_t i = 0; i < shape.in; ++i) {
      h += At(matrix.a_rows[j], i, dtype) * (0.25 + static_cast<double>(i * 7 % 5));
    }
    for (int64_t o = 0; o < shape.out; ++o) {
      y[static_cast<size_t>(o)] +=
          static_cast<double>(matrix.scale) * h * At(matrix.b_rows[j], o, dtype);
    }
  }
  return y;
}

void ExpectSum(const LoraWeights& sum, const std::vector<const LoraWeights*>& parts,
               const std::vector<float>& weights, const ModelConfig& model, double tolerance) {
  for (int32_t layer = 0; layer <= model.num_layers; ++layer) {
    for (const LoraModule module :
         model.is_head(layer) ? model.head_blocks() : model.lora_modules()) {
      const LoraModuleShape shape = ShapeOfLoraMatrix(model, layer, module);
      int32_t rank = 0;
      std::vector<double> wanted(static_cast<size_t>(shape.out), 0.0);
      for (size_t i = 0; i < parts.size(); ++i) {
        rank += parts[i]->matrix(layer, module).rank;
        const auto y = Product(parts[i]->matrix(layer, module), shape, parts[i]->dtype());
        for (size_t o = 0; o < y.size(); ++o) wanted[o] += static_cast<double>(weights[i]) * y[o];
      }
      EXPECT_EQ(sum.matrix(layer, module).rank, rank);
      const auto found = Product(sum.matrix(layer, module), shape, sum.dtype());
      for (size_t o = 0; o < found.size(); ++o) {
        EXPECT_NEAR(found[o], wanted[o], tolerance) << layer << " " << LoraModuleName(module);
      }
    }
  }
}

TEST(LoraSumTest, AddsAdaptersOfOtherRanksScalesAndModules) {
  for (const bool fused : {false, true}) {
    ModelConfig model = fused ? FusedOddModel() : OddModel();
    model.vocab_size = 150;  // three blocks of the head, the last one short
    const std::string q =
        fused ? R"(["qkv_proj", "down_proj", "lm_head"])" : R"(["q_proj", "k_proj"])";
    const std::string all = R"x(".*(_proj|lm_head)")x";
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const LoraWeights a =
          Adapter(model, R"("r": 5, "lora_alpha": 3, "target_modules": )" + q, 3, dtype);
      const LoraWeights b =
          Adapter(model, R"("r": 1, "lora_alpha": 4, "target_modules": )" + all, 4, dtype);
      const std::vector<float> weights = {0.7f, -1.5f, 0.3f};
      const LoraAddend addends[] = {
          {a.matrices(), weights[0]}, {b.matrices(), weights[1]}, {a.matrices(), weights[2]}};
      const Result<LoraWeights> sum = LoraWeights::Sum(addends, model, dtype);
      ASSERT_TRUE(sum.ok()) << sum.status().ToString();
      EXPECT_EQ(sum->rank_max(), 11);
      ExpectSum(*sum, {&a, &b, &a}, weights, model, dtype == DType::kF32 ? 1e-5 : 0.05);
    }
  }
}

// Nothing is rounded that need not be: the largest of the scales is the sum's.
TEST(LoraSumTest, OneAdaptersRowsStayAsTheyAre) {
  const ModelConfig model = OddModel();
  const LoraWeights a = Adapter(model, "", 3, DType::kBF16);
  const LoraAddend half[] = {{a.matrices(), 0.3f}};
  const LoraWeights sum = *LoraWeights::Sum(half, model, DType::kBF16);
  const LoraMatrix& from = a.matrix(1, LoraModule::kV);
  const LoraMatrix& to = sum.matrix(1, LoraModule::kV);
  EXPECT_EQ(to.scale, 0.3f * from.scale);
  const LoraModuleShape shape = ShapeOfLoraModule(model, LoraModule::kV);
  for (int32_t j = 0; j < from.rank; ++j) {
    EXPECT_EQ(std::memcmp(to.a_rows[j], from.a_rows[j], static_cast<size_t>(2 * shape.in)), 0);
    EXPECT_EQ(std::memcmp(to.b_rows[j], from.b_rows[j], static_cast<size_t>(2 * shape.out)), 0);
  }
  EXPECT_EQ(sum.matrix(1, LoraModule::kDown).rank, 0);
}

TEST(LoraSumTest, AModuleThatAllAdaptersSwitchOffAddsNothing) {
  const ModelConfig model = OddModel();
  const std::string off = R"("r": 2, "alpha_pattern": {"q_proj": 0})";
  const LoraWeights a = Adapter(model, off, 1, DType::kF32);
  const LoraWeights b = Adapter(model, off, 2, DType::kF32);
  const LoraAddend both[] = {{a.matrices(), 1.0f}, {b.matrices(), 0.5f}};
  const LoraWeights sum = *LoraWeights::Sum(both, model, DType::kF32);
  const LoraModuleShape shape = ShapeOfLoraModule(model, LoraModule::kQ);
  EXPECT_EQ(sum.matrix(0, LoraModule::kQ).scale, 0.0f);
  for (const double value : Product(sum.matrix(0, LoraModule::kQ), shape, DType::kF32)) {
    EXPECT_EQ(value, 0.0);
  }
  ExpectSum(sum, {&a, &b}, {1.0f, 0.5f}, model, 1e-5);
}

TEST(LoraSumTest, RefusesMoreRanksThanKernelsTake) {
  const ModelConfig model = OddModel();
  const LoraWeights a = Adapter(model, R"("r": 200)", 3, DType::kF32);
  const LoraAddend one[] = {{a.matrices(), 1.0f}};
  EXPECT_TRUE(LoraWeights::Sum(one, model, DType::kF32).ok());
  const LoraAddend two[] = {{a.matrices(), 1.0f}, {a.matrices(), 1.0f}};
  const Status status = LoraWeights::Sum(two, model, DType::kF32).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("add up to 400 in model.layers.0.self_attn.q_proj"),
            std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace graft
