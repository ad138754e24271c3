#include "adapters/lora_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "adapters/lora_check.h"
#include "adapters/peft_folder.h"
#include "base/file.h"
#include "base/unwanted_work.h"
#include "layers/lora_store.h"
#include "tensor/stream.h"

namespace graft {
namespace lora_weights_test {

using ::testing::AllOf;
using testing::BytesOf;
using testing::FileOf;
using testing::FindTensor;
using ::testing::HasSubstr;
using testing::LoraTestTensors;
using ::testing::Not;
using testing::OddModel;
using testing::Peft;
using testing::SafetensorsBytes;
using testing::SourcePath;
using testing::TestTensor;

const char kQa[] = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight";
const char kQb[] = "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight";

constexpr std::string_view kAllRanks =
    R"("target_modules": "all-linear", "r": 5, "lora_alpha": 7,
       "rank_pattern": {"q_proj": 1, "k_proj": 16, "v_proj": 17, "up_proj": 33, "down_proj": 256},
       "alpha_pattern": {"o_proj": -3})";

// Loads adapters of q and v of the odd model from tensors in which a test has spoiled something.
// Returns the error.
std::string Refusal(const std::vector<TestTensor>& tensors, DType dtype = DType::kF32) {
  const Result<LoraWeights> weights = LoraWeights::Load(FileOf(tensors), Peft(), OddModel(), dtype);
  return weights.ok() ? "accepted" : weights.status().ToString();
}

std::vector<TestTensor> QvTensors(const std::string& dtype = "F32") {
  return LoraTestTensors(Peft(), OddModel(), dtype);
}

float FloatAt(const TensorView& tensor, int64_t i) {
  float value = 0.0f;
  ConvertElements(tensor.dtype,
                  static_cast<const char*>(tensor.data) + i * DTypeBytes(tensor.dtype), DType::kF32,
                  &value, 1);
  return value;
}

float FloatAt(const void* row, DType dtype, int64_t i) {
  return FloatAt(TensorView{row, dtype, {i + 1}}, i);
}

float Rounded(float value, DType dtype) {
  return dtype == DType::kBF16 ? ToFloat(FromFloat<Bfloat16>(value)) : value;
}

TEST(LoraWeightsTest, HoldsTheFilesValuesFromAnyDtypeToAny) {
  const ModelConfig model = OddModel();
  const PeftConfig peft = Peft(kAllRanks);
  for (const std::string from : {"F32", "BF16", "F16"}) {
    const SafetensorsFile file = FileOf(LoraTestTensors(peft, model, from));
    for (const DType to : {DType::kF32, DType::kBF16}) {
      const Result<LoraWeights> weights = LoraWeights::Load(file, peft, model, to);
      ASSERT_TRUE(weights.ok()) << weights.status().ToString();
      EXPECT_EQ(weights->dtype(), to);
      EXPECT_EQ(weights->rank_max(), 256);
      EXPECT_EQ(weights->targets().size(), 21u);
      for (const LoraTarget& target : weights->targets()) {
        const LoraMatrix& matrix = weights->matrix(target.layer, target.module);
        ASSERT_EQ(matrix.rank, target.rank);
        ASSERT_EQ(matrix.scale, target.scale);
        const TensorView a =
            *file.Tensor(LoraTensorName(model, target.layer, target.module, LoraSide::kA));
        const TensorView b =
            *file.Tensor(LoraTensorName(model, target.layer, target.module, LoraSide::kB));
        const int64_t in = a.shape[1];
        for (int64_t j = 0; j < target.rank; ++j) {
          ASSERT_EQ(reinterpret_cast<uintptr_t>(matrix.a_rows[j]) % 64, 0u);
          ASSERT_EQ(reinterpret_cast<uintptr_t>(matrix.b_rows[j]) % 64, 0u);
          for (int64_t i = 0; i < in; ++i) {
            ASSERT_EQ(FloatAt(matrix.a_rows[j], to, i), Rounded(FloatAt(a, j * in + i), to));
          }
          for (int64_t o = 0; o < b.shape[0]; ++o) {
            ASSERT_EQ(FloatAt(matrix.b_rows[j], to, o),
                      Rounded(FloatAt(b, o * target.rank + j), to));
          }
        }
      }
    }
  }
}

TEST(LoraWeightsTest, ModulesLeftAloneHaveRankZeroAndPointersHoldAfterAMove) {
  const SafetensorsFile file = FileOf(QvTensors());
  LoraWeights first = *LoraWeights::Load(file, Peft(), OddModel(), DType::kF32);
  const void* const row = first.matrix(1, LoraModule::kQ).a_rows[0];
  const LoraWeights weights = std::move(first);
  EXPECT_EQ(weights.matrix(1, LoraModule::kQ).a_rows[0], row);
  EXPECT_EQ(FloatAt(row, DType::kF32, 3), FloatAt(*file.Tensor(kQa), 3));
  ASSERT_EQ(weights.matrices().size(), 21u + kHeadBlocksMax);
  for (const LoraModule module : kAllLoraModules) {
    const bool adapted = module == LoraModule::kQ || module == LoraModule::kV;
    EXPECT_EQ(weights.matrix(2, module).rank, adapted ? 4 : 0);
  }
  // Rows of A and of B^T take whole units of 64 bytes (they have 21, and 10 or 30 floats). Then
  // come their pointers, then the table.
  const int64_t rows = 3 * 4 * (128 + 128 + 128 + 64);
  EXPECT_EQ(weights.bytes(),
            rows + 3 * 2 * 2 * 4 * 8 + (21 + kHeadBlocksMax) * int64_t{sizeof(LoraMatrix)});
}

// Compares x + scale * B A x from the kernels with plain loops in double over the file's tensors.
TEST(LoraWeightsTest, KernelsComputeTheAdapter) {
  const ModelConfig model = OddModel();
  const PeftConfig peft = Peft(kAllRanks);
  const SafetensorsFile file = FileOf(LoraTestTensors(peft, model, "F32", 5));
  ThreadPool pool(2);
  Stream stream{Device{}, &pool};
  constexpr int32_t kRows = 5;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const LoraWeights weights = *LoraWeights::Load(file, peft, model, dtype);
    for (const LoraTarget& target : weights.targets()) {
      SCOPED_TRACE(LoraModulePath(model, target.layer, target.module));
      const auto [in, out] = ShapeOfLoraModule(model, target.module);
      Random random(9);
      std::vector<float> x(kRows * in), y(kRows * out), h(kRows * target.rank);
      for (float& value : x) value = Rounded(static_cast<float>(random.Normal()), dtype);
      for (float& value : y) value = static_cast<float>(random.Normal());
      const std::vector<float> before = y;
      Buffer x_bytes(kRows * in * DTypeBytes(dtype));
      ConvertElements(DType::kF32, x.data(), dtype, x_bytes.data(), kRows * in);
      const LoraSegment segment{1, kRows, 0};  // row 0 belongs to the base
      LoraArgs args;
      args.dtype = dtype;
      args.segments = &segment;
      args.num_segments = 1;
      args.matrices = &weights.matrix(target.layer, target.module);
      args.matrices_stride = 1;
      args.x = x_bytes.data();
      args.x_stride = args.k = in;
      args.h = h.data();
      args.h_stride = target.rank;
      args.num_rows = kRows;
      args.y = y.data();
      args.y_stride = args.slice_n[0] = out;
      LoraShrink(args, stream);
      LoraExpand(args, stream);

      const TensorView a =
          *file.Tensor(LoraTensorName(model, target.layer, target.module, LoraSide::kA));
      const TensorView b =
          *file.Tensor(LoraTensorName(model, target.layer, target.module, LoraSide::kB));
      const double alpha = target.module == LoraModule::kO ? -3.0 : 7.0;
      for (int64_t row = 0; row < kRows; ++row) {
        std::vector<double> ax(target.rank, 0.0);
        for (int64_t j = 0; j < target.rank; ++j) {
          for (int64_t i = 0; i < in; ++i) {
            ax[j] += double{Rounded(FloatAt(a, j * in + i), dtype)} * x[row * in + i];
          }
        }
        for (int64_t o = 0; o < out; ++o) {
          double delta = 0.0;
          for (int64_t j = 0; j < target.rank; ++j) {
            delta += double{Rounded(FloatAt(b, o * target.rank + j), dtype)} * ax[j];
          }
          const double expected =
              before[row * out + o] + (row > 0 ? alpha / target.rank * delta : 0.0);
          ASSERT_NEAR(y[row * out + o], expected, 1e-4) << "row " << row << " column " << o;
        }
      }
    }
  }
}

