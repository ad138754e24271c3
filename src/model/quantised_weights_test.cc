// Weights of quantised checkpoints: the bits of the libraries that wrote them, ranks, fused
// projections, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/sha256.h"
#include "model/code_files.h"
#include "model/matrix_codes.h"
#include "model/quantised_format.h"
#include "model/quantised_test_util.h"
#include "tensor/allocations.h"

namespace graft {
namespace quantised_weights_test {

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

class QuantisedGoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string dir_ = QuantisedPath(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Folders, QuantisedGoldenTest, ::testing::ValuesIn(kQuantisedFolders),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(QuantisedGoldenTest, NumbersHaveTheLibrarysBits) {
  const ModelConfig config = *LoadModelConfig(dir_);
  const Json expected = *ParseJsonFile(dir_ + "/dequantised.json");
  const SafetensorsSet files = *SafetensorsSet::Open(dir_);
  for (const int num_threads : {1, 3}) {
    ThreadPool threads(num_threads);
    Stream stream{Device{}, &threads};
    FileSource plain(files, stream);
    const std::unique_ptr<QuantisedSource> source =
        std::move(*QuantisedSource::Make(plain, *config.quantisation, stream));
    for (const auto& [name, row] : expected.items()) {
      EXPECT_TRUE(source->Has(name)) << name;
      const Result<TensorView> numbers =
          source->Get(name, row["shape"].get<std::vector<int64_t>>());
      ASSERT_TRUE(numbers.ok()) << numbers.status().ToString();
      const std::string dtype = row["dtype"].get<std::string>();
      EXPECT_EQ(dtype, numbers->dtype == DType::kBF16  ? "bfloat16"
                       : numbers->dtype == DType::kF16 ? "float16"
                                                       : "float32");
      const char* const bytes = static_cast<const char*>(numbers->data);
      EXPECT_EQ(Sha256Of(std::string_view(bytes, static_cast<size_t>(numbers->bytes()))),
                row["sha256"].get<std::string>())
          << name;
    }
    EXPECT_GE(expected.size(), 3u);
  }
}

TEST_P(QuantisedGoldenTest, LoadsAsItsTwinOfPlainNumbers) {
  ThreadPool threads(2);
  Stream stream{Device{}, &threads};
  const QuantisedFolder folder(dir_);
  const QuantisedFolder twin = folder.Twin();
  for (const Shard& shard : {Shard{0, 1}, Shard{0, 2}, Shard{1, 2}}) {
    const Result<ModelWeights> codes = folder.Load(stream, shard);
    const bool scattered =
        std::string(GetParam()) == "w4a16_gidx" || std::string(GetParam()) == "gptq4_desc_act";
    if (scattered && shard.num_ranks > 1) {
      EXPECT_THAT(codes.status().ToString(),
                  AllOf(HasSubstr("--tensor-parallel"), HasSubstr("self_attn.o_proj.weight")));
      continue;
    }
    ASSERT_TRUE(codes.ok()) << codes.status().ToString();
    const Result<ModelWeights> numbers = twin.Load(stream, shard);
    ASSERT_TRUE(numbers.ok()) << numbers.status().ToString();
    EXPECT_EQ(codes->types, numbers->types);
    EXPECT_EQ(ProductsOf(*codes, stream), ProductsOf(*numbers, stream));
    EXPECT_EQ(codes->bytes(), numbers->bytes());
  }
}

// What later kernels pack: codes, scales and zero points give the same numbers by the formula of
// PackedForm.
TEST_P(QuantisedGoldenTest, CodesGiveTheNumbers) {
  const ModelConfig config = *LoadModelConfig(dir_);
  const SafetensorsSet files = *SafetensorsSet::Open(dir_);
  ThreadPool threads(1);
  Stream stream{Device{}, &threads};
  FileSource plain(files, stream);
  const std::unique_ptr<QuantisedSource> source =
      std::move(*QuantisedSource::Make(plain, *config.quantisation, stream));
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const std::vector<int64_t> shape = {config.intermediate_size, config.hidden_size};
  const std::unique_ptr<PackedMatrix> matrix = std::move(*source->Packed(name, shape));
  ASSERT_NE(matrix, nullptr);
  const PackedForm& form = matrix->form();
  const TensorView numbers = *source->Get(name, shape);
  // A part that begins and ends inside blocks of whatever the reader takes at once.
  const IndexRange rows{3, 70};
  const IndexRange inputs{8, form.k - 5};
  std::vector<uint8_t> codes(static_cast<size_t>(rows.size() * inputs.size()));
  std::vector<float> scales(static_cast<size_t>(rows.size() * form.groups));
  std::vector<uint8_t> zeros(scales.size(), 0);
  matrix->Codes(rows, inputs, codes.data());
  matrix->Scales(rows, scales.data());
  if (form.code_book.empty()) matrix->Zeros(rows, zeros.data());
  for (int64_t row = 0; row < rows.size(); ++row) {
    for (int64_t i = 0; i < inputs.size(); ++i) {
      const int64_t input = inputs.begin + i;
      const int64_t group = form.group_of.empty() ? input / form.group_size()
                                                  : form.group_of[static_cast<size_t>(input)];
      const auto place = static_cast<size_t>(row * form.groups + group);
      const uint8_t code = codes[static_cast<size_t>(row * inputs.size() + i)];
      ASSERT_LT(code, 1 << form.bits);
      const float value =
          form.code_book.empty() ? static_cast<float>(code - zeros[place]) : form.code_book[code];
      const float expected = value * scales[place];
      DispatchDType(form.dtype, [&]<typename T>() {
        const T found = static_cast<const T*>(numbers.data)[(rows.begin + row) * form.k + input];
        const T rounded = FromFloat<T>(expected);
        EXPECT_EQ(std::memcmp(&found, &rounded, sizeof(T)), 0) << row << " " << input;
      });
    }
  }
}

TEST(QuantisedWeightsTest, OneWeightIsInMemoryTwice) {
  ThreadPool threads(2);
  Stream stream{Device{}, &threads};
  const std::string dir = QuantisedPath("nf4");
  const ModelConfig config = *LoadModelConfig(dir);
  const int64_t before = AllocatedBytes({});
  const ModelWeights weights = std::move(*LoadWeights(dir, config, TypesOf(DType::kBF16), stream));
  EXPECT_EQ(AllocatedBytes({}) - before, weights.bytes());
  EXPECT_EQ(weights.bytes(), WeightsBytes(config, TypesOf(DType::kBF16), {}));
}

// Names of other modules, biases of zeros, scales of a cache.
TEST(QuantisedWeightsTest, WhatIsReadOver) {
  QuantisedFolder folder(QuantisedPath("gptq8"));
  folder.tensors.push_back(
      {"model.layers.0.mlp.down_proj.bias", "F16", {128}, std::string(256, '\0')});
  folder.tensors.push_back({"model.layers.0.self_attn.k_scale", "F32", {1}, "abcd"});
  folder.tensors.push_back({"model.layers.0.self_attn.attn.v_scale", "F32", {}, "abcd"});
  EXPECT_EQ(folder.Refusal(), "OK");
  folder.Find("down_proj.bias").data[3] = 1;
  EXPECT_THAT(folder.Refusal(), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("down_proj.bias")));
}

TEST(QuantisedWeightsTest, ModulesThatStayAsTheyAre) {
  // Files and config agree: attention of the one, down of the other are plain.
  for (const char* name : {"nf4_single_skip", "gptq_dynamic", "w4a16_w8a16"}) {
    const QuantisedFolder folder(QuantisedPath(name));
    EXPECT_EQ(folder.Refusal(), "OK") << name;
  }
  // A weight with codes that the config leaves out.
  QuantisedFolder nf4(QuantisedPath("nf4"));
  for (const char* path : {"model.layers.0.mlp", "down_proj", "model.layers.0.mlp.down_proj"}) {
    nf4.quantisation()["llm_int8_skip_modules"] = {path};
    EXPECT_THAT(nf4.Refusal(), AllOf(HasSubstr("mlp."), HasSubstr("leaves"))) << path;
  }
  for (const char* path : {"model.layers.1", "n_proj", "mod"}) {
    nf4.quantisation()["llm_int8_skip_modules"] = {path};
    EXPECT_EQ(nf4.Refusal(), "OK") << path;
  }
  QuantisedFolder awq(QuantisedPath("awq"));
  awq.quantisation()["modules_to_not_convert"] = {"self_attn"};
  EXPECT_THAT(awq.Refusal(), AllOf(HasSubstr("q_proj.qweight"), HasSubstr("leaves")));
  QuantisedFolder compressed(QuantisedPath("w4a16_sym"));
  compressed.quantisation()["ignore"] = {"lm_head", "re:.*up_proj$"};
  EXPECT_THAT(compressed.Refusal(), AllOf(HasSubstr("up_proj.weight_packed"), HasSubstr("leaves")));
  // Codes and numbers of one weight.
  compressed = QuantisedFolder(QuantisedPath("w4a16_sym"));
  compressed.tensors.push_back({"model.layers.0.mlp.up_proj.weight",
                                "BF16",
                                {256, 256},
                                std::string(size_t{256} * 256 * 2, '\0')});
  EXPECT_THAT(compressed.Refusal(), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("up_proj.weight")));
}

// A tensor of each folder, what is done to it, and what the error says.
struct Spoilt {
  const char* folder;
  const char* tensor;
  void (*spoil)(TestTensor& tensor);
  const char* code;
  const char* says;
};

void CutLastRow(TestTensor& tensor) {
  const auto row = static_cast<int64_t>(tensor.data.size()) / tensor.shape[0];
  tensor.shape[0] -= 1;
  tensor.data.resize(tensor.data.size() - static_cast<size_t>(row));
}
template <uint16_t kBits>
void PutHalf(TestTensor& tensor) {
  const uint16_t bits = kBits;
  std::memcpy(tensor.data.data() + 6, &bits, sizeof(bits));
}
template <uint32_t kBits>
void PutWord(TestTensor& tensor) {
  const uint32_t bits = kBits;
  std::memcpy(tensor.data.data() + 4, &bits, sizeof(bits));
}
void RenameDtype(TestTensor& tensor) { tensor.dtype = tensor.dtype == "I32" ? "U32" : "I32"; }
void PutText(TestTensor& tensor, const std::string& from, const std::string& to) {
  const size_t at = tensor.data.find(from);
  CHECK(at != std::string::npos) << tensor.data;
  tensor.data.replace(at, from.size(), to);
  tensor.shape = {static_cast<int64_t>(tensor.data.size())};
}

constexpr uint32_t kNan = 0x7fc00000u;
constexpr char kState[] = "q_proj.weight.quant_state.bitsandbytes__nf4";

TEST(QuantisedWeightsTest, SpoiltTensorsAreNamed) {
  const Spoilt cases[] = {
      {"nf4", "q_proj.weight", CutLastRow, "INVALID", "bytes"},
      {"nf4", "q_proj.weight.absmax", CutLastRow, "INVALID", "[1023]"},
      {"nf4", "q_proj.weight.nested_absmax", PutWord<kNan>, "DATA_LOSS", "NaN or Inf at 1"},
      {"nf4", "q_proj.weight.nested_quant_map", PutWord<0x7f800000u>, "DATA_LOSS", "NaN or Inf"},
      {"nf4", "q_proj.weight.quant_map", PutWord<kNan>, "DATA_LOSS", "NaN or Inf"},
      {"nf4", "q_proj.weight.quant_map", PutWord<0x3f000000u>, "UNIMPLEMENTED", "code book"},
      {"nf4_single_skip", "up_proj.weight.absmax", PutWord<kNan>, "DATA_LOSS", "NaN or Inf at 1"},
      {"nf4_fp16", "up_proj.weight.absmax", CutLastRow, "INVALID", "asks for [512]"},
      {"w4a16_sym", "q_proj.weight_packed", CutLastRow, "INVALID", "asks for [256, 32]"},
      {"w4a16_sym", "q_proj.weight_packed", RenameDtype, "UNIMPLEMENTED", "has I32"},
      {"w4a16_sym", "q_proj.weight_scale", CutLastRow, "INVALID", "asks for [256, 2]"},
      {"w4a16_sym", "q_proj.weight_scale", PutHalf<0x7fc0>, "DATA_LOSS", "NaN or Inf at 3"},
      {"w4a16_sym", "q_proj.weight_scale", PutHalf<0x7f80>, "DATA_LOSS", "NaN or Inf at 3"},
      {"w4a16_sym", "q_proj.weight_shape", PutWord<1>, "INVALID",
       "config.json asks for [256, 256]"},
      {"w4a16_asym", "q_proj.weight_zero_point", CutLastRow, "INVALID", "asks for [32, 4]"},
      {"w4a16_gidx", "q_proj.weight_g_idx", PutWord<4>, "DATA_LOSS", "into group 4 of 4"},
      {"w4a16_gidx", "q_proj.weight_g_idx", PutWord<0xffffffffu>, "DATA_LOSS", "group -1"},
      {"gptq4_desc_act", "q_proj.g_idx", PutWord<4>, "DATA_LOSS", "into group 4 of 4"},
      {"gptq4_desc_act", "q_proj.qweight", CutLastRow, "INVALID", "asks for [32, 256]"},
      {"gptq4_desc_act", "q_proj.qzeros", CutLastRow, "INVALID", "asks for [4, 32]"},
      {"gptq4_desc_act", "q_proj.scales", PutHalf<0x7c00>, "DATA_LOSS", "NaN or Inf at 3"},
      {"gptq8", "q_proj.qzeros", PutWord<0x7f7f7f7eu>, "DATA_LOSS", "zero point 127"},
      {"awq", "q_proj.qweight", CutLastRow, "INVALID", "asks for [256, 32]"},
      {"awq", "q_proj.qzeros", CutLastRow, "INVALID", "asks for [2, 32]"},
      {"awq", "q_proj.scales", CutLastRow, "INVALID", "asks for [2, 256]"},
      {"awq", "q_proj.scales", PutHalf<0xfc00>, "DATA_LOSS", "NaN or Inf at 3"},
  };
  for (const Spoilt& spoilt : cases) {
    QuantisedFolder folder(QuantisedPath(spoilt.folder));
    spoilt.spoil(folder.Find(spoilt.tensor));
    const std::string module = std::string(spoilt.tensor).substr(0, 6);
    for (const bool keeps_codes : {false, true}) {
      EXPECT_THAT(folder.Refusal(keeps_codes),
                  AllOf(HasSubstr(spoilt.code), HasSubstr(spoilt.says), HasSubstr(module)))
          << spoilt.folder << " " << spoilt.tensor << (keeps_codes ? " as codes" : "");
    }
  }
}

// Scales that are finite, but not what a code becomes in the library's dtype. Products of codes
// make no such number.
TEST(QuantisedWeightsTest, NumbersTooLargeAreNamed) {
  QuantisedFolder awq(QuantisedPath("awq")), compressed(QuantisedPath("w4a16_sym"));
  PutHalf<0x7bff>(awq.Find("q_proj.scales"));
  PutHalf<0x7f70>(compressed.Find("q_proj.weight_scale"));
  for (const QuantisedFolder& folder : {awq, compressed}) {
    EXPECT_THAT(folder.Refusal(),
                AllOf(HasSubstr("DATA_LOSS"), HasSubstr("NaN or Inf"), HasSubstr("q_proj")));
    EXPECT_EQ(folder.Refusal(/*keeps_codes=*/true), "OK");
  }
}

TEST(QuantisedWeightsTest, MissingTensorsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"nf4", kState},
      {"nf4", "q_proj.weight.quant_map"},
      {"nf4", "q_proj.weight.nested_quant_map"},
      {"w4a16_sym", "q_proj.weight_shape"},
      {"w4a16_sym", "q_proj.weight_scale"},
      {"w4a16_asym", "q_proj.weight_zero_point"},
      {"w4a16_gidx", "q_proj.weight_g_idx"},
      {"gptq4_desc_act", "q_proj.g_idx"},
      {"gptq8", "q_proj.qzeros"},
      {"awq", "q_proj.scales"},
  };
  for (const auto& [name, end] : cases) {
    QuantisedFolder folder(QuantisedPath(name));
    folder.Remove(end);
    EXPECT_THAT(folder.Refusal(), AllOf(HasSubstr("NOT_FOUND"), HasSubstr(end))) << name;
  }
  // Without desc_act a writer may leave it out.
  QuantisedFolder folder(QuantisedPath("gptq8"));
  folder.Remove("q_proj.g_idx");
  EXPECT_EQ(folder.Refusal(), "OK");
}

