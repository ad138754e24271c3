#include "model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/model_test_util.h"
#include "model/safetensors.h"
#include "tensor/allocations.h"

namespace graft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SafetensorsBytes;
using testing::SourcePath;
using testing::TempDir;
using testing::TestTensor;
using testing::WriteFile;

// A model folder with the tensors of the llama golden. Each test spoils one thing in it.
class LoadWeightsTest : public ::testing::Test {
 protected:
  LoadWeightsTest() : config_(*LoadModelConfig(SourcePath("tests/goldens/llama"))) {
    const SafetensorsFile file =
        *SafetensorsFile::Open(SourcePath("tests/goldens/llama/model.safetensors"));
    for (const auto& [name, entry] : file.entries()) {
      const Result<std::span<const char>> bytes = file.Bytes(name);
      tensors_.push_back(
          {name, entry.dtype, entry.shape, std::string(bytes->begin(), bytes->end())});
    }
  }

  TestTensor& Find(const std::string& name) {
    for (TestTensor& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    CHECK(false) << name;
    __builtin_unreachable();
  }

  Result<ModelWeights> Load(DType dtype = DType::kF32, const LoadProgress& progress = {}) {
    WriteFile(dir_.File("model.safetensors"), SafetensorsBytes(tensors_));
    return LoadWeights(dir_.path(), config_, TypesOf(dtype), stream_, progress);
  }
  std::string Refusal() { return Load().status().ToString(); }

  const TempDir dir_;
  ModelConfig config_;
  std::vector<TestTensor> tensors_;
  ThreadPool threads_{2};
  Stream stream_{Device{}, &threads_};
};

constexpr char kQuery[] = "model.layers.1.self_attn.q_proj.weight";

TEST(WeightsBytesTest, AreWhatTheWeightsTake) {
  ThreadPool threads(2);
  Stream stream{Device{}, &threads};
  for (const char* model :
       {"llama",      "qwen2",         "qwen3",   "gemma",    "gemma2",  "gemma3",    "granite",
        "olmo2",      "phi3-longrope", "smollm3", "olmo3",    "exaone4", "glm",       "glm4",
        "ministral3", "gpt2",          "gpt-neo", "gpt-neox", "phi",     "starcoder2"}) {
    const ModelConfig config = *LoadModelConfig(SourcePath(std::string("tests/goldens/") + model));
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const int64_t before = AllocatedBytes({});
      const ModelWeights weights = RandomWeights(config, TypesOf(dtype), 1, stream);
      EXPECT_EQ(WeightsBytes(config, TypesOf(dtype), {}), weights.bytes()) << model;
      EXPECT_EQ(AllocatedBytes({}) - before, weights.bytes()) << model;
      EXPECT_GT(WeightsReadingBytes(config, TypesOf(dtype)), 0);
    }
  }
}

TEST_F(LoadWeightsTest, LoadsAndReportsProgress) {
  int64_t last = 0;
  const Result<ModelWeights> weights = Load(DType::kBF16, [&](int64_t done, int64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, config_.num_parameters());
    last = done;
  });
  ASSERT_TRUE(weights.ok()) << weights.status().ToString();
  EXPECT_EQ(last, config_.num_parameters());
  EXPECT_EQ(weights->layers.size(), 2u);
  EXPECT_EQ(weights->layers[0].qkv.n(), config_.qkv_size());
  EXPECT_EQ(weights->layers[0].gate_up.n(), 256);
  EXPECT_EQ(weights->layers[0].down.k(), 128);
  EXPECT_EQ(weights->layers[0].qkv_bias.data(), nullptr);
  EXPECT_EQ(weights->layers[0].q_norm.data(), nullptr);
  EXPECT_EQ(weights->embedding.bytes(), 256 * 64 * 2);
  EXPECT_GE(weights->bytes(), config_.num_parameters() * 2);
}