TEST(LoraWeightsTest, EveryDemoAdapterLoadsInBothDtypes) {
  const ModelConfig model = *LoadModelConfig(SourcePath("demo/base"));
  for (const std::string name : {"austen", "doyle", "wells", "burroughs", "montgomery", "lovecraft",
                                 "wodehouse", "carroll"}) {
    PeftFolder folder = *ReadPeftFolder(SourcePath("demo/adapters/" + name), 1 << 30);
    const PeftConfig peft = *ParsePeftConfig(folder.config);
    const SafetensorsFile file = *SafetensorsFile::FromBytes(std::move(folder.weights), name);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Result<LoraWeights> weights = LoraWeights::Load(file, peft, model, dtype);
      ASSERT_TRUE(weights.ok()) << weights.status().ToString();
      EXPECT_EQ(weights->targets().size() * 2, file.entries().size());
    }
  }
}

TEST(LoraWeightsTest, TensorNamesWithTheAdaptersName) {
  std::vector<TestTensor> tensors = QvTensors();
  FindTensor(tensors, kQa).name =
      "base_model.model.model.layers.1.self_attn.q_proj.lora_A.default.weight";
  EXPECT_EQ(Refusal(tensors), "accepted");
  // The file has one matrix under both spellings of its name.
  tensors.push_back({kQa, "F32", {4, 21}, std::string(4 * 21 * 4, '\0')});
  EXPECT_THAT(Refusal(tensors),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr(kQa),
                    HasSubstr("q_proj.lora_A.default.weight"), HasSubstr("the same matrix twice")));
}