TEST(QuantisedWeightsTest, StatesOfNf4) {
  const std::pair<const char*, std::pair<const char*, const char*>> cases[] = {
      {"\"nf4\"", {"\"fp4\"", "quant_type \"fp4\""}},
      {"\"bfloat16\"", {"\"float8\"", "dtype \"float8\""}},
      {"[256, 256]", {"[256, 255]", "says shape [256, 255]"}},
      {"[256, 256]", {"[65536]", "shape is"}},
      {"\"blocksize\": 64", {"\"blocksize\": 96", "cannot divide by 96"}},
      {"\"blocksize\": 64", {"\"blocksize\": 0", "blocksize is 0"}},
      {"\"nested_dtype\": \"float32\"", {"\"nested_dtype\": \"bfloat16\"", "nested_dtype"}},
      {"\"blocksize\": 64", {"\"blocksize\": 64, \"rotation\": 1", "rotation"}},
      {"{", {"", "q_proj.weight.quant_state"}},
  };
  for (const auto& [from, to] : cases) {
    QuantisedFolder folder(QuantisedPath("nf4"));
    PutText(folder.Find(kState), from, to.first);
    EXPECT_THAT(folder.Refusal(), HasSubstr(to.second)) << from;
  }
  QuantisedFolder fp4(QuantisedPath("nf4"));
  fp4.Find(kState).name = "model.layers.0.self_attn.q_proj.weight.quant_state.bitsandbytes__fp4";
  EXPECT_THAT(fp4.Refusal(), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("FP4")));
  // bnb_4bit_quant_storage: the same bytes by another dtype.
  QuantisedFolder stored(QuantisedPath("nf4"));
  TestTensor& codes = stored.Find("q_proj.weight");
  codes.dtype = "BF16";
  codes.shape[0] /= 2;
  EXPECT_EQ(stored.Refusal(), "OK");
}

