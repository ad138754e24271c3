#include "adapters/base_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "adapters/peft_backend.h"
#include "base/file.h"

namespace graft {
namespace base_copies_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FileOf;
using ::testing::HasSubstr;
using testing::OddModel;
using testing::RandomElements;
using testing::SafetensorsBytes;
using testing::SourcePath;
using testing::TempDir;
using testing::TestTensor;
using testing::WriteFile;

constexpr char kHeadCopy[] = "base_model.model.lm_head.base_layer.weight";
constexpr char kEmbeddingCopy[] = "base_model.model.model.embed_tokens.weight";

// An adapter's tensor of the base's number, in another dtype.
TestTensor Copy(const TestTensor& base, const std::string& name, const std::string& dtype) {
  std::vector<float> values(static_cast<size_t>(base.shape[0] * base.shape[1]));
  const auto dtype_of = [](const std::string& text) {
    return text == "F32" ? DType::kF32 : text == "BF16" ? DType::kBF16 : DType::kF16;
  };
  ConvertElements(dtype_of(base.dtype), base.data.data(), DType::kF32, values.data(),
                  static_cast<int64_t>(values.size()));
  std::string bytes(values.size() * static_cast<size_t>(DTypeBytes(dtype_of(dtype))), '\0');
  ConvertElements(DType::kF32, values.data(), dtype_of(dtype), bytes.data(),
                  static_cast<int64_t>(values.size()));
  return {name, dtype, base.shape, bytes};
}

class BaseCopiesTest : public ::testing::Test {
 protected:
  BaseCopiesTest() {
    Random random(3);
    const int64_t n = int64_t{model_.vocab_size} * model_.hidden_size;
    for (const std::string name : {"model.embed_tokens.weight", "lm_head.weight"}) {
      base_.push_back({name,
                       "BF16",
                       {model_.vocab_size, model_.hidden_size},
                       RandomElements("BF16", n, random)});
    }
    WriteBase(base_);
  }
  void WriteBase(const std::vector<TestTensor>& tensors) {
    WriteFile(dir_.File("model.safetensors"), SafetensorsBytes(tensors));
  }
  std::string Verdict(const std::vector<TestTensor>& tensors) {
    const SafetensorsFile file = FileOf(tensors);
    const Status status = CheckBaseCopies(file, BaseCopiesIn(file, model_), model_, dir_.path());
    return status.ok() ? "left out" : status.ToString();
  }

  ModelConfig model_ = OddModel();
  const TempDir dir_;
  std::vector<TestTensor> base_;
};

TEST_F(BaseCopiesTest, AreKnownByTheirNames) {
  std::vector<TestTensor> tensors;
  for (const std::string name :
       {kHeadCopy, kEmbeddingCopy, "base_model.model.lm_head.weight",
        "base_model.model.model.embed_tokens.base_layer.weight",
        "base_model.model.lm_head.lora_A.weight", "lm_head.weight",
        "base_model.model.lm_head.modules_to_save.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight"}) {
    tensors.push_back(Copy(base_[0], name, "F32"));
  }
  EXPECT_THAT(BaseCopiesIn(FileOf(tensors), model_),
              ElementsAre(kHeadCopy, "base_model.model.lm_head.weight",
                          "base_model.model.model.embed_tokens.base_layer.weight", kEmbeddingCopy));
}

// In the dtype that the trainer had the base in.
TEST_F(BaseCopiesTest, EqualOnesAreLeftOutWhateverTheirDtype) {
  for (const std::string dtype : {"F32", "BF16", "F16"}) {
    EXPECT_EQ(Verdict({Copy(base_[1], kHeadCopy, dtype), Copy(base_[0], kEmbeddingCopy, dtype)}),
              "left out");
  }
  EXPECT_EQ(Verdict({}), "left out");
  // The base is fp32, and the copy was rounded.
  for (TestTensor& tensor : base_) {
    Random random(4);
    tensor.dtype = "F32";
    tensor.data = RandomElements("F32", tensor.shape[0] * tensor.shape[1], random);
  }
  WriteBase(base_);
  EXPECT_EQ(Verdict({Copy(base_[1], kHeadCopy, "BF16")}), "left out");
}

TEST_F(BaseCopiesTest, ChangedOnesAreRefusedByNameAndPlace) {
  TestTensor changed = Copy(base_[1], kHeadCopy, "F32");
  changed.data[4 * (2 * 21 + 5) + 2] ^= 1;
  EXPECT_THAT(Verdict({changed}), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(kHeadCopy),
                                        HasSubstr("row 2, column 5"), HasSubstr("lm_head.weight")));
  // New tokens, and the embedding in the head's place.
  TestTensor longer = Copy(base_[0], kEmbeddingCopy, "BF16");
  longer.shape[0] += 1;
  longer.data += std::string(2 * 21, '\0');
  EXPECT_THAT(Verdict({longer}), AllOf(HasSubstr("[12, 21]"), HasSubstr("[11, 21]")));
  EXPECT_THAT(Verdict({Copy(base_[0], kHeadCopy, "F32")}), HasSubstr("changed copy"));
}

TEST_F(BaseCopiesTest, ATiedHeadIsTheEmbedding) {
  model_.tied_embeddings = true;
  WriteBase({base_[0]});
  EXPECT_EQ(Verdict({Copy(base_[0], kHeadCopy, "F32")}), "left out");
  EXPECT_THAT(Verdict({Copy(base_[1], kHeadCopy, "F32")}), HasSubstr("changed copy"));
}