TEST(LoraWeightsTest, TwoTensorsOfOneName) {
  const std::string one = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string two = R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})";
  const Result<SafetensorsFile> file = SafetensorsFile::FromBytes(
      testing::WithHeader("{\"" + std::string(kQa) + "\":" + one + ",\"" + kQa + "\":" + two + "}",
                          std::string(8, '\0')),
      "adapter_model.safetensors");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), AllOf(HasSubstr(kQa), HasSubstr("twice")));
}

TEST(LoraWeightsTest, ATruncatedFileIsRefusedWhereverItEnds) {
  const std::string bytes = SafetensorsBytes(QvTensors());
  for (size_t size = 0; size < bytes.size(); size += size < 2000 ? 1 : 97) {
    const Result<SafetensorsFile> file =
        SafetensorsFile::FromBytes(bytes.substr(0, size), "adapter_model.safetensors");
    ASSERT_FALSE(file.ok()) << size;
    ASSERT_THAT(file.status().message(), HasSubstr("adapter_model.safetensors"));
  }
}

TEST(LoraWeightsTest, MissingTensorsAreNamed) {
  for (const std::string missing : {kQa, kQb}) {
    std::vector<TestTensor> tensors = QvTensors();
    std::erase_if(tensors, [&](const TestTensor& tensor) { return tensor.name == missing; });
    EXPECT_THAT(Refusal(tensors),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("\"" + missing + "\" is missing")));
  }
  EXPECT_THAT(Refusal({}), HasSubstr("layers.0.self_attn.q_proj.lora_A.weight\" is missing"));
}