TEST(QuantisedWeightsTest, GroupsMustBeEvenWhereTheLibrarySorts) {
  QuantisedFolder folder(QuantisedPath("w4a16_gidx"));
  TestTensor& groups = folder.Find("q_proj.weight_g_idx");
  int32_t first = 0;
  std::memcpy(&first, groups.data.data(), sizeof(first));
  for (size_t i = 1; i < 256; ++i) {
    int32_t other = 0;
    std::memcpy(&other, groups.data.data() + 4 * i, sizeof(other));
    if (other == first) continue;
    std::memcpy(groups.data.data(), &other, sizeof(other));
    break;
  }
  EXPECT_THAT(folder.Refusal(),
              AllOf(HasSubstr("q_proj.weight_g_idx"), HasSubstr("inputs into group")));
}

// Zero points of one byte each, as other versions of the library write them.
TEST(QuantisedWeightsTest, ZeroPointsThatAreNotPacked) {
  ThreadPool threads(1);
  Stream stream{Device{}, &threads};
  const QuantisedFolder packed(QuantisedPath("w4a16_asym"));
  QuantisedFolder plain = packed;
  for (TestTensor& tensor : plain.tensors) {
    if (!tensor.name.ends_with("weight_zero_point")) continue;
    const int64_t words = tensor.shape[0];
    const int64_t groups = tensor.shape[1];
    std::string bytes(static_cast<size_t>(words * 8 * groups), '\0');
    for (int64_t i = 0; i < words * 8 * groups; ++i) {
      const int64_t row = i / groups;
      uint32_t word = 0;
      std::memcpy(&word, tensor.data.data() + 4 * (row / 8 * groups + i % groups), sizeof(word));
      bytes[static_cast<size_t>(i)] =
          static_cast<char>(static_cast<int32_t>((word >> (row % 8 * 4)) & 15u) - 8);
    }
    tensor = {tensor.name, "I8", {words * 8, groups}, bytes};
  }
  EXPECT_EQ(ProductsOf(*plain.Load(stream), stream), ProductsOf(*packed.Load(stream), stream));
  plain.Find("q_proj.weight_zero_point").data[5] = 8;
  EXPECT_THAT(plain.Refusal(), AllOf(HasSubstr("DATA_LOSS"), HasSubstr("q_proj.weight_zero_point"),
                                     HasSubstr("zero point 8 at 5")));
}

