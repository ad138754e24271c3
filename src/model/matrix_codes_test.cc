// Weights that stay codes, as a layer's products: which do, what they multiply to, and what is said
// of their memory before.
#include "model/matrix_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "kernels/common/op_test_util.h"
#include "model/code_files.h"
#include "model/quantised_test_util.h"
#include "model/wrapper.h"

namespace graft {
namespace matrix_codes_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kQuantisedFolders;
using testing::ProductsOf;
using testing::QuantisedFolder;
using testing::QuantisedPath;
using testing::RelativeError;
using testing::SourcePath;
using testing::TempDir;
using testing::TestTensor;
using testing::WriteFile;

// The products of a layer, each of them as codes ('c'), as codes in an order of their own ('o') or
// as numbers ('n'): qkv, o, gate_up, down.
std::string KindsOf(const LayerWeights& layer) {
  std::string kinds;
  for (const GemmWeight* weight : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) {
    const WeightFormat format = weight->format();
    kinds += format.is_plain() ? 'n' : format.has_input_order ? 'o' : 'c';
  }
  return kinds;
}

class MatrixCodesTest : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string dir_ = QuantisedPath(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Folders, MatrixCodesTest, ::testing::ValuesIn(kQuantisedFolders),
                         [](const auto& info) { return std::string(info.param); });

// Products of codes are near to those of the numbers, which the library itself rounds.
TEST_P(MatrixCodesTest, CodesMultiplyAsTheNumbersDo) {
  const std::map<std::string, std::string> kinds = {
      {"nf4_single_skip", "nncc"},
      {"w4a16_w8a16", "cccn"},
      {"gptq_dynamic", "cccn"},
      // gate and up have orders of their own: what is one product has one.
      {"w4a16_gidx", "oono"},
      {"gptq4_desc_act", "oono"}};
  ThreadPool threads(2);
  Stream stream{Device{}, &threads};
  const QuantisedFolder folder(dir_);
  const QuantisedFolder twin = folder.Twin();
  const ModelConfig config = *LoadModelConfig(dir_);
  for (const Shard& shard : {Shard{0, 1}, Shard{0, 2}, Shard{1, 2}}) {
    const Result<ModelWeights> codes = folder.Load(stream, shard, /*keeps_codes=*/true);
    const bool scattered =
        std::string(GetParam()) == "w4a16_gidx" || std::string(GetParam()) == "gptq4_desc_act";
    if (scattered && shard.num_ranks > 1) {
      EXPECT_THAT(codes.status().ToString(),
                  AllOf(HasSubstr("--tensor-parallel"), HasSubstr("self_attn.o_proj.weight")));
      continue;
    }
    ASSERT_TRUE(codes.ok()) << codes.status().ToString();
    const auto expected = kinds.find(GetParam());
    if (shard.num_ranks == 1) {
      EXPECT_EQ(KindsOf(codes->layers[0]), expected == kinds.end() ? "cccc" : expected->second);
      // What is said before is enough, but where orders differ.
      if (!scattered) {
        EXPECT_LE(codes->bytes(), WeightsBytes(config, codes->types, {}));
      }
    }
    EXPECT_LT(
        RelativeError(ProductsOf(*codes, stream), ProductsOf(*twin.Load(stream, shard), stream)),
        0.004);
  }
}

// On a GPU as on the CPU, with numbers rounded to bf16.
TEST_P(MatrixCodesTest, AGpuMultipliesCodesAsTheNumbersDo) {
  testing::ForFirstGpu([&](Stream& gpu) {
    ThreadPool threads(2);
    Stream cpu{Device{}, &threads};
    const QuantisedFolder folder(dir_);
    const Result<ModelWeights> codes = folder.Load(gpu, {}, /*keeps_codes=*/true);
    ASSERT_TRUE(codes.ok()) << codes.status().ToString();
    const std::string kinds = KindsOf(codes->layers[0]);
    EXPECT_NE(kinds, "nnnn");
    if (kinds.find('o') == std::string::npos) {
      EXPECT_LE(codes->bytes(), WeightsBytes(*LoadModelConfig(dir_), codes->types, gpu.device));
    }
    EXPECT_LT(RelativeError(ProductsOf(*codes, gpu), ProductsOf(*folder.Twin().Load(cpu), cpu)),
              0.006);
  });
}

// The first group has an input more than the others.
TEST(StackedCodesTest, GroupsOfUnequalSizesBecomeNumbers) {
  ThreadPool threads(1);
  Stream stream{Device{}, &threads};
  QuantisedFolder folder(QuantisedPath("gptq4_desc_act"));
  TestTensor& groups = folder.Find("down_proj.g_idx");
  const int32_t first = 0;
  for (size_t i = 0; i < 256; ++i) {
    int32_t group = 0;
    std::memcpy(&group, groups.data.data() + 4 * i, sizeof(group));
    if (group == first) continue;
    std::memcpy(groups.data.data() + 4 * i, &first, sizeof(first));
    break;
  }
  const ModelWeights weights = std::move(*folder.Load(stream, {}, /*keeps_codes=*/true));
  EXPECT_EQ(KindsOf(weights.layers[0]), "oonn");
  EXPECT_LT(
      RelativeError(ProductsOf(weights, stream), ProductsOf(*folder.Twin().Load(stream), stream)),
      0.004);
}

// Its library reads g_idx whatever desc_act says: what is said before has room for such an order.
TEST(MatrixFormatsTest, GptqsInputsMayHaveAnOrderWithoutDescAct) {
  ThreadPool threads(1);
  Stream stream{Device{}, &threads};
  QuantisedFolder folder(QuantisedPath("gptq4_desc_act"));
  folder.quantisation()["desc_act"] = false;
  const ModelWeights weights = std::move(*folder.Load(stream, {}, /*keeps_codes=*/true));
  EXPECT_EQ(KindsOf(weights.layers[0]), "oono");
  const TempDir dir;
  folder.Write(dir.path());
  const ModelConfig config = *LoadModelConfig(dir.path());
  const MatrixFormats formats(config, weights.types);
  for (const LayerProduct product : {LayerProduct::kQkv, LayerProduct::kO, LayerProduct::kDown}) {
    EXPECT_TRUE(formats.Of(0, product).has_input_order);
  }
}

// A wrapper's files have other names than its class has today, and either may stand in rules.
TEST(MatrixFormatsTest, RulesMayNameAWrappersModulesByAnyOfTheirNames) {
  ThreadPool threads(1);
  Stream stream{Device{}, &threads};
  QuantisedFolder plain(SourcePath("tests/goldens/llava"));
  const TempDir from;
  plain.Write(from.path());
  const ModelConfig read = *LoadModelConfig(from.path());
  const SafetensorsSet base = *SafetensorsSet::Open(from.path());
  const std::map<std::string, std::string> stored = *StoredTextNames(base.Names());
  CodesOfFiles plan{
      .format = WeightFormat::Integers(DType::kBF16, 8, 32), .weights = {}, .head = "lm_head"};
  for (const StoredProjection& projection : StoredProjections(read)) {
    for (int32_t layer = 0; layer < read.num_layers; ++layer) {
      const std::string module = LoraModulePath(read, layer, projection.first);
      if (module.starts_with("model.layers.1.mlp.")) continue;
      plan.weights.insert(stored.at(module + ".weight"));
    }
  }
  for (const std::string_view prefix : kTextPrefixes) {
    SCOPED_TRACE(prefix);
    const TempDir to;
    NewFile file(to.File("model.safetensors"), 0600);
    std::set<std::string> written;
    ASSERT_TRUE(WriteCodesFile(base, base.files()[0], plan, file, threads, written).ok());
    Json config = plain.config;
    config["quantization_config"] = QuantizationConfigOf(plan);
    config["quantization_config"]["ignore"] = {
        "lm_head", "re:" + std::string(prefix) + "layers\\.1\\.mlp\\..*"};
    WriteFile(to.File("config.json"), config.dump());

    const ModelConfig changed = *LoadModelConfig(to.path());
    ServedTypes types = TypesOf(DType::kBF16);
    types.keeps_codes = true;
    const Result<ModelWeights> weights = LoadWeights(to.path(), changed, types, stream);
    ASSERT_TRUE(weights.ok()) << weights.status().ToString();
    EXPECT_EQ(KindsOf(weights->layers[0]), "cccc");
    EXPECT_EQ(KindsOf(weights->layers[1]), "ccnn");
    EXPECT_EQ(weights->bytes(), WeightsBytes(changed, types, {}));
  }
}

}  // namespace matrix_codes_test
}  // namespace graft