TEST(LoraWeightsTest, TensorsThatAreNotAppliedAreNamed) {
  struct Case {
    std::string name;
    std::string why;
  };
  const std::string layer = "base_model.model.model.layers.1.";
  const Case cases[] = {
      {layer + "self_attn.q_proj.lora_magnitude_vector", "DoRA"},
      {layer + "self_attn.q_proj.lora_magnitude_vector.weight", "DoRA"},
      {"base_model.model.model.embed_tokens.lora_embedding_A", "embedding"},
      {"base_model.model.model.embed_tokens.weight", "embedding"},
      {"base_model.model.lm_head.lora_A.weight", "does not target"},
      {"base_model.model.lm_head.weight", "lm_head"},
      {"base_model.model.score.modules_to_save.weight", "modules_to_save"},
      {layer + "self_attn.q_proj.lora_B.bias", "bias"},
      {layer + "self_attn.q_proj.bias", "bias"},
      {layer + "mlp.experts.0.up_proj.lora_A.weight", "of a projection of this model"},
      {layer + "self_attn.c_attn.lora_A.weight", "of a projection of this model"},
      {"model.layers.1.self_attn.q_proj.lora_A.weight",
       "rename it to \"" + layer + "self_attn.q_proj.lora_A.weight\""},
      {"base_model.model._orig_mod.model.layers.1.self_attn._orig_mod.q_proj.lora_A.weight",
       "rename it to \"" + layer + "self_attn.q_proj.lora_A.weight\""},
      {"base_model.model.model.language_model.layers.1.self_attn.q_proj.lora_B.weight",
       "rename it to \"" + layer + "self_attn.q_proj.lora_B.weight\""},
      {layer + "self_attn.q_proj.lora_A.other.weight", "of a projection of this model"},
      {layer + "self_attn.k_proj.lora_A.weight", "adapter_config.json does not target"},
      {"base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight",
       "of layer 3, but this model has 3 layers: the adapter was made for another base"},
  };
  for (const Case& c : cases) {
    std::vector<TestTensor> tensors = QvTensors();
    tensors.push_back({c.name, "F32", {4, 21}, std::string(4 * 21 * 4, '\0')});
    EXPECT_THAT(Refusal(tensors), AllOf(HasSubstr("tensor \"" + c.name + "\""), HasSubstr(c.why)));
  }
}

TEST(LoraWeightsTest, WrongShapesAreShownWithWhatIsWanted) {
  struct Case {
    std::vector<int64_t> shape;
    std::string why;
  };
  const auto refusal_of = [](const std::string& name, const std::vector<int64_t>& shape) {
    std::vector<TestTensor> tensors = QvTensors();
    TestTensor& tensor = FindTensor(tensors, name);
    const int64_t n = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    tensor.shape = shape;
    tensor.data = std::string(static_cast<size_t>(n) * 4, '\0');
    return Refusal(tensors);
  };
  // q_proj of the odd model is [30, 21]; the config's rank is 4.
  const Case of_a[] = {{{8, 21}, "does not hold the rank"},
                       {{0, 21}, "does not hold the rank"},
                       {{4, 22}, "made for another base"},
                       {{21, 4}, "made for another base"},
                       {{84}, "not a matrix"},
                       {{4, 21, 1}, "not a matrix"},
                       {{}, "not a matrix"}};
  for (const Case& c : of_a) {
    EXPECT_THAT(refusal_of(kQa, c.shape),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr(kQa), HasSubstr("takes [4, 21]"),
                      HasSubstr("weight [30, 21]"), HasSubstr(c.why)));
  }
  const Case of_b[] = {{{30, 8}, "does not hold the rank"}, {{4, 30}, "made for another base"}};
  for (const Case& c : of_b) {
    EXPECT_THAT(refusal_of(kQb, c.shape),
                AllOf(HasSubstr(kQb), HasSubstr("takes [30, 4]"), HasSubstr(c.why)));
  }
}

