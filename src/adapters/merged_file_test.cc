// Merged files: against sums in double precision over odd shapes, and against PEFT's own merge.
#include "adapters/merged_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "base/file.h"
#include "base/json.h"

namespace graft {
namespace {

using testing::BytesOf;
using testing::FileOf;
using testing::FusedOddModel;
using ::testing::HasSubstr;
using testing::LoraTestTensors;
using testing::OddModel;
using testing::Peft;
using testing::RandomElements;
using testing::SafetensorsBytes;
using testing::SourcePath;
using testing::TempDir;
using testing::TestTensor;
using testing::WriteFile;

// More words than one block of the head has.
ModelConfig WithWords(ModelConfig model) {
  model.vocab_size = 150;
  return model;
}

std::string WeightName(const ModelConfig& model, int32_t layer, LoraModule module) {
  return LoraModulePath(model, layer, module) + ".weight";
}

// Every projection of the model, from an odd address on, between tensors that are no weights.
std::vector<TestTensor> BaseTensors(const ModelConfig& model, const std::string& dtype) {
  Random random(7);
  std::vector<TestTensor> tensors = {{"a.bytes", "U8", {3}, "abc"}};
  for (int32_t layer = 0; layer < model.num_layers; ++layer) {
    for (const StoredProjection& projection : StoredProjections(model)) {
      const LoraModuleShape shape = ShapeOfStoredProjection(model, projection);
      tensors.push_back({WeightName(model, layer, projection.first),
                         dtype,
                         {shape.out, shape.in},
                         RandomElements(dtype, shape.out * shape.in, random)});
    }
  }
  const int64_t head = int64_t{model.vocab_size} * model.hidden_size;
  tensors.push_back({"lm_head.weight",
                     dtype,
                     {model.vocab_size, model.hidden_size},
                     RandomElements(dtype, head, random)});
  tensors.push_back({"model.norm.weight", "F32", {5}, RandomElements("F32", 5, random)});
  tensors.push_back({"z.nothing", "I64", {0}, ""});
  return tensors;
}

std::vector<float> ValuesOf(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  ConvertElements(tensor.dtype, tensor.data, DType::kF32, values.data(), tensor.num_elements());
  return values;
}

std::vector<float> ValuesOf(const SafetensorsFile& file, const std::string& name) {
  return ValuesOf(*file.Tensor(name));
}

// A base's folder, and what an adapter makes of it.
class MergedFolder {
 public:
  MergedFolder(const std::string& base_bytes, const ModelConfig& model, const PeftConfig& peft,
               const SafetensorsFile& lora) {
    WriteFile(dir_.File("model.safetensors"), base_bytes);
    base_.emplace(*SafetensorsSet::Open(dir_.path()));
    added_ = MatchAddedWeights(lora, peft, model, *base_);
    if (!added_.ok()) return;
    ThreadPool threads(3);
    NewFile out(path());
    written_ = WriteMergedFile(*base_, base(), *added_, out, threads,
                               [this](const std::string&, int64_t bytes) { told_ += bytes; });
  }

  std::string path() const { return dir_.File("merged"); }
  const SafetensorsFile& base() const { return base_->files().front(); }
  Status status() const { return added_.ok() ? written_ : added_.status(); }
  SafetensorsFile file() const { return *SafetensorsFile::Open(path()); }
  const AddedToWeights& added() const { return *added_; }
  int64_t told_bytes() const { return told_; }