TEST_F(LoadWeightsTest, DtypesOfTheFileAreConverted) {
  // The same embedding as fp16. Small normal numbers survive the way from bf16 through fp32.
  const ModelWeights before = std::move(*Load());
  TestTensor& table = Find("model.embed_tokens.weight");
  std::string converted(table.data.size(), '\0');
  ConvertElements(DType::kBF16, table.data.data(), DType::kF16, converted.data(), 256 * 64);
  table.data = converted;
  table.dtype = "F16";
  const ModelWeights after = std::move(*Load());
  for (int64_t i = 0; i < 256 * 64; ++i) {
    EXPECT_NEAR(before.embedding.as<float>()[i], after.embedding.as<float>()[i], 1e-6f);
  }
}

TEST_F(LoadWeightsTest, MisalignedTensorsAreRead) {
  const ModelWeights before = std::move(*Load());
  // With one byte in front, every tensor after it lies at an odd address.
  tensors_.insert(tensors_.begin(), TestTensor{"pad", "U8", {1}, "p"});
  const Result<ModelWeights> after = Load();
  ASSERT_TRUE(after.ok()) << after.status().ToString();
  EXPECT_EQ(std::memcmp(before.embedding.data(), after->embedding.data(),
                        static_cast<size_t>(before.embedding.bytes())),
            0);
}

TEST_F(LoadWeightsTest, MissingTensorIsNamed) {
  Find(kQuery).name = "other";
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("NOT_FOUND"), HasSubstr(kQuery)));
}

TEST_F(LoadWeightsTest, WrongShapeIsNamed) {
  Find(kQuery).shape = {32, 128};
  EXPECT_THAT(Refusal(),
              AllOf(HasSubstr(kQuery), HasSubstr("[32, 128]"), HasSubstr("asks for [64, 64]")));
}

TEST_F(LoadWeightsTest, WrongDtypeIsNamed) {
  Find(kQuery).dtype = "I16";
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(kQuery), HasSubstr("I16")));
}

TEST_F(LoadWeightsTest, NotFiniteIsNamed) {
  TestTensor& query = Find(kQuery);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      query.dtype = dtype == DType::kF32 ? "F32" : dtype == DType::kBF16 ? "BF16" : "F16";
      query.data.assign(static_cast<size_t>(64 * 64 * DTypeBytes(dtype)), '\0');
      EXPECT_TRUE(Load().ok());
      ConvertElements(DType::kF32, &bad, dtype, query.data.data() + 4095 * DTypeBytes(dtype), 1);
      EXPECT_THAT(Refusal(),
                  AllOf(HasSubstr("DATA_LOSS"), HasSubstr(kQuery), HasSubstr("NaN or Inf")));
    }
  }
}

TEST_F(LoadWeightsTest, UnexpectedTensors) {
  // Rope frequencies of old checkpoints, and parts of models around the language model, are
  // ignored.
  tensors_.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {1}, "abcd"});
  tensors_.push_back({"score.weight", "F32", {1}, "abcd"});
  EXPECT_TRUE(Load().ok()) << Refusal();
  for (const char* name :
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.q_norm.weight",
        "model.layers.2.input_layernorm.weight", "lm_head.bias", "model.norm.bias",
        "model.layers.0.mlp.down_proj.weight_scale"}) {
    tensors_.push_back({name, "F32", {1}, "abcd"});
    EXPECT_THAT(Refusal(), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(name)));
    tensors_.pop_back();
  }
}

TEST_F(LoadWeightsTest, BiasesThatTheConfigWantsMustBeThere) {
  config_.mlp_bias = true;
  EXPECT_THAT(Refusal(), HasSubstr("mlp.gate_proj.bias"));
}

// The logits for the first hidden dimension alone, which is column 0 of the head.
float HeadElement(const ModelWeights& weights, int32_t token, Stream& stream) {
  std::vector<float> x(64, 0.0f), y(256);
  x[0] = 1.0f;
  Gemm({.x = x.data(),
        .x_stride = 64,
        .m = 1,
        .weight = &weights.lm_head,
        .y = y.data(),
        .y_stride = 256,
        .x_is_fp32 = true},
       stream);
  return y[token];
}