// Int4 in groups of 32 by the middle of the codes, as compressed-tensors packs it.
void Quantise(TestTensor weight, std::vector<TestTensor>* out) {
  const std::string module = weight.name.substr(0, weight.name.size() - 7);
  const int64_t n = weight.shape[0];
  const int64_t k = weight.shape[1];
  std::vector<uint32_t> words(static_cast<size_t>(n * k / 8), 0);
  std::vector<uint16_t> scales(static_cast<size_t>(n * k / 32));
  const auto* const numbers = reinterpret_cast<const Bfloat16*>(weight.data.data());
  for (int64_t group = 0; group < n * k / 32; ++group) {
    float largest = 1e-3f;
    for (int64_t i = 0; i < 32; ++i) {
      largest = std::max(largest, std::fabs(ToFloat(numbers[group * 32 + i])));
    }
    const Bfloat16 scale = FromFloat<Bfloat16>(largest / 7.0f);
    scales[static_cast<size_t>(group)] = scale.bits;
    for (int64_t i = group * 32; i < group * 32 + 32; ++i) {
      const auto code = static_cast<uint32_t>(
          std::clamp(std::lround(ToFloat(numbers[i]) / ToFloat(scale)), -8l, 7l) + 8);
      words[static_cast<size_t>(i / 8)] |= code << (i % 8 * 4);
    }
  }
  out->push_back({module + ".weight_packed", "I32", {n, k / 8}, testing::BytesOf(words)});
  out->push_back({module + ".weight_scale", "BF16", {n, k / 32}, testing::BytesOf(scales)});
  out->push_back({module + ".weight_shape", "I64", {2}, testing::BytesOf(weight.shape)});
}