TEST(LoraWeightsTest, AnAdapterOfAnotherBaseShowsBothAndTheirShapes) {
  ModelConfig other = OddModel();
  other.hidden_size = 24;
  const std::string refusal = Refusal(LoraTestTensors(Peft(), other));
  EXPECT_THAT(refusal, AllOf(HasSubstr("has shape [4, 24]"), HasSubstr("takes [4, 21]"),
                             HasSubstr("another base"), HasSubstr("it says 'test/base'"),
                             HasSubstr("this one is 'test/odd'")));
  other = OddModel();
  other.num_layers = 2;
  EXPECT_THAT(Refusal(LoraTestTensors(Peft(), other)), HasSubstr("layers.2.self_attn.q_proj"));
}

TEST(LoraWeightsTest, OtherDtypesAreNamed) {
  std::vector<TestTensor> tensors = QvTensors();
  FindTensor(tensors, kQa).dtype = "I32";
  EXPECT_THAT(Refusal(tensors),
              AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(kQa), HasSubstr("I32")));
}

TEST(LoraWeightsTest, ValuesThatAreNotFiniteAreFound) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  struct Case {
    float value;
    std::string named;
  };
  for (const Case& c : {Case{NAN, "NaN"}, Case{kInf, "Inf"}, Case{-kInf, "-Inf"}}) {
    for (const std::string dtype : {"F32", "BF16", "F16"}) {
      for (const DType served : {DType::kF32, DType::kBF16}) {
        // The last element of A, and one in the middle of B.
        for (const auto& [name, at, where] :
             {std::tuple(kQa, 83, "at [3, 20]"), std::tuple(kQb, 4 * 17 + 2, "at [17, 2]")}) {
          std::vector<TestTensor> tensors = QvTensors(dtype);
          const DType type = dtype == "F32"    ? DType::kF32
                             : dtype == "BF16" ? DType::kBF16
                                               : DType::kF16;
          ConvertElements(DType::kF32, &c.value, type,
                          FindTensor(tensors, name).data.data() + at * DTypeBytes(type), 1);
          EXPECT_THAT(Refusal(tensors, served),
                      AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr(name),
                            HasSubstr("holds " + c.named + " " + where)));
        }
      }
    }
  }
}

TEST(LoraWeightsTest, AValueThatOverflowsTheServedDtype) {
  std::vector<TestTensor> tensors = QvTensors();
  const float largest = std::numeric_limits<float>::max();
  std::memcpy(FindTensor(tensors, kQa).data.data(), &largest, sizeof(largest));
  EXPECT_EQ(Refusal(tensors, DType::kF32), "accepted");
  EXPECT_THAT(Refusal(tensors, DType::kBF16),
              AllOf(HasSubstr(kQa), HasSubstr("too large for bf16"), HasSubstr("at [0, 0]")));
}

LoraWeights OddWeights(const std::string& extra) {
  const PeftConfig peft = Peft(extra);
  return *LoraWeights::Load(FileOf(LoraTestTensors(peft, OddModel())), peft, OddModel(),
                            DType::kF32);
}