TEST_F(LoadWeightsTest, TiedEmbeddings) {
  config_.tied_embeddings = true;
  TestTensor& head = Find("lm_head.weight");
  head.data = Find("model.embed_tokens.weight").data;
  const ModelWeights with_head = std::move(*Load());  // saved although tied; it is the same table
  EXPECT_EQ(HeadElement(with_head, 3, stream_), with_head.embedding.as<float>()[3 * 64]);
  head.name = "x";
  EXPECT_TRUE(Load().ok());
  config_.tied_embeddings = false;
  EXPECT_THAT(Refusal(), HasSubstr("lm_head.weight"));
}

// Where one tensor has two names, safetensors drops one, and that may be either.
TEST_F(LoadWeightsTest, TiedEmbeddingsUnderTheHeadsNameAlone) {
  const ModelWeights apart = std::move(*Load());
  TestTensor& table = Find("model.embed_tokens.weight");
  table.name = "x";
  config_.tied_embeddings = true;
  const Result<ModelWeights> tied = Load();
  ASSERT_TRUE(tied.ok()) << tied.status().ToString();
  EXPECT_EQ(tied->embedding.as<float>()[3 * 64], HeadElement(apart, 3, stream_));
  EXPECT_EQ(HeadElement(*tied, 3, stream_), HeadElement(apart, 3, stream_));
  config_.tied_embeddings = false;
  EXPECT_THAT(Refusal(), HasSubstr("model.embed_tokens.weight"));
}

// As in transformers 5: an lm_head in the file wins over tie_word_embeddings.
TEST_F(LoadWeightsTest, TiedEmbeddingsBesideAnotherHead) {
  const ModelWeights apart = std::move(*Load());
  config_.tied_embeddings = true;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Result<ModelWeights> tied = Load(dtype);
    ASSERT_TRUE(tied.ok()) << tied.status().ToString();
    EXPECT_NE(HeadElement(apart, 3, stream_), apart.embedding.as<float>()[3 * 64]);
    EXPECT_EQ(HeadElement(*tied, 3, stream_), HeadElement(apart, 3, stream_));
  }
  Find("lm_head.weight").shape = {64, 256};
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("lm_head.weight"), HasSubstr("[64, 256]")));
}

TEST_F(LoadWeightsTest, Fp16IsNotServed) {
  EXPECT_THAT(Load(DType::kF16).status().ToString(), HasSubstr("fp16"));
}

TEST(ServingDTypeTest, FollowsTheCheckpointUnlessAsked) {
  ModelConfig config;
  EXPECT_EQ(ServingDType(config, std::nullopt), DType::kF32);
  config.dtype = DType::kBF16;
  EXPECT_EQ(ServingDType(config, std::nullopt), DType::kBF16);
  EXPECT_EQ(ServingDType(config, DType::kF32), DType::kF32);
  config.dtype = DType::kF16;
  EXPECT_EQ(ServingDType(config, std::nullopt), DType::kF32);
  EXPECT_EQ(ServingDType(config, DType::kBF16), DType::kBF16);
}

// In Gemma 2 sqrt(3072) in bf16 is 55.5, and norm weights are stored minus one.
TEST(GemmaWeightsTest, EmbeddingScaleAndNorms) {
  ModelConfig config = *LoadModelConfig(SourcePath("tests/goldens/gemma2"));
  config.hidden_size = 3072;
  EXPECT_EQ(EmbeddingScale(config, DType::kF32), std::sqrt(3072.0f));
  EXPECT_EQ(EmbeddingScale(config, DType::kBF16), 55.5f);
  config.scales_embeddings = false;
  EXPECT_EQ(EmbeddingScale(config, DType::kBF16), 1.0f);

  ThreadPool threads(1);
  Stream stream{Device{}, &threads};
  const std::string dir = SourcePath("tests/goldens/gemma2");
  const ModelWeights weights =
      std::move(*LoadWeights(dir, *LoadModelConfig(dir), TypesOf(DType::kF32), stream));
  const SafetensorsFile file = *SafetensorsFile::Open(dir + "/model.safetensors");
  const auto expect_one_more = [&](const Buffer& norm, const std::string& name) {
    const TensorView tensor = *file.Tensor(name);
    std::vector<float> values(64);
    ConvertElements(tensor.dtype, tensor.data, DType::kF32, values.data(), 64);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(norm.as<float>()[i], 1.0f + values[i]) << name;
  };
  const std::string layer = "model.layers.1.";
  expect_one_more(weights.layers[1].attention_norm, layer + "input_layernorm.weight");
  expect_one_more(weights.layers[1].attention_output_norm,
                  layer + "post_attention_layernorm.weight");
  expect_one_more(weights.layers[1].mlp_norm, layer + "pre_feedforward_layernorm.weight");
  expect_one_more(weights.layers[1].mlp_output_norm, layer + "post_feedforward_layernorm.weight");
  expect_one_more(weights.final_norm, "model.norm.weight");
}