// Phi-3 stacks q, k, v and gate, up, and each is one quantised weight.
TEST(QuantisedWeightsTest, FusedProjections) {
  ThreadPool threads(2);
  Stream stream{Device{}, &threads};
  QuantisedFolder folder(SourcePath("tests/goldens/phi3-partial-rotary"));
  std::vector<TestTensor> tensors;
  for (const TestTensor& tensor : folder.tensors) {
    if (tensor.name.ends_with("_proj.weight")) {
      ASSERT_EQ(tensor.dtype, "BF16");
      Quantise(tensor, &tensors);
    } else {
      tensors.push_back(tensor);
    }
  }
  folder.tensors = tensors;
  folder.config["quantization_config"] =
      QuantisedFolder(QuantisedPath("w4a16_sym")).config["quantization_config"];
  folder.quantisation()["config_groups"]["group_0"]["weights"]["group_size"] = 32;
  const QuantisedFolder twin = folder.Twin();
  for (const Shard& shard : {Shard{0, 1}, Shard{0, 2}, Shard{1, 2}}) {
    const Result<ModelWeights> codes = folder.Load(stream, shard);
    ASSERT_TRUE(codes.ok()) << codes.status().ToString();
    EXPECT_EQ(ProductsOf(*codes, stream), ProductsOf(*twin.Load(stream, shard), stream));
  }
}

