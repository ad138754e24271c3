// What the adapter tests share: a small model of odd sizes, and adapters for it made by hand. Test
// code only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "adapters/lora_weights.h"
#include "adapters/peft_config.h"
#include "adapters/peft_modules.h"
#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "model/config.h"
#include "model/model_test_util.h"
#include "model/safetensors.h"

namespace graft::testing {

// Only k and v, and gate and up, have the same shape. No size is a multiple of a SIMD register.
inline ModelConfig OddModel() {
  ModelConfig config;
  config.name_or_path = "test/odd";
  config.vocab_size = 11;
  config.hidden_size = 21;
  config.intermediate_size = 37;
  config.num_layers = 3;
  config.num_heads = 3;
  config.num_kv_heads = 1;
  config.head_dim = 10;
  config.context_tokens_max = 16;
  config.SetPlainLayers();
  return config;
}

// OddModel with q, k, v and gate, up stacked, as Phi-3's checkpoints have them.
inline ModelConfig FusedOddModel() {
  ModelConfig config = OddModel();
  config.architecture = Architecture::kPhi3;
  return config;
}

// A config with rank 4 and scale 2 on q and v and nothing else. `extra` ("key": value, ...)
// overrides it.
inline std::string PeftJson(std::string_view extra = "") {
  OrderedJson json = OrderedJson::parse(R"({"peft_type": "LORA", "task_type": "CAUSAL_LM",
      "base_model_name_or_path": "test/base", "r": 4, "lora_alpha": 8,
      "target_modules": ["q_proj", "v_proj"]})");
  json.update(OrderedJson::parse("{" + std::string(extra) + "}"));
  return json.dump();
}

inline PeftConfig Peft(std::string_view extra = "") { return *ParsePeftConfig(PeftJson(extra)); }

inline std::string RandomElements(const std::string& dtype, int64_t n, Random& random) {
  std::vector<float> values(n);
  for (float& value : values) value = 0.2f * static_cast<float>(random.Normal());
  if (dtype == "F32") return BytesOf(values);
  CHECK(dtype == "BF16" || dtype == "F16") << dtype;
  std::string bytes(static_cast<size_t>(n) * 2, '\0');
  ConvertElements(DType::kF32, values.data(), dtype == "F16" ? DType::kF16 : DType::kBF16,
                  bytes.data(), n);
  return bytes;
}

// Random A and B of every module that the config targets, sorted by name.
inline std::vector<TestTensor> LoraTestTensors(const PeftConfig& peft, const ModelConfig& model,
                                               const std::string& dtype = "F32",
                                               uint64_t seed = 1) {
  Random random(seed);
  std::vector<TestTensor> tensors;
  const std::vector<LoraTarget> targets = *ResolveLoraTargets(peft, model);
  for (const LoraTarget& target : targets) {
    if (OwnerOfA(model, target.layer, target.module) != target.module) continue;
    const LoraModuleShape shape = ShapeOfStoredWeight(model, target.layer, target.module);
    for (const LoraSide side : {LoraSide::kA, LoraSide::kB}) {
      const std::vector<int64_t> dims = side == LoraSide::kA
                                            ? std::vector<int64_t>{target.rank, shape.in}
                                            : std::vector<int64_t>{shape.out, target.rank};
      tensors.push_back({LoraTensorName(model, target.layer, target.module, side), dtype, dims,
                         RandomElements(dtype, dims[0] * dims[1], random)});
    }
  }
  return tensors;
}

// The adapter of `from` with random matrices of the head beside its own, as a folder `to`.
inline void WriteWithHead(const std::string& from, const ModelConfig& model,
                          const std::string& to) {
  OrderedJson config = OrderedJson::parse(*ReadFile(from + "/adapter_config.json"));
  OrderedJson& targets = config["target_modules"];
  if (targets == "all-linear") targets = ".*_proj";
  if (targets.is_string()) {
    targets = "(" + targets.get<std::string>() + ")|lm_head";
  } else {
    targets.push_back("lm_head");
  }
  config["rank_pattern"] = {{"lm_head", 6}};
  const PeftConfig peft = *ParsePeftConfig(config.dump());
  const SafetensorsFile file = *SafetensorsFile::Open(from + "/adapter_model.safetensors");
  std::vector<TestTensor> tensors;
  for (const auto& [name, entry] : file.entries()) {
    const std::span<const char> bytes = *file.Bytes(name);
    tensors.push_back({name, entry.dtype, entry.shape, std::string(bytes.begin(), bytes.end())});
  }
  for (TestTensor& tensor : LoraTestTensors(peft, model)) {
    if (!file.Contains(tensor.name)) tensors.push_back(std::move(tensor));
  }
  std::filesystem::create_directories(to);
  WriteFile(to + "/adapter_config.json", config.dump());
  WriteFile(to + "/adapter_model.safetensors", SafetensorsBytes(tensors));
}

// The config of a prompt of three virtual tokens, of one of PEFT's methods; `extra` overrides it.
inline std::string PromptJson(const std::string& peft_type, std::string_view extra = "") {
  OrderedJson json = {{"peft_type", peft_type},
                      {"task_type", "CAUSAL_LM"},
                      {"base_model_name_or_path", "test/base"},
                      {"num_virtual_tokens", 3}};
  json.update(OrderedJson::parse("{" + std::string(extra) + "}"));
  return json.dump();
}

// Random vectors of as many virtual tokens.
inline TestTensor PromptTestTensor(int64_t num_tokens, int64_t columns,
                                   const std::string& dtype = "F32") {
  Random random(5);
  return {"prompt_embeddings",
          dtype,
          {num_tokens, columns},
          RandomElements(dtype, num_tokens * columns, random)};
}

inline TestTensor& FindTensor(std::vector<TestTensor>& tensors, std::string_view name) {
  for (TestTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  CHECK(false) << "no tensor " << name;
  __builtin_unreachable();
}

inline SafetensorsFile FileOf(const std::vector<TestTensor>& tensors) {
  return *SafetensorsFile::FromBytes(SafetensorsBytes(tensors), "adapter_model.safetensors");
}

// A PEFT folder with these two files.
inline void WriteAdapter(const std::string& dir, std::string_view config,
                         std::string_view weights) {
  std::filesystem::create_directories(dir);
  WriteFile(dir + "/adapter_config.json", config);
  WriteFile(dir + "/adapter_model.safetensors", weights);
}

}  // namespace graft::testing