// What a model folder's tensor holds, in fp32.
std::vector<float> ValuesOf(const std::string& dir, const std::string& name) {
  const SafetensorsFile file = *SafetensorsFile::Open(dir + "/model.safetensors");
  const TensorView tensor = *file.Tensor(name);
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  ConvertElements(tensor.dtype, tensor.data, DType::kF32, values.data(), tensor.num_elements());
  return values;
}

// The products of a weight with the unit vectors are its columns: [k, n], in the order of n.
std::vector<float> ColumnsOf(const GemmWeight& weight, Stream& stream) {
  const int64_t n = weight.n(), k = weight.k();
  std::vector<float> x(static_cast<size_t>(k * k)), y(static_cast<size_t>(k * n));
  for (int64_t i = 0; i < k; ++i) x[static_cast<size_t>(i * k + i)] = 1.0f;
  Gemm({.x = x.data(),
        .x_stride = k,
        .m = k,
        .weight = &weight,
        .y = y.data(),
        .y_stride = n,
        .x_is_fp32 = true},
       stream);
  return y;
}

// GPT-2's first files: no prefix, masks, weights [in, out], which is what a product's columns are.
TEST(Gpt2WeightsTest, Conv1dLearnedPositionsAndNormsWithBias) {
  ThreadPool threads(2);
  Stream stream{Device{}, &threads};
  const std::string dir = SourcePath("tests/goldens/gpt2");
  const ModelConfig config = *LoadModelConfig(dir);
  int64_t last = 0;
  const auto count = [&](int64_t done, int64_t) { last = done; };
  const ModelWeights weights =
      std::move(*LoadWeights(dir, config, TypesOf(DType::kF32), stream, count));
  EXPECT_EQ(last, config.num_parameters());
  EXPECT_EQ(ColumnsOf(weights.layers[1].qkv, stream), ValuesOf(dir, "h.1.attn.c_attn.weight"));
  EXPECT_EQ(ColumnsOf(weights.layers[2].down, stream), ValuesOf(dir, "h.2.mlp.c_proj.weight"));
  const std::vector<float> positions = ValuesOf(dir, "wpe.weight");
  ASSERT_EQ(weights.positions.bytes(), 64 * 32 * 4);
  EXPECT_EQ(std::memcmp(weights.positions.data(), positions.data(), positions.size() * 4), 0);
  const auto weight = ValuesOf(dir, "ln_f.weight"), bias = ValuesOf(dir, "ln_f.bias");
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(weights.final_norm.as<float>()[i], weight[i]);
    EXPECT_EQ(weights.final_norm.as<float>()[32 + i], bias[i]);
  }
}