// A matrix of 16-bit numbers.
void Transpose(TestTensor* tensor) {
  const int64_t rows = tensor->shape[0], columns = tensor->shape[1];
  const std::string from = tensor->data;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      std::memcpy(tensor->data.data() + 2 * (column * rows + row),
                  from.data() + 2 * (row * columns + column), 2);
    }
  }
  std::swap(tensor->shape[0], tensor->shape[1]);
}

// Rows and columns that the plain file has in another order than kernels read: GPT-2's Conv1D,
// which libraries quantise as the Linear that does the same, and GPT-NeoX' heads.
TEST(QuantisedWeightsTest, OtherOrdersBecomeNumbers) {
  ThreadPool threads(2);
  Stream stream{Device{}, &threads};
  for (const std::string name : {"gpt2", "gpt-neox"}) {
    SCOPED_TRACE(name);
    QuantisedFolder plain(SourcePath("tests/goldens/" + name));
    QuantisedFolder linear = plain;
    CodesOfFiles plan{
        .format = WeightFormat::Integers(DType::kBF16, 8, 32), .weights = {}, .head = "lm_head"};
    for (TestTensor& tensor : linear.tensors) {
      const bool is_of_layer = tensor.name.find(".attn.c") != std::string::npos ||
                               tensor.name.find(".mlp.c") != std::string::npos ||
                               tensor.name.find(".attention.") != std::string::npos;
      if (!is_of_layer || !tensor.name.ends_with(".weight")) continue;
      if (name == "gpt2") Transpose(&tensor);
      plan.weights.insert(tensor.name);
    }
    const TempDir from, to;
    linear.Write(from.path());
    const SafetensorsSet base = *SafetensorsSet::Open(from.path());
    NewFile file(to.File("model.safetensors"), 0600);
    std::set<std::string> written;
    ASSERT_TRUE(WriteCodesFile(base, base.files()[0], plan, file, threads, written).ok());
    linear.config["quantization_config"] = QuantizationConfigOf(plan);
    WriteFile(to.File("config.json"), linear.config.dump());

    const ModelConfig config = *LoadModelConfig(to.path());
    ServedTypes types = TypesOf(DType::kF32);
    types.keeps_codes = true;
    const Result<ModelWeights> codes = LoadWeights(to.path(), config, types, stream);
    ASSERT_TRUE(codes.ok()) << codes.status().ToString();
    const MatrixFormats formats(config, types);
    EXPECT_TRUE(codes->layers[0].qkv.format().is_plain());
    EXPECT_TRUE(formats.Of(0, LayerProduct::kQkv).is_plain());
    EXPECT_EQ(codes->layers[0].o.format().is_plain(), name == "gpt2");
    EXPECT_EQ(formats.Of(0, LayerProduct::kO).is_plain(), name == "gpt2");
    const std::vector<float> found = ProductsOf(*codes, stream);
    const double error = RelativeError(found, ProductsOf(*plain.Load(stream), stream));
    EXPECT_LT(error, 0.02);
    EXPECT_GT(error, 0.0) << "there are codes";
  }
}

