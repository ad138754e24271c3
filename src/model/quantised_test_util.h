// What tests of quantised checkpoints share: a folder of tests/goldens/quantised in memory, to be
// spoilt and written, its twin of plain numbers, and weights as numbers that can be compared. For
// tests only.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "model/model_test_util.h"
#include "model/quantised_source.h"
#include "model/weights.h"
#include "tensor/cuda_memory.h"

namespace graft::testing {

inline std::string QuantisedPath(const std::string& name) {
  return SourcePath("tests/goldens/quantised/" + name);
}

// All that libraries wrote.
inline constexpr const char* kQuantisedFolders[] = {
    "nf4",         "nf4_single_skip", "nf4_fp16", "w4a16_sym", "w4a16_asym",   "w4a16_gidx",
    "w4a16_w8a16", "gptq4_desc_act",  "gptq4_v2", "gptq8",     "gptq_dynamic", "awq"};

class QuantisedFolder {
 public:
  explicit QuantisedFolder(const std::string& path)
      : config(*ParseJsonFile(path + "/config.json")) {
    const SafetensorsFile file = *SafetensorsFile::Open(path + "/model.safetensors");
    for (const auto& [name, entry] : file.entries()) {
      const std::span<const char> bytes = *file.Bytes(name);
      tensors.push_back({name, entry.dtype, entry.shape, std::string(bytes.begin(), bytes.end())});
    }
  }

  // The tensor with this end of its name, which one has.
  TestTensor& Find(std::string_view end) {
    for (TestTensor& tensor : tensors) {
      if (tensor.name.ends_with(end)) return tensor;
    }
    CHECK(false) << end;
    __builtin_unreachable();
  }
  void Remove(std::string_view end) {
    CHECK(std::erase_if(tensors, [&](const TestTensor& one) { return one.name.ends_with(end); }))
        << end;
  }
  Json& quantisation() { return config["quantization_config"]; }

  void Write(const std::string& dir) const {
    WriteFile(dir + "/config.json", config.dump());
    WriteFile(dir + "/model.safetensors", SafetensorsBytes(tensors));
  }
  // `keeps_codes`: the codes of matrices that kernels take stay codes.
  Result<ModelWeights> Load(Stream& stream, const Shard& shard = {},
                            bool keeps_codes = false) const {
    const TempDir dir;
    Write(dir.path());
    const Result<ModelConfig> read = LoadModelConfig(dir.path());
    if (!read.ok()) return read.status();
    const Device& device = stream.device;
    const DType dtype = device.is_cpu() ? ServingDType(*read, std::nullopt, {}) : DType::kBF16;
    ServedTypes types = TypesOf(dtype, device);
    types.keeps_codes = keeps_codes;
    return LoadWeights(dir.path(), *read, types, stream, {}, shard);
  }
  std::string Refusal(bool keeps_codes = false) const {
    ThreadPool threads(2);
    Stream stream{Device{}, &threads};
    return Load(stream, {}, keeps_codes).status().ToString();
  }

  // The same model with the numbers that the codes stand for.
  QuantisedFolder Twin() const {
    const TempDir dir;
    Write(dir.path());
    const ModelConfig read = *LoadModelConfig(dir.path());
    ThreadPool threads(1);
    Stream stream{Device{}, &threads};
    const SafetensorsSet files = *SafetensorsSet::Open(dir.path());
    FileSource plain(files, stream);
    const std::unique_ptr<QuantisedSource> source =
        std::move(*QuantisedSource::Make(plain, *read.quantisation, stream));
    QuantisedFolder twin = *this;
    twin.config.erase("quantization_config");
    for (const StoredProjection& projection : StoredProjections(read)) {
      const LoraModuleShape shape = ShapeOfStoredProjection(read, projection);
      for (int32_t layer = 0; layer < read.num_layers; ++layer) {
        const std::string module = LoraModulePath(read, layer, projection.first);
        const TensorView numbers = *source->Get(module + ".weight", {shape.out, shape.in});
        std::erase_if(twin.tensors, [&](const TestTensor& one) {
          return one.name.starts_with(module + ".") && !one.name.ends_with(".bias");
        });
        const char* const bytes = static_cast<const char*>(numbers.data);
        twin.tensors.push_back({module + ".weight",
                                numbers.dtype == DType::kF32    ? "F32"
                                : numbers.dtype == DType::kBF16 ? "BF16"
                                                                : "F16",
                                numbers.shape, std::string(bytes, bytes + numbers.bytes())});
      }
    }
    return twin;
  }

  Json config;
  std::vector<TestTensor> tensors;
};

// What the model's products make of inputs that tell all columns apart, and that bf16 holds.
inline std::vector<float> ProductsOf(const ModelWeights& weights, Stream& stream) {
  std::vector<float> all;
  const bool on_cpu = stream.device.is_cpu();
  const auto add = [&](const GemmWeight& weight) {
    constexpr int64_t kRows = 2;
    const int64_t num_inputs = kRows * weight.k(), num_outputs = kRows * weight.n();
    PinnedBuffer x(num_inputs * int64_t{sizeof(float)}), y(num_outputs * int64_t{sizeof(float)});
    for (int64_t i = 0; i < num_inputs; ++i) {
      const auto value = static_cast<float>(i * 79 % 251) / 256.0f;
      if (on_cpu) {
        x.as<float>()[i] = value;
      } else {
        x.as<Bfloat16>()[i] = FromFloat<Bfloat16>(value);
      }
    }
    Buffer room(GemmRoomBytes(kRows, weight.n(), weight.k(), weight.format(), stream.device),
                stream.device);
    Gemm({.x = x.as<char>(),
          .x_stride = weight.k(),
          .m = kRows,
          .weight = &weight,
          .y = y.as<float>(),
          .y_stride = weight.n(),
          .x_is_fp32 = on_cpu,
          .room = {room.data(), room.bytes()}},
         stream);
    Synchronize(stream);
    all.insert(all.end(), y.as<float>(), y.as<float>() + num_outputs);
  };
  for (const LayerWeights& layer : weights.layers) {
    for (const GemmWeight* weight : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) {
      add(*weight);
    }
  }
  add(weights.lm_head);
  return all;
}

// The root mean square of what they differ by, over that of what is expected.
inline double RelativeError(const std::vector<float>& found, const std::vector<float>& expected) {
  double error = 0.0, size = 0.0;
  CHECK_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

}  // namespace graft::testing