TEST_F(BaseCopiesTest, WithoutTheBaseTheyAreRefused) {
  const SafetensorsFile file = FileOf({Copy(base_[1], kHeadCopy, "F32")});
  for (const std::string folder : {"", "/nowhere"}) {
    EXPECT_THAT(
        CheckBaseCopies(file, {kHeadCopy}, model_, folder).ToString(),
        AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(kHeadCopy), HasSubstr("cannot be told")));
  }
}

// A wrapper's classes of today and of before call them otherwise, and so do its files.
TEST(BaseCopiesGoldenTest, AWrappersAreKnownByAnyOfItsNames) {
  struct Names {
    std::string model, embedding, head;
  };
  for (const Names& names :
       {Names{"llava", "model.language_model.embed_tokens", "lm_head"},
        Names{"llava", "language_model.model.embed_tokens", "language_model.lm_head"},
        Names{"smolvlm", "model.text_model.embed_tokens", "lm_head"},
        Names{"qwen3-vl", "model.language_model.embed_tokens", "lm_head"}}) {
    SCOPED_TRACE(names.model + ", " + names.head);
    const std::string folder = SourcePath("tests/goldens/" + names.model);
    const ModelConfig model = *LoadModelConfig(folder);
    const SafetensorsSet base = *SafetensorsSet::Open(folder);
    const auto bytes_of = [&](std::string_view ending) {
      for (const std::string& name : base.Names()) {
        if (!name.ends_with(ending)) continue;
        const TensorView view = *base.Tensor(name);
        return std::string(static_cast<const char*>(view.data), static_cast<size_t>(view.bytes()));
      }
      return std::string();
    };
    const std::vector<int64_t> shape = {model.vocab_size, model.hidden_size};
    const std::string embedding = bytes_of("embed_tokens.weight");
    std::string head = bytes_of("lm_head.weight");
    EXPECT_EQ(head.empty(), model.tied_embeddings);
    if (head.empty()) head = embedding;
    const std::string prefix = "base_model.model.";
    const TestTensor of_embedding = {prefix + names.embedding + ".weight", "BF16", shape,
                                     embedding};
    TestTensor of_head = {prefix + names.head + ".base_layer.weight", "BF16", shape, head};
    const auto verdict = [&] {
      const SafetensorsFile file = FileOf({of_embedding, of_head});
      EXPECT_EQ(BaseCopiesIn(file, model).size(), 2u);
      return CheckBaseCopies(file, BaseCopiesIn(file, model), model, folder).ToString();
    };
    EXPECT_EQ(verdict(), OkStatus().ToString());
    of_head.data[2 * 5] ^= 1;
    EXPECT_THAT(verdict(), AllOf(HasSubstr(of_head.name), HasSubstr("row 0, column 5")));
  }
}

// PEFT saves all parameters of the head's layer: Phi's has a bias.
TEST(BaseCopiesGoldenTest, ABiasOfTheHeadIsACopyToo) {
  const std::string folder = SourcePath("tests/goldens/phi");
  const ModelConfig model = *LoadModelConfig(folder);
  const SafetensorsSet base = *SafetensorsSet::Open(folder);
  std::vector<TestTensor> copies;
  for (const std::string name : {"bias", "weight"}) {
    const SafetensorsFile& file = *base.FileOf("lm_head." + name);
    const SafetensorsEntry& entry = file.entries().at("lm_head." + name);
    const std::span<const char> bytes = *file.Bytes("lm_head." + name);
    copies.push_back({"base_model.model.lm_head.base_layer." + name, entry.dtype, entry.shape,
                      std::string(bytes.begin(), bytes.end())});
  }
  const auto verdict = [&] {
    const SafetensorsFile file = FileOf(copies);
    EXPECT_EQ(BaseCopiesIn(file, model).size(), 2u);
    return CheckBaseCopies(file, BaseCopiesIn(file, model), model, folder).ToString();
  };
  EXPECT_EQ(verdict(), OkStatus().ToString());
  copies[0].data[2 * 7] ^= 1;
  EXPECT_THAT(verdict(), AllOf(HasSubstr("lm_head.base_layer.bias"), HasSubstr("column 7")));
  // Another family's head has none, so that such a tensor is of nothing.
  EXPECT_EQ(
      BaseCopiesIn(FileOf(copies), *LoadModelConfig(SourcePath("tests/goldens/llama"))).size(), 1u);
}

// As PEFT saves an adapter of the head, all the way to what people are told.
TEST(BaseCopiesGoldenTest, APeftFolderOfTheHeadIsServed) {
  for (const std::string name : {"llama", "gemma2"}) {
    const std::string base = SourcePath("tests/goldens/" + name);
    const std::string path = SourcePath("tests/goldens/heads/" + name + "-with-head/adapter");
    const ModelConfig model = *LoadModelConfig(base);
    const Result<OrderedJson> facts =
        InspectAdapter(path, model, TypesOf(DType::kF32), {}, {}, nullptr, {.base_folder = base});
    ASSERT_TRUE(facts.ok()) << facts.status().ToString();
    EXPECT_THAT((*facts)["left_out"].dump(), HasSubstr(kHeadCopy));
    EXPECT_EQ((*facts)["modules"]["lm_head"]["ranks"], OrderedJson::parse("[12]"));
    EXPECT_THAT(InspectAdapter(path, model, TypesOf(DType::kF32)).status().message(),
                HasSubstr("not at hand"));
  }
}

}  // namespace base_copies_test
}  // namespace graft