TEST(LoraStoreTest, SlotsAreSetReplacedAndFreed) {
  LoraStore store(OddModel(), 3);
  EXPECT_EQ(store.adapters_max(), 3);
  EXPECT_EQ(store.matrices_stride(), 21 + kHeadBlocksMax);
  EXPECT_EQ(store.rank_max(), 0);
  EXPECT_EQ(store.bytes(), 0);
  EXPECT_EQ(store.num_loaded(), 0);

  LoraWeights small = OddWeights("");
  LoraWeights large = OddWeights(R"("r": 64, "target_modules": ["k_proj", "down_proj"])");
  const int64_t small_bytes = small.bytes();
  const int64_t large_bytes = large.bytes();
  const LoraMatrix small_v = small.matrix(2, LoraModule::kV);
  const LoraMatrix large_down = large.matrix(1, LoraModule::kDown);

  const LoraMatrix* const table = store.matrices(0, LoraModule::kQ);
  store.Set(2, std::move(small).TakeRows());
  EXPECT_EQ(store.rank_max(), 4);
  EXPECT_EQ(store.bytes(), small_bytes);
  store.Set(0, std::move(large).TakeRows());
  EXPECT_EQ(store.rank_max(), 64);
  EXPECT_EQ(store.bytes(), small_bytes + large_bytes);
  EXPECT_EQ(store.num_loaded(), 2);

  // Looks an entry up as the kernels do: from the base of (layer, module), with slots a stride
  // apart.
  const auto at = [&](int32_t slot, int layer, LoraModule module) {
    return store.matrices(layer, module)[slot * store.matrices_stride()];
  };
  EXPECT_EQ(at(2, 2, LoraModule::kV).a_rows, small_v.a_rows);
  EXPECT_EQ(at(2, 2, LoraModule::kV).scale, 2.0f);
  EXPECT_EQ(at(0, 1, LoraModule::kDown).b_rows, large_down.b_rows);
  EXPECT_EQ(at(0, 1, LoraModule::kQ).rank, 0);
  EXPECT_EQ(at(1, 1, LoraModule::kDown).rank, 0);
  EXPECT_EQ(store.matrices(0, LoraModule::kQ), table);

  store.Set(0, OddWeights(R"("r": 6)").TakeRows());
  EXPECT_EQ(store.rank_max(), 6);
  EXPECT_EQ(at(0, 1, LoraModule::kDown).rank, 0);  // nothing is left of the slot's last adapter
  EXPECT_EQ(at(0, 1, LoraModule::kQ).rank, 6);
  EXPECT_EQ(store.num_loaded(), 2);

  store.Free(0);
  store.Free(0);
  store.Free(1);
  EXPECT_EQ(at(0, 1, LoraModule::kQ).rank, 0);
  EXPECT_EQ(at(0, 1, LoraModule::kQ).a_rows, nullptr);
  EXPECT_EQ(store.rank_max(), 4);
  EXPECT_EQ(store.bytes(), small_bytes);
  EXPECT_EQ(at(2, 2, LoraModule::kV).rank, 4);
  store.Free(2);
  EXPECT_EQ(store.rank_max(), 0);
  EXPECT_EQ(store.bytes(), 0);
  EXPECT_EQ(store.num_loaded(), 0);
}