TEST(QuantisedWeightsTest, ShapesThatDoNotDivide) {
  QuantisedFolder compressed(QuantisedPath("w4a16_sym"));
  compressed.quantisation()["config_groups"]["group_0"]["weights"]["group_size"] = 96;
  EXPECT_THAT(compressed.Refusal(),
              AllOf(HasSubstr("q_proj has 256 inputs"), HasSubstr("cannot divide by 96")));
  QuantisedFolder gptq(QuantisedPath("gptq8"));
  gptq.quantisation()["group_size"] = 96;
  EXPECT_THAT(gptq.Refusal(), AllOf(HasSubstr("q_proj has 128 inputs"), HasSubstr("by 96")));
  // Words that more outputs would fill.
  QuantisedFolder awq(QuantisedPath("awq"));
  awq.config["intermediate_size"] = 252;
  EXPECT_THAT(awq.Refusal(), AllOf(HasSubstr("gate_proj has 252 outputs"), HasSubstr("by 8")));
}

// v1 and v2 are told apart by the config alone; of a symmetric weight a wrong one is seen.
TEST(QuantisedWeightsTest, LayoutsOfGptq) {
  QuantisedFolder folder(QuantisedPath("gptq8"));
  folder.quantisation()["checkpoint_format"] = "gptq_v2";
  EXPECT_THAT(folder.Refusal(), AllOf(HasSubstr("q_proj.qzeros"), HasSubstr("zero point 127"),
                                      HasSubstr("checkpoint_format")));
  folder.quantisation().erase("checkpoint_format");
  EXPECT_EQ(folder.Refusal(), "OK");
}

}  // namespace quantised_weights_test
}  // namespace graft