 private:
  TempDir dir_;
  std::optional<SafetensorsSet> base_;
  Result<AddedToWeights> added_ = InternalError("not matched");
  Status written_;
  int64_t told_ = 0;
};

// The largest error of one rounding to the dtype, as a share of the value.
double RoundingOf(const std::string& dtype) {
  return dtype == "F32" ? 0x1p-24 : dtype == "F16" ? 0x1p-11 : 0x1p-8;
}

// A module's rows of the merged weight against W + scale * B A in double precision.
void ExpectSum(const MergedFolder& merged, const ModelConfig& model, const LoraTarget& target,
               const LoraTensors& tensors, const std::string& dtype) {
  const std::string name = WeightName(model, target.layer, target.module);
  const LoraModuleShape shape = ShapeOfLoraMatrix(model, target.layer, target.module);
  const std::vector<float> base = ValuesOf(merged.base(), name);
  const std::vector<float> found = ValuesOf(merged.file(), name);
  const std::vector<float> a = ValuesOf(tensors.a);
  const std::vector<float> b = ValuesOf(tensors.b);
  for (int64_t o = 0; o < shape.out; ++o) {
    for (int64_t i = 0; i < shape.in; ++i) {
      const auto at = static_cast<size_t>((tensors.b_row + o) * shape.in + i);
      double sum = base[at];
      double magnitude = std::abs(sum);
      for (int64_t j = 0; j < target.rank; ++j) {
        const double term = static_cast<double>(target.scale) *
                            b[static_cast<size_t>(o * target.rank + j)] *
                            a[static_cast<size_t>(j * shape.in + i)];
        sum += term;
        magnitude += std::abs(term);
      }
      // Half of fp16's least distance between numbers, for the smallest ones.
      const double bound =
          1e-6 * magnitude + RoundingOf(dtype) * std::abs(sum) + (dtype == "F16" ? 0x1p-25 : 0.0);
      ASSERT_NEAR(found[at], sum, bound) << name << " " << o << " " << i;
    }
  }
}

class MergedSumTest : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(MergedSumTest, IsThatInDoubles) {
  const auto& [base_dtype, lora_dtype] = GetParam();
  const std::string kPlain = R"("target_modules": "all-linear", "rank_pattern": {"v_proj": 1,
      "down_proj": 9}, "alpha_pattern": {"layers.1.*up_proj": -3}, "use_rslora": true)";
  const std::string kFused = R"("target_modules": ["qkv_proj", "gate_up_proj", "lm_head"],
      "rank_pattern": {"qkv_proj": 5})";
  for (const auto& [model, extra] :
       {std::pair(OddModel(), kPlain), std::pair(WithWords(FusedOddModel()), kFused)}) {
    const PeftConfig peft = Peft(extra);
    const SafetensorsFile lora = FileOf(LoraTestTensors(peft, model, lora_dtype));
    const MergedFolder merged(SafetensorsBytes(BaseTensors(model, base_dtype)), model, peft, lora);
    ASSERT_TRUE(merged.status().ok()) << merged.status().ToString();
    const std::vector<LoraTarget> targets = *ResolveLoraTargets(peft, model);
    const std::vector<LoraTensors> tensors = *MatchLoraTensors(lora, targets, peft, model);
    for (size_t i = 0; i < targets.size(); ++i) {
      ExpectSum(merged, model, targets[i], tensors[i], base_dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, MergedSumTest,
                         ::testing::Combine(::testing::Values("F32", "BF16", "F16"),
                                            ::testing::Values("F32", "BF16", "F16")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param);
                         });

TEST(MergedFileTest, AllElseKeepsItsBytes) {
  const ModelConfig model = OddModel();
  const PeftConfig peft = Peft(R"("layers_to_transform": [1])");
  const SafetensorsFile lora = FileOf(LoraTestTensors(peft, model));
  const std::string bytes = SafetensorsBytes(BaseTensors(model, "BF16"));
  const MergedFolder merged(bytes, model, peft, lora);
  ASSERT_TRUE(merged.status().ok()) << merged.status().ToString();
  const SafetensorsFile file = merged.file();
  EXPECT_TRUE(std::ranges::equal(file.header(), merged.base().header()));
  EXPECT_EQ(ReadFile(merged.path())->size(), bytes.size());
  EXPECT_EQ(merged.told_bytes() + std::ssize(file.header()), std::ssize(bytes));
  EXPECT_EQ(merged.added().size(), 2);  // q and v of one layer
  for (const auto& [name, entry] : file.entries()) {
    const bool same = std::ranges::equal(*file.Bytes(name), *merged.base().Bytes(name));
    EXPECT_EQ(same, !merged.added().contains(name)) << name;
  }
}

TEST(MergedFileTest, ATiedHeadIsNotMerged) {
  ModelConfig model = OddModel();
  const PeftConfig peft = Peft(R"("target_modules": ["lm_head"])");
  const SafetensorsFile lora = FileOf(LoraTestTensors(peft, model));
  const std::string bytes = SafetensorsBytes(BaseTensors(model, "F32"));
  EXPECT_TRUE(MergedFolder(bytes, model, peft, lora).status().ok());
  model.tied_embeddings = true;
  const Status refused = MergedFolder(bytes, model, peft, lora).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(refused.message(), HasSubstr("tie_word_embeddings"));
}

// More than one block of rows, of which the last is a part.
TEST(MergedFileTest, LongTensorsGoOutInBlocks) {
  ModelConfig model = OddModel();
  model.num_layers = 1;
  model.SetPlainLayers();
  model.hidden_size = 1031;
  model.intermediate_size = 4999;
  const PeftConfig peft = Peft(R"("target_modules": ["up_proj"], "r": 1)");
  const SafetensorsFile lora = FileOf(LoraTestTensors(peft, model));
  const std::string name = WeightName(model, 0, LoraModule::kUp);
  const std::vector<float> zeros(size_t{1031} * 4999, 0.0f);
  const MergedFolder merged(SafetensorsBytes({{name, "F32", {4999, 1031}, BytesOf(zeros)}}), model,
                            peft, lora);
  ASSERT_TRUE(merged.status().ok()) << merged.status().ToString();
  const std::vector<LoraTarget> targets = *ResolveLoraTargets(peft, model);
  ExpectSum(merged, model, targets[0], MatchLoraTensors(lora, targets, peft, model)->front(),
            "F32");
}

TEST(MergedFileTest, AWeightThatDoesNotFitIsNamed) {
  const ModelConfig model = OddModel();
  const PeftConfig peft = Peft();
  const SafetensorsFile lora = FileOf(LoraTestTensors(peft, model));
  const std::string name = WeightName(model, 1, LoraModule::kV);
  const auto refusal = [&](const std::function<void(TestTensor&)>& change) {
    std::vector<TestTensor> tensors = BaseTensors(model, "F16");
    change(testing::FindTensor(tensors, name));
    const MergedFolder merged(SafetensorsBytes(tensors), model, peft, lora);
    EXPECT_EQ(std::filesystem::exists(merged.path()), merged.status().ok());
    EXPECT_FALSE(std::filesystem::exists(merged.path() + ".new"));
    return merged.status().message();
  };
  EXPECT_THAT(refusal([](TestTensor& tensor) { tensor.name = "other"; }), HasSubstr(name));
  EXPECT_THAT(refusal([](TestTensor& tensor) { std::swap(tensor.shape[0], tensor.shape[1]); }),
              HasSubstr("tensor " + name + " has shape [21, 10], config.json asks for [10, 21]"));
  EXPECT_THAT(refusal([](TestTensor& tensor) { tensor.dtype = "I16"; }), HasSubstr("'I16'"));
  EXPECT_THAT(refusal([](TestTensor& tensor) { tensor.data.replace(40, 2, "\xff\x7b"); }), "")
      << "65504 is a number";
  EXPECT_THAT(refusal([](TestTensor& tensor) { tensor.data.replace(40, 2, "\x00\x7c", 2); }),
              HasSubstr("the sum for tensor " + name + " is not finite in fp16"));
}

// A copy that the index does not name may have any shape.
TEST(MergedFileTest, OnlyTheTensorThatTheIndexNamesIsMerged) {
  const ModelConfig model = OddModel();
  const PeftConfig peft = Peft();
  const SafetensorsFile lora = FileOf(LoraTestTensors(peft, model));
  const std::string name = WeightName(model, 1, LoraModule::kV);
  const TempDir dir;
  const std::string copy =
      SafetensorsBytes({{"first", "F32", {1}, "1234"}, {name, "F32", {2, 1}, std::string(8, 'x')}});
  WriteFile(dir.File("copy.safetensors"), copy);
  WriteFile(dir.File("rest.safetensors"), SafetensorsBytes(BaseTensors(model, "F32")));
  Json map = {{"first", "copy.safetensors"}};
  for (const TestTensor& tensor : BaseTensors(model, "F32")) map[tensor.name] = "rest.safetensors";
  WriteFile(dir.File("model.safetensors.index.json"), Json{{"weight_map", map}}.dump());
  const SafetensorsSet base = *SafetensorsSet::Open(dir.path());
  const AddedToWeights added = *MatchAddedWeights(lora, peft, model, base);
  ThreadPool threads(2);
  for (const SafetensorsFile& file : base.files()) {
    NewFile out(dir.File("out"));
    ASSERT_TRUE(WriteMergedFile(base, file, added, out, threads).ok());
    const bool same = *ReadFile(dir.File("out")) == *ReadFile(file.label());
    EXPECT_EQ(same, file.Contains("first")) << file.label();
  }
}

TEST(MergedFileTest, ABaseThatBecomesShorterIsNamed) {
  const ModelConfig model = OddModel();
  const PeftConfig peft = Peft();
  const SafetensorsFile lora = FileOf(LoraTestTensors(peft, model));
  const std::string bytes = SafetensorsBytes(BaseTensors(model, "F32"));
  const TempDir dir;
  const std::string path = dir.File("model.safetensors");
  ThreadPool threads(2);
  for (const int64_t left : {int64_t{0}, std::ssize(bytes) - 1}) {
    WriteFile(path, bytes);
    const SafetensorsSet base = *SafetensorsSet::Open(dir.path());
    const AddedToWeights added = *MatchAddedWeights(lora, peft, model, base);
    std::filesystem::resize_file(path, static_cast<uintmax_t>(left));
    NewFile out(dir.File("out"));
    const Status status = WriteMergedFile(base, base.files().front(), added, out, threads);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr(path + " became shorter"));
    EXPECT_FALSE(std::filesystem::exists(dir.File("out")));
  }
}