TEST(LoraStoreTest, SlotsChangeSideBySide) {
  LoraStore store(OddModel(), 4);
  std::vector<std::thread> threads;
  for (int32_t slot = 0; slot < 4; ++slot) {
    threads.emplace_back([&store, slot] {
      for (int round = 0; round < 20; ++round) {
        store.Set(slot, OddWeights(R"("r": )" + std::to_string(slot + 1)).TakeRows());
        EXPECT_EQ(store.rank_of(slot), slot + 1);
        EXPECT_GE(store.rank_max(), slot + 1);
        const LoraMatrix& q = store.matrices(1, LoraModule::kQ)[slot * store.matrices_stride()];
        EXPECT_EQ(q.rank, slot + 1);
        if (round % 2 == 0) store.Free(slot);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store.num_loaded(), 4);
  EXPECT_EQ(store.rank_max(), 4);
  for (int32_t slot = 0; slot < 4; ++slot) store.Free(slot);
  EXPECT_EQ(store.bytes(), 0);
}

TEST(LoraStoreDeathTest, SlotsAndModelsAreChecked) {
  LoraStore store(OddModel(), 1);
  EXPECT_DEATH(store.Free(1), "slot 1 of 1");
  EXPECT_DEATH(store.Set(-1, OddWeights("").TakeRows()), "slot -1 of 1");
  ModelConfig deeper = OddModel();
  deeper.num_layers = 4;
  LoraStore other(deeper, 1);
  EXPECT_DEATH(other.Set(0, OddWeights("").TakeRows()), "an adapter of another model");
}

// The modules of a stacked projection share the rows of one A, and each has a slice of B.
TEST(LoraWeightsTest, FusedProjectionsAreSliced) {
  const ModelConfig model = testing::FusedOddModel();
  const PeftConfig peft =
      Peft(R"("target_modules": ["qkv_proj", "gate_up_proj", "down_proj"], "r": 3)");
  const SafetensorsFile file = FileOf(LoraTestTensors(peft, model));
  const Result<LoraWeights> weights = LoraWeights::Load(file, peft, model, DType::kF32);
  ASSERT_TRUE(weights.ok()) << weights.status().ToString();
  EXPECT_EQ(weights->targets().size(), 18u);
  EXPECT_EQ(weights->matrix(1, LoraModule::kO).rank, 0);
  const TensorView a = *file.Tensor(LoraTensorName(model, 1, LoraModule::kK, LoraSide::kA));
  const TensorView b = *file.Tensor(LoraTensorName(model, 1, LoraModule::kK, LoraSide::kB));
  EXPECT_THAT(b.shape, ::testing::ElementsAre(50, 3));
  int64_t row = 0;
  for (const LoraModule module : {LoraModule::kQ, LoraModule::kK, LoraModule::kV}) {
    const LoraMatrix& matrix = weights->matrix(1, module);
    EXPECT_EQ(matrix.a_rows, weights->matrix(1, LoraModule::kQ).a_rows);
    EXPECT_EQ(matrix.rank, 3);
    for (int64_t j = 0; j < 3; ++j) {
      EXPECT_EQ(FloatAt(matrix.a_rows[j], DType::kF32, 20), FloatAt(a, j * 21 + 20));
      const int64_t out = ShapeOfLoraModule(model, module).out;
      for (int64_t o = 0; o < out; ++o) {
        ASSERT_EQ(FloatAt(matrix.b_rows[j], DType::kF32, o), FloatAt(b, (row + o) * 3 + j));
      }
    }
    row += ShapeOfLoraModule(model, module).out;
  }
  // Rows of A and B^T take whole units of 64 bytes: qkv has 128 + 128 + 64 + 64, gate_up 128 + 192
  // + 192, down 192 + 128.
  EXPECT_EQ(weights->buffer().bytes(), 3 * 3 * (384 + 512 + 320));
  EXPECT_TRUE(SelfTestLora(file, peft, model, *weights).ok());
}

// GPT-NeoX: B's rows are q, k and v of one head after the other, and modules share A.
TEST(LoraWeightsTest, RowsThatLieHeadByHeadAreGathered) {
  const ModelConfig model = *LoadModelConfig(SourcePath("tests/goldens/gpt-neox"));
  const PeftConfig peft = Peft(R"("r": 3, "target_modules": ["query_key_value"])");
  const std::vector<TestTensor> tensors = LoraTestTensors(peft, model);
  const SafetensorsFile file = FileOf(tensors);
  const Result<LoraWeights> weights = LoraWeights::Load(file, peft, model, DType::kF32);
  ASSERT_TRUE(weights.ok()) << weights.status().ToString();
  const TensorView b =
      *file.Tensor("base_model.model.gpt_neox.layers.1.attention.query_key_value.lora_B.weight");
  ASSERT_EQ(b.shape, (std::vector<int64_t>{96, 3}));
  for (int module = 0; module < 3; ++module) {
    const LoraMatrix& matrix = weights->matrix(1, static_cast<LoraModule>(module));
    EXPECT_EQ(matrix.a_rows, weights->matrix(1, LoraModule::kQ).a_rows);
    for (int64_t head = 0; head < 2; ++head) {
      for (int64_t i = 0; i < 16; ++i) {
        const int64_t row = (head * 3 + module) * 16 + i;
        for (int64_t j = 0; j < 3; ++j) {
          ASSERT_EQ(FloatAt(matrix.b_rows[j], DType::kF32, head * 16 + i), FloatAt(b, row * 3 + j));
        }
      }
    }
  }
  EXPECT_EQ(SelfTestLora(file, peft, model, *weights).message(), "");
}

TEST(LoraWeightsTest, FusedProjectionsAreRefusedByTheirNames) {
  const ModelConfig model = testing::FusedOddModel();
  const PeftConfig peft = Peft(R"("target_modules": ["qkv_proj"])");
  std::vector<TestTensor> tensors = LoraTestTensors(peft, model);
  const auto refusal = [&] {
    const Result<LoraWeights> weights =
        LoraWeights::Load(FileOf(tensors), peft, model, DType::kF32);
    return weights.ok() ? "accepted" : weights.status().ToString();
  };
  EXPECT_EQ(refusal(), "accepted");
  TestTensor& b = FindTensor(tensors, LoraTensorName(model, 0, LoraModule::kQ, LoraSide::kB));
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(b.data.data() + (45 * 4 + 2) * 4, &infinity, 4);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("qkv_proj.lora_B"), HasSubstr("[45, 2]")));
  b.shape = {30, 4};
  b.data.resize(30 * 4 * 4);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("qkv_proj"), HasSubstr("[50, 4]")));
  b.name = "x";
  EXPECT_THAT(refusal(), HasSubstr("qkv_proj"));
}

