#include "model/wrapper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "layers/served_types.h"
#include "model/config.h"
#include "model/lora_module.h"
#include "model/model_test_util.h"
#include "model/safetensors.h"
#include "model/weights.h"

namespace graft {
namespace wrapper_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SafetensorsBytes;
using testing::SourcePath;
using testing::TempDir;
using testing::TestTensor;
using testing::WriteFile;

Json Wrapper(const std::string& name, const std::string& model_type, const Json& text) {
  return Json{{"architectures", {name}},
              {"model_type", model_type},
              {"text_config", text},
              {"vision_config", {{"hidden_size", 8}}}};
}

ModelConfig Parsed(const Json& json) {
  const Result<ModelConfig> config = ParseModelConfig(json);
  CHECK(config.ok()) << config.status().ToString();
  return *config;
}

std::string WrapperRefusal(const Json& json) {
  const Result<ModelConfig> config = ParseModelConfig(json);
  return config.ok() ? "accepted" : config.status().ToString();
}

Json With(Json json, const Json& changes) {
  json.update(changes);
  return json;
}

// The sizes of a config: vocabulary, hidden, MLP, layers, heads, KV heads, head, context.
std::vector<int64_t> Sizes(const ModelConfig& c) {
  return {c.vocab_size, c.hidden_size,  c.intermediate_size, c.num_layers,
          c.num_heads,  c.num_kv_heads, c.head_dim,          c.context_tokens_max};
}

// As google/gemma-3-4b-it has it: half of its sizes are its class's.
Json Gemma3() {
  return Wrapper("Gemma3ForConditionalGeneration", "gemma3",
                 Json::parse(R"({"hidden_size": 2560, "intermediate_size": 10240,
                     "model_type": "gemma3_text", "num_hidden_layers": 34,
                     "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                     "sliding_window": 1024})"));
}

TEST(WrapperConfigTest, SizesThatAreAbsentAreTheClasss) {
  Json json = With(Gemma3(), {{"eos_token_id", {1, 106}}, {"torch_dtype", "bfloat16"}});
  json["text_config"].update({{"eos_token_id", 1}, {"dtype", "float32"}});
  const ModelConfig gemma = Parsed(json);
  EXPECT_EQ(gemma.architecture, Architecture::kGemma3);
  EXPECT_EQ(ClassNameOf(gemma), "Gemma3ForConditionalGeneration");
  EXPECT_EQ(Sizes(gemma), (std::vector<int64_t>{262208, 2560, 10240, 34, 8, 4, 256, 131072}));
  EXPECT_TRUE(gemma.tied_embeddings);
  EXPECT_EQ(gemma.eos_token_ids, (std::vector<int32_t>{1, 106}));
  EXPECT_EQ(gemma.dtype, DType::kBF16);
  EXPECT_EQ(gemma.layers[0].window, 1024);
  EXPECT_EQ(gemma.layers[5].window, 0);
  EXPECT_EQ(gemma.ropes[0].scaling, RopeScaling::kLinear);

  // llava-hf/llava-1.5-7b-hf and llava-v1.6-mistral-7b-hf.
  const ModelConfig llava = Parsed(Wrapper("LlavaForConditionalGeneration", "llava",
                                           Json::parse(R"({"_name_or_path": "lmsys/vicuna-7b-v1.5",
          "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096,
          "model_type": "llama", "rms_norm_eps": 1e-05, "torch_dtype": "float16",
          "vocab_size": 32064})")));
  EXPECT_EQ(Sizes(llava), (std::vector<int64_t>{32064, 4096, 11008, 32, 32, 32, 128, 4096}));
  EXPECT_FALSE(llava.tied_embeddings);
  EXPECT_EQ(llava.rms_norm_epsilon, 1e-5f);
  const ModelConfig next = Parsed(Wrapper("LlavaNextForConditionalGeneration", "llava_next",
                                          Json::parse(R"({"architectures": ["MistralForCausalLM"],
          "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
          "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
          "sliding_window": null, "vocab_size": 32064})")));
  EXPECT_EQ(next.architecture, Architecture::kMistral);
  EXPECT_EQ(Sizes(next), (std::vector<int64_t>{32064, 4096, 14336, 32, 32, 8, 128, 32768}));
  EXPECT_EQ(next.widest_window(), 0);
  // A null is none of the class's numbers: as many KV heads as heads.
  const ModelConfig null =
      Parsed(Wrapper("Qwen2VLForConditionalGeneration", "qwen2_vl",
                     {{"model_type", "qwen2_vl_text"}, {"num_key_value_heads", nullptr}}));
  EXPECT_EQ(Sizes(null), (std::vector<int64_t>{152064, 8192, 29568, 80, 64, 64, 128, 32768}));
  // Nothing says what it is: a LLaVA's is Llama.
  EXPECT_EQ(Parsed(Wrapper("LlavaForConditionalGeneration", "llava", Json::object())).architecture,
            Architecture::kLlama);
}

TEST(WrapperConfigTest, SmolVlmsTextIsLlama) {
  // HuggingFaceTB/SmolVLM-256M-Instruct: its architecture is a name that no class has.
  const ModelConfig config = Parsed(Wrapper("Idefics3ForConditionalGeneration", "idefics3",
                                            Json::parse(R"({"_flash_attn_2_enabled": true,
          "architectures": ["VLlama3ForCausalLM"], "head_dim": 64, "hidden_size": 576,
          "intermediate_size": 1536, "is_llama_config": true, "max_position_embeddings": 8192,
          "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30,
          "num_key_value_heads": 3, "pad_token_id": 2, "perceiver_config": {"hidden_act": "silu"},
          "qk_layer_norms": false, "rms_norm_eps": 1e-05, "rope_interleaved": false,
          "rope_theta": 100000, "use_resampler": false, "vocab_size": 49280})")));
  EXPECT_EQ(Sizes(config), (std::vector<int64_t>{49280, 576, 1536, 30, 9, 3, 64, 8192}));
  EXPECT_EQ(config.ropes[0].theta, 100000.0);
  EXPECT_EQ(ClassModulePath(config, 3, LoraModule::kUp), "model.text_model.layers.3.mlp.up_proj");
}

// Qwen/Qwen2.5-VL-3B-Instruct, flat as it is published.
Json FlatQwen() {
  return Json::parse(R"({"architectures": ["Qwen2_5_VLForConditionalGeneration"],
      "bos_token_id": 151643, "eos_token_id": 151645, "vision_start_token_id": 151652,
      "image_token_id": 151655, "hidden_act": "silu", "hidden_size": 2048,
      "intermediate_size": 11008, "max_position_embeddings": 128000, "max_window_layers": 70,
      "model_type": "qwen2_5_vl", "num_attention_heads": 16, "num_hidden_layers": 36,
      "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
      "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
      "use_sliding_window": false, "vision_config": {"depth": 32, "model_type": "qwen2_5_vl"},
      "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "vocab_size": 151936})");
}

TEST(WrapperConfigTest, EqualPositionsArePlainRope) {
  const ModelConfig flat = Parsed(FlatQwen());
  EXPECT_EQ(Sizes(flat), (std::vector<int64_t>{151936, 2048, 11008, 36, 16, 2, 128, 128000}));
  EXPECT_EQ(flat.ropes[0].scaling, RopeScaling::kNone);
  EXPECT_EQ(flat.ropes[0].theta, 1e6);
  EXPECT_TRUE(flat.qkv_bias && flat.tied_embeddings);
  EXPECT_EQ(flat.widest_window(), 0);
  const ModelConfig yarn = Parsed(With(FlatQwen(), {{"rope_scaling",
                                                     {{"type", "yarn"},
                                                      {"factor", 4.0},
                                                      {"original_max_position_embeddings", 32768},
                                                      {"mrope_section", {16, 24, 24}}}}}));
  EXPECT_EQ(yarn.ropes[0].scaling, RopeScaling::kYarn);
  const ModelConfig qwen3 = Parsed(Wrapper("Qwen3VLForConditionalGeneration", "qwen3_vl",
                                           Json::parse(R"({"model_type": "qwen3_vl_text",
          "head_dim": 128, "hidden_size": 2560, "intermediate_size": 9728,
          "max_position_embeddings": 262144, "num_attention_heads": 32, "num_hidden_layers": 36,
          "num_key_value_heads": 8, "rope_theta": 5000000, "tie_word_embeddings": true,
          "rope_scaling": {"mrope_interleaved": true, "mrope_section": [24, 20, 20],
                           "rope_type": "default"}})")));
  EXPECT_EQ(qwen3.architecture, Architecture::kQwen3);
  EXPECT_EQ(qwen3.ropes[0].theta, 5e6);
  EXPECT_TRUE(qwen3.layers[0].qk_norm && qwen3.tied_embeddings);
  for (const Json& sections :
       {Json{16, 24}, Json{16, 24, 25}, Json{16, 24, -24}, Json("x"), Json{16, 24, 24.0}}) {
    EXPECT_THAT(
        WrapperRefusal(
            With(FlatQwen(), {{"rope_scaling", {{"type", "mrope"}, {"mrope_section", sections}}}})),
        HasSubstr("rope_scaling.mrope_section is"));
  }
  // Elsewhere nothing mixes positions.
  Json llava = Wrapper("LlavaForConditionalGeneration", "llava",
                       {{"model_type", "qwen2"}, {"rope_scaling", {{"type", "mrope"}}}});
  EXPECT_THAT(WrapperRefusal(llava), HasSubstr("rope_scaling.rope_type \"mrope\""));
}

TEST(WrapperConfigTest, QueriesOfMinistral3AreScaled) {
  const Json text = Json::parse(R"({"model_type": "ministral3", "hidden_size": 3072,
      "intermediate_size": 9216, "num_hidden_layers": 26, "tie_word_embeddings": true,
      "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0,
          "llama_4_scaling_beta": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0,
          "original_max_position_embeddings": 16384, "rope_theta": 1000000.0, "rope_type": "yarn",
          "type": "yarn"}})");
  const ModelConfig config = Parsed(Wrapper("Mistral3ForConditionalGeneration", "mistral3", text));
  EXPECT_EQ(config.architecture, Architecture::kMinistral3);
  EXPECT_EQ(config.ropes[0].query_beta, 0.1);
  EXPECT_EQ(config.ropes[0].attention_factor, 1.0);
  EXPECT_EQ(config.context_tokens_max, 262144);
  EXPECT_EQ(config.widest_window(), 0);
  Json bare = text;
  bare.erase("rope_parameters");
  const ModelConfig absent = Parsed(Wrapper("Mistral3ForConditionalGeneration", "mistral3", bare));
  EXPECT_EQ(absent.ropes[0].scaling, RopeScaling::kYarn);
  EXPECT_EQ(absent.ropes[0].query_beta, 0.1);
  // HF's class cannot do without the number, and other classes do not read it.
  Json without = text;
  without["rope_parameters"].erase("llama_4_scaling_beta");
  EXPECT_THAT(WrapperRefusal(Wrapper("Mistral3ForConditionalGeneration", "mistral3", without)),
              HasSubstr("rope_parameters.llama_4_scaling_beta is missing"));
  Json mistral = text;
  mistral["model_type"] = "mistral";
  EXPECT_THAT(WrapperRefusal(Wrapper("Mistral3ForConditionalGeneration", "mistral3", mistral)),
              AllOf(HasSubstr("llama_4_scaling_beta 0.1 is not supported"),
                    HasSubstr("Ministral3ForCausalLM")));
}

TEST(WrapperConfigTest, RefusesByName) {
  EXPECT_THAT(WrapperRefusal(With(Gemma3(), {{"model_type", "llava"}})),
              HasSubstr("model_type \"llava\" contradicts architectures"));
  Json bare = Gemma3();
  bare.erase("text_config");
  EXPECT_THAT(WrapperRefusal(bare), HasSubstr("text_config is missing"));
  EXPECT_THAT(WrapperRefusal(With(Gemma3(), {{"text_config", 3}})),
              HasSubstr("text_config is 3, expected an object"));
  Json foreign = Gemma3();
  foreign["text_config"]["model_type"] = "mixtral";
  EXPECT_THAT(WrapperRefusal(foreign),
              AllOf(HasSubstr("text_config.model_type \"mixtral\" is not supported"),
                    HasSubstr("gemma3_text in Gemma3ForConditionalGeneration")));
  Json text = Gemma3();
  text["text_config"]["hidden_size"] = -1;
  EXPECT_THAT(WrapperRefusal(text), HasSubstr("text_config.hidden_size is -1"));
  EXPECT_THAT(WrapperRefusal(With(Gemma3(), {{"quantization_config", {{"bits", 4}}}})),
              HasSubstr("quantization_config"));
  EXPECT_THAT(
      WrapperRefusal(
          {{"architectures", {"PaliGemmaForConditionalGeneration"}}, {"model_type", "paligemma"}}),
      AllOf(HasSubstr("reads images"), HasSubstr("the text of Gemma3ForConditionalGeneration")));
  // By its type alone.
  Json typed = Gemma3();
  typed.erase("architectures");
  EXPECT_EQ(Parsed(typed).architecture, Architecture::kGemma3);
}

TEST(WrapperNamesTest, AllPrefixesAreTheText) {
  for (const std::string prefix :
       {"model.language_model.", "language_model.model.", "model.text_model.", "model."}) {
    EXPECT_EQ(TextNameOf(prefix + "layers.3.mlp.up_proj.weight"),
              "model.layers.3.mlp.up_proj.weight");
    EXPECT_EQ(TextNameOf(prefix + "norm.weight"), "model.norm.weight");
    EXPECT_EQ(TextNameOf(prefix + "embed_tokens.weight"), "model.embed_tokens.weight");
    EXPECT_EQ(TextPrefixOf(prefix + "layers.3.mlp.up_proj"), prefix);
    EXPECT_EQ(TextPrefixOf(prefix + "norm"), "");
  }
  EXPECT_EQ(TextNameOf("lm_head.weight"), "lm_head.weight");
  // The module, as paths of adapters name it.
  EXPECT_EQ(TextNameOf("lm_head"), "lm_head");
  EXPECT_EQ(TextNameOf("language_model.lm_head"), "lm_head");
  EXPECT_EQ(TextNameOf("language_model.lm_head.weight"), "lm_head.weight");
  for (const char* const tower :
       {"visual.blocks.0.attn.qkv.weight", "model.visual.merger.mlp.0.bias",
        "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight",
        "model.vision_tower.encoder.layers.0.mlp.fc1.weight",
        "multi_modal_projector.linear_1.weight", "model.connector.modality_projection.proj.weight",
        "model.vision_model.encoder.layers.0.self_attn.q_proj.weight", "image_newline"}) {
    EXPECT_EQ(TextNameOf(tower), std::nullopt) << tower;
    EXPECT_TRUE(IsOfTower(tower)) << tower;
  }
  EXPECT_FALSE(IsOfTower("model.layers.0.mlp.up_proj.weight"));
  EXPECT_FALSE(IsOfTower("model.language_model.layers.0.mlp.up_proj.weight"));
  EXPECT_FALSE(IsOfTower("score.weight"));
  EXPECT_THAT(
      StoredTextNames({"language_model.model.norm.weight", "model.norm.weight"}).status().message(),
      HasSubstr("language_model.model.norm.weight and model.norm.weight are the same part"));
}

// Why the golden LLaVA's folder with these tensors besides is not loaded.
std::string LoadRefusal(std::vector<TestTensor> more) {
  const std::string from = SourcePath("tests/goldens/llava");
  const SafetensorsSet files = *SafetensorsSet::Open(from);
  std::vector<TestTensor> tensors;
  for (const auto& [name, entry] : files.files()[0].entries()) {
    const std::span<const char> bytes = *files.files()[0].Bytes(name);
    tensors.push_back({name, entry.dtype, entry.shape, {bytes.begin(), bytes.end()}});
  }
  tensors.insert(tensors.end(), more.begin(), more.end());
  const TempDir dir;
  WriteFile(dir.File("model.safetensors"), SafetensorsBytes(tensors));
  ThreadPool threads(2);
  Stream stream{Device{}, &threads};
  const ModelConfig config = *LoadModelConfig(from);
  const Result<ModelWeights> weights =
      LoadWeights(dir.path(), config, TypesOf(DType::kF32), stream);
  return weights.ok() ? "accepted" : weights.status().ToString();
}

TEST(WrapperWeightsTest, TowersAreNotReadAndTextIsStrict) {
  EXPECT_EQ(LoadRefusal({}), "accepted");
  // Not even a tower's tensor of a type that is not known.
  EXPECT_EQ(LoadRefusal({{"vision_tower.more", "I32", {1}, std::string(4, '\0')}}), "accepted");
  const std::string bias(64, '\0');
  EXPECT_THAT(
      LoadRefusal({{"language_model.model.layers.0.self_attn.q_proj.bias", "BF16", {32}, bias}}),
      HasSubstr("q_proj.bias is in the files, but a LlavaForConditionalGeneration"));
  EXPECT_THAT(LoadRefusal({{"model.norm.weight", "BF16", {32}, bias}}),
              HasSubstr("are the same part of the model's text"));
}

}  // namespace wrapper_test
}  // namespace graft