// A rank's heads of a stack that has q, k and v of one head after the other.
TEST(GptNeoXWeightsTest, HeadsLieSideBySide) {
  ThreadPool threads(2);
  Stream stream{Device{}, &threads};
  const std::string dir = SourcePath("tests/goldens/gpt-neox");
  const ModelConfig config = *LoadModelConfig(dir);
  const std::vector<float> stored =
      ValuesOf(dir, "gpt_neox.layers.1.attention.query_key_value.bias");
  for (const int32_t rank : {0, 1}) {
    const ModelWeights weights = std::move(*LoadWeights(dir, config, TypesOf(DType::kF32), stream,
                                                        {}, {.rank = rank, .num_ranks = 2}));
    const auto* const bias = weights.layers[1].qkv_bias.as<float>();
    ASSERT_EQ(weights.layers[1].qkv_bias.bytes(), 3 * 16 * 4);
    for (size_t i = 0; i < 48; ++i) EXPECT_EQ(bias[i], stored[static_cast<size_t>(rank) * 48 + i]);
    EXPECT_EQ(weights.layers[1].o_bias.data() == nullptr, rank == 1);
  }
  const ModelWeights whole = std::move(*LoadWeights(dir, config, TypesOf(DType::kF32), stream));
  const auto* const bias = whole.layers[1].qkv_bias.as<float>();
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(bias[i], stored[i]);
    EXPECT_EQ(bias[16 + i], stored[48 + i]) << "q of the second head";
    EXPECT_EQ(bias[32 + i], stored[16 + i]) << "k of the first";
    EXPECT_EQ(bias[64 + i], stored[32 + i]) << "v of the first";
  }
}

// No part of a whole model's names is left out, and what is left over is refused by name.
TEST(PrefixedWeightsTest, TensorsThatNothingTakes) {
  ThreadPool threads(1);
  Stream stream{Device{}, &threads};
  const TempDir to;
  const std::string from = SourcePath("tests/goldens/gpt-neo");
  const SafetensorsFile file = *SafetensorsFile::Open(from + "/model.safetensors");
  std::vector<TestTensor> tensors;
  for (const auto& [name, entry] : file.entries()) {
    const Result<std::span<const char>> bytes = file.Bytes(name);
    tensors.push_back({name, entry.dtype, entry.shape, std::string(bytes->begin(), bytes->end())});
  }
  const auto refusal = [&] {
    WriteFile(to.File("model.safetensors"), SafetensorsBytes(tensors));
    return LoadWeights(to.path(), *LoadModelConfig(from), TypesOf(DType::kF32), stream)
        .status()
        .ToString();
  };
  TestTensor extra = tensors.front();
  extra.name = "transformer.h.0.attn.attention.masked_bias";
  tensors.push_back(extra);
  EXPECT_EQ(refusal(), "OK");
  tensors.back().name = "transformer.h.0.attn.attention.q_proj.bias";
  EXPECT_THAT(refusal(), HasSubstr("transformer.h.0.attn.attention.q_proj.bias is in the files"));
  tensors.back().name = "transformer.wpe.scale";
  EXPECT_THAT(refusal(), HasSubstr("transformer.wpe.scale is in the files"));
}

TEST(RandomWeightsTest, SpreadAndIndependenceOfThreads) {
  ModelConfig config = *LoadModelConfig(SourcePath("tests/goldens/qwen3"));
  config.vocab_size = 2001;  // more than one task, and a tail
  config.tied_embeddings = true;
  ThreadPool one(1);
  ThreadPool three(3);
  Stream stream_one{Device{}, &one};
  Stream stream_three{Device{}, &three};
  const ModelWeights a = RandomWeights(config, TypesOf(DType::kF32), 5, stream_one);
  const ModelWeights b = RandomWeights(config, TypesOf(DType::kF32), 5, stream_three);
  const ModelWeights c = RandomWeights(config, TypesOf(DType::kF32), 6, stream_one);
  const auto bytes = static_cast<size_t>(a.embedding.bytes());
  EXPECT_EQ(std::memcmp(a.embedding.data(), b.embedding.data(), bytes), 0);
  EXPECT_NE(std::memcmp(a.embedding.data(), c.embedding.data(), bytes), 0);
  EXPECT_EQ(a.layers[1].q_norm.as<float>()[3], 1.0f);
  EXPECT_EQ(a.final_norm.as<float>()[63], 1.0f);
  const int64_t n = a.embedding.bytes() / 4;
  double sum = 0.0;
  double squares = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(a.embedding.as<float>()[i]);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / static_cast<double>(n), 0.0, 5e-4);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(n)), 0.02, 5e-4);
}

}  // namespace
}  // namespace graft