TEST(LoraWeightsTest, UnwantedPackingEnds) {
  const ModelConfig model = OddModel();
  const PeftConfig peft = Peft(R"("target_modules": "all-linear", "r": 6)");
  const std::vector<TestTensor> tensors = LoraTestTensors(peft, model, "F32");
  const std::atomic<bool> is_unwanted = true;
  const WatchedWork watched(is_unwanted);
  WorkCrew several(4);
  for (WorkCrew* const crew : {static_cast<WorkCrew*>(nullptr), &several}) {
    EXPECT_EQ(LoraWeights::Load(FileOf(tensors), peft, model, DType::kF32, crew).status().code(),
              StatusCode::kCancelled);
  }
}

// Which thread packs a module makes no difference, and of several bad values the first is named.
TEST(LoraWeightsTest, ACrewPacksTheSame) {
  const ModelConfig model = OddModel();
  const PeftConfig peft = Peft(R"("target_modules": "all-linear", "r": 6)");
  WorkCrew crew(4);
  for (const std::string from : {"F32", "BF16", "F16"}) {
    const std::vector<TestTensor> tensors = LoraTestTensors(peft, model, from);
    for (const DType to : {DType::kF32, DType::kBF16}) {
      const LoraWeights alone = *LoraWeights::Load(FileOf(tensors), peft, model, to);
      const LoraWeights helped = *LoraWeights::Load(FileOf(tensors), peft, model, to, &crew);
      ASSERT_EQ(alone.buffer().bytes(), helped.buffer().bytes());
      EXPECT_EQ(std::memcmp(alone.buffer().data(), helped.buffer().data(),
                            static_cast<size_t>(alone.buffer().bytes())),
                0);
    }
  }
  std::vector<TestTensor> tensors = LoraTestTensors(peft, model, "F32");
  const float infinity = std::numeric_limits<float>::infinity();
  for (TestTensor& tensor : tensors) {
    if (tensor.name.find("layers.0.self_attn.q_proj") != std::string::npos) continue;
    std::memcpy(tensor.data.data(), &infinity, sizeof(infinity));
  }
  const Status alone = LoraWeights::Load(FileOf(tensors), peft, model, DType::kF32).status();
  EXPECT_EQ(alone.code(), StatusCode::kInvalidArgument);
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(
        LoraWeights::Load(FileOf(tensors), peft, model, DType::kF32, &crew).status().message(),
        alone.message());
  }
}

}  // namespace lora_weights_test
}  // namespace graft