// The model's file with all floats as fp32.
std::string Widened(const SafetensorsFile& file) {
  std::vector<TestTensor> tensors;
  for (const auto& [name, entry] : file.entries()) {
    if (entry.dtype == "U8") {  // GPT-2's masks
      const std::span<const char> bytes = *file.Bytes(name);
      tensors.push_back({name, entry.dtype, entry.shape, std::string(bytes.begin(), bytes.end())});
      continue;
    }
    tensors.push_back({name, "F32", entry.shape, BytesOf(ValuesOf(file, name))});
  }
  return SafetensorsBytes(tensors);
}

int32_t OrderOf(Bfloat16 value) {
  const int32_t magnitude = value.bits & 0x7fff;
  return (value.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

class MergedGoldenTest : public ::testing::TestWithParam<const char*> {};

// PEFT merges in fp32 what was bf16. Rounded to bf16 that is what a bf16 file should hold. GPT-2's
// is stored transposed, by names without their prefix, GPT-NeoX' head by head.
TEST_P(MergedGoldenTest, IsPeftsMerge) {
  const std::string dir = SourcePath(std::string("tests/goldens/") + GetParam());
  const ModelConfig model = *LoadModelConfig(dir);
  const PeftConfig peft = *ParsePeftConfig(*ReadFile(dir + "/adapter/adapter_config.json"));
  const SafetensorsFile lora = *SafetensorsFile::Open(dir + "/adapter/adapter_model.safetensors");
  const SafetensorsFile golden = *SafetensorsFile::Open(
      SourcePath(std::string("tests/goldens/merged/") + GetParam() + ".safetensors"));
  const SafetensorsFile base = *SafetensorsFile::Open(dir + "/model.safetensors");
  const MergedFolder wide(Widened(base), model, peft, lora);
  const MergedFolder narrow(*ReadFile(dir + "/model.safetensors"), model, peft, lora);
  ASSERT_TRUE(wide.status().ok()) << wide.status().ToString();
  ASSERT_TRUE(narrow.status().ok()) << narrow.status().ToString();
  int64_t num_values = 0, num_equal = 0;
  for (const auto& [name, entry] : golden.entries()) {
    ASSERT_TRUE(wide.added().contains(name)) << name;
    const std::vector<float> wanted = ValuesOf(golden, name);
    const std::vector<float> summed = ValuesOf(wide.file(), name);
    const std::vector<float> rounded = ValuesOf(narrow.file(), name);
    ASSERT_EQ(narrow.file().entries().at(name).dtype, "BF16");
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(summed[i], wanted[i], 1e-6) << name << " " << i;
      const int32_t ulps =
          OrderOf(FromFloat<Bfloat16>(rounded[i])) - OrderOf(FromFloat<Bfloat16>(wanted[i]));
      ASSERT_LE(std::abs(ulps), 1) << name << " " << i;
      num_equal += ulps == 0 ? 1 : 0;
      ++num_values;
    }
  }
  ASSERT_GT(num_values, 9'000);
  EXPECT_GE(static_cast<double>(num_equal), 0.999 * static_cast<double>(num_values));
}

INSTANTIATE_TEST_SUITE_P(Models, MergedGoldenTest,
                         ::testing::Values("llama", "qwen2", "phi3-longrope", "glm4", "gpt2",
                                           "gpt-neox"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace graft
