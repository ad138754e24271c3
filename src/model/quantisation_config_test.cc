#include "model/quantisation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "model/config.h"
#include "model/model_test_util.h"
#include "model/quantised_format.h"

namespace graft {
namespace quantisation_config_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SourcePath;

Json ConfigOf(const std::string& folder) {
  return *ParseJsonFile(SourcePath("tests/goldens/quantised/" + folder));
}
Json QuantisationOf(const std::string& folder) {
  return ConfigOf(folder + "/config.json")["quantization_config"];
}
std::string Refusal(const Json& json) { return ParseQuantisation(json).status().ToString(); }
// With one field of the object at `path` set.
std::string RefusalWith(const std::string& folder, const std::string& path, const Json& value) {
  Json json = QuantisationOf(folder);
  json[Json::json_pointer(path)] = value;
  return Refusal(json);
}

constexpr char kWeights[] = "/config_groups/group_0/weights/";

// What the five folders say that are not served, and which word of it the error names.
TEST(QuantisationConfigTest, OtherFormatsAreRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {{"fp8_dynamic", "float-quantized"},
                                                       {"fp8_block", "float-quantized"},
                                                       {"fp8_scale_inv", "\"fp8\""},
                                                       {"int8_w8a8", "int-quantized"},
                                                       {"mxfp4", "mxfp4"}};
  for (const auto& [name, word] : cases) {
    Json config = ConfigOf("refused/" + std::string(name) + ".json");
    EXPECT_THAT(Refusal(config["quantization_config"]),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(word), HasSubstr("pack-quantized")))
        << name;
  }
  for (const char* method : {"mxfp4", "fp8", "hqq", "quanto", "auto-round", "modelopt", "bitnet",
                             "eetq", "torchao", "gguf", "AWQ"}) {
    EXPECT_THAT(Refusal({{"quant_method", method}}),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("quant_method"), HasSubstr(method),
                      HasSubstr("bitsandbytes (NF4)"), HasSubstr("awq (4 bits, version gemm)")));
  }
  EXPECT_THAT(Refusal(Json{{"bits", 4}}), HasSubstr("quant_method is missing"));
  EXPECT_THAT(Refusal(Json::array()), HasSubstr("must be an object"));
}

// One field changed, and what the error names.
struct Changed {
  const char* folder;
  std::string path;
  Json value;
  const char* says;
};

TEST(QuantisationConfigTest, FieldsAreRefusedByName) {
  const Changed cases[] = {
      {"nf4", "/bnb_4bit_quant_type", "fp4", "bnb_4bit_quant_type \"fp4\""},
      {"nf4", "/bnb_4bit_quant_type", nullptr, "bnb_4bit_quant_type \"fp4\""},
      {"nf4", "/load_in_8bit", true, "load_in_8bit"},
      {"nf4", "/_load_in_8bit", true, "load_in_8bit"},
      {"nf4", "/load_in_4bit", false, "load_in_4bit"},
      {"nf4", "/llm_int8_skip_modules", "lm_head", "llm_int8_skip_modules"},
      {"nf4", "/llm_int8_skip_modules", {1}, "llm_int8_skip_modules"},
      {"nf4", "/rotation", "hadamard", "rotation"},
      {"w4a16_sym", "/format", "nvfp4-pack-quantized", "nvfp4-pack-quantized"},
      {"w4a16_sym", "/format", "marlin-24", "marlin-24"},
      {"w4a16_sym", "/format", "mixed-precision", "mixed-precision"},
      {"w4a16_sym", "/config_groups/group_0/format", "mxfp4-pack-quantized", "mxfp4"},
      {"w4a16_sym", "/config_groups", Json::object(), "config_groups is missing"},
      {"w4a16_sym", "/config_groups/group_0", 3, "config_groups.group_0"},
      {"w4a16_sym", "/config_groups/group_0/targets", nullptr, "targets is missing"},
      {"w4a16_sym", "/config_groups/group_0/targets", {"re:(a"}, "'(a'"},
      {"w4a16_sym", "/config_groups/group_0/weights", nullptr, "weights is missing"},
      {"w4a16_sym",
       "/config_groups/group_0/input_activations",
       {{"num_bits", 8}},
       "input_activations"},
      {"w4a16_sym", std::string(kWeights) + "num_bits", 2, "num_bits 2"},
      {"w4a16_sym", std::string(kWeights) + "num_bits", 3, "num_bits 3"},
      {"w4a16_sym", std::string(kWeights) + "num_bits", 0, "num_bits is 0"},
      {"w4a16_sym", std::string(kWeights) + "type", "float", "type \"float\""},
      {"w4a16_sym", std::string(kWeights) + "strategy", "tensor", "strategy \"tensor\""},
      {"w4a16_sym", std::string(kWeights) + "strategy", "block", "strategy \"block\""},
      {"w4a16_sym", std::string(kWeights) + "group_size", 0, "group_size is 0"},
      {"w4a16_sym", std::string(kWeights) + "group_size", -1, "group_size is missing"},
      {"w4a16_sym", std::string(kWeights) + "dynamic", true, "dynamic true"},
      {"w4a16_sym", std::string(kWeights) + "actorder", "other", "actorder \"other\""},
      {"w4a16_sym", std::string(kWeights) + "block_structure", {128, 128}, "block_structure"},
      {"w4a16_sym", std::string(kWeights) + "outliers", 4, "outliers 4"},
      {"w4a16_sym", "/quantization_status", "calibration", "quantization_status"},
      {"w4a16_sym", "/transform_config", {{"config_groups", {{"u", 1}}}}, "transform_config"},
      {"w4a16_sym", "/sparsity_config", {{"format", "sparse-24-bitmask"}}, "sparsity_config"},
      {"gptq8", "/bits", 2, "bits 2"},
      {"gptq8", "/bits", 3, "bits 3"},
      {"gptq8", "/bits", nullptr, "bits is missing"},
      {"gptq8", "/group_size", 0, "group_size is 0"},
      {"gptq8", "/group_size", -2, "group_size is -2"},
      {"gptq8", "/checkpoint_format", "marlin", "checkpoint_format \"marlin\""},
      {"gptq8", "/checkpoint_format", "bitblas", "checkpoint_format \"bitblas\""},
      {"gptq8", "/format", "gptq_v2", "format \"gptq_v2\""},
      {"gptq8", "/is_marlin_format", true, "is_marlin_format"},
      {"gptq8", "/pack_dtype", "int16", "pack_dtype"},
      {"gptq8", "/adapter", {{"rank", 64}}, "adapter"},
      {"gptq8", "/dynamic", {{"-:(", Json::object()}}, "'('"},
      {"gptq8", "/dynamic", {{"x", {{"bits", 3}}}}, "dynamic.x.bits 3"},
      {"gptq8", "/dynamic", {{"x", {{"rank", 3}}}}, "dynamic.x.rank 3"},
      {"gptq8", "/dynamic", {{"x", 3}}, "dynamic"},
      {"awq", "/bits", 8, "bits 8"},
      {"awq", "/zero_point", false, "zero_point false"},
      {"awq", "/version", "gemv", "version \"gemv\""},
      {"awq", "/version", "gemv_fast", "version \"gemv_fast\""},
      {"awq", "/version", "marlin", "version \"marlin\""},
      {"awq", "/checkpoint_format", "llm-awq", "checkpoint_format \"llm-awq\""},
      {"awq", "/backend", "llm-awq", "backend \"llm-awq\""},
      {"awq", "/desc_act", true, "desc_act"},
  };
  for (const Changed& changed : cases) {
    EXPECT_THAT(RefusalWith(changed.folder, changed.path, changed.value), HasSubstr(changed.says))
        << changed.folder << changed.path;
  }
}

TEST(QuantisationConfigTest, FieldsWithoutEffectAreTaken) {
  const Changed cases[] = {
      {"nf4", "/bnb_4bit_compute_dtype", "float16", ""},
      {"nf4", "/bnb_4bit_quant_storage", "bfloat16", ""},
      {"nf4", "/rotation", nullptr, ""},
      {"w4a16_sym", "/quantization_status", "frozen", ""},
      {"w4a16_sym", "/sparsity_config", {{"format", "dense"}}, ""},
      {"w4a16_sym", std::string(kWeights) + "observer", "mse", ""},
      {"w4a16_sym", std::string(kWeights) + "actorder", "weight", ""},
      {"w4a16_sym", std::string(kWeights) + "actorder", "static", ""},
      {"gptq8", "/damp_percent", 0.01, ""},
      {"gptq8", "/meta", {{"quantizer", {"gptqmodel:7.7.0"}}}, ""},
      {"awq", "/version", "GEMM", ""},
      {"awq", "/do_fuse", true, ""},
  };
  for (const Changed& changed : cases) {
    EXPECT_EQ(RefusalWith(changed.folder, changed.path, changed.value), "OK")
        << changed.folder << changed.path;
  }
  Json json = QuantisationOf("w4a16_sym");
  EXPECT_THAT(ParseQuantisation(json)->read_over, IsEmpty());
  json["kv_cache_scheme"] = {{"num_bits", 8}, {"type", "float"}};
  EXPECT_THAT(ParseQuantisation(json)->read_over, ElementsAre("kv_cache_scheme"));
}

TEST(QuantisationConfigTest, ConfigsOfModels) {
  const std::pair<const char*, const char*> cases[] = {
      {"nf4", "NF4 of bitsandbytes"},
      {"w4a16_asym", "int4 of compressed-tensors"},
      {"w4a16_w8a16", "mixed schemes of compressed-tensors"},
      {"gptq8", "GPTQ of 8 bits"},
      {"awq", "AWQ of 4 bits"}};
  for (const auto& [name, text] : cases) {
    const Result<ModelConfig> config =
        ParseModelConfig(ConfigOf(std::string(name) + "/config.json"));
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    ASSERT_TRUE(config->quantisation.has_value());
    EXPECT_EQ(config->quantisation->text, text);
  }
  Json plain = ConfigOf("nf4/config.json");
  plain["quantization_config"] = nullptr;
  EXPECT_FALSE(ParseModelConfig(plain)->quantisation.has_value());
}

using Scheme = std::optional<CodeScheme>;

Result<Scheme> SchemeOf(const Json& json, std::string_view module) {
  return ModuleSchemes::Compile(*ParseQuantisation(json))->Of(std::string(module));
}

constexpr char kDown[] = "model.layers.10.mlp.down_proj";

TEST(ModuleSchemesTest, NamesComeBeforeRegexesBeforeClasses) {
  Json json = QuantisationOf("w4a16_sym");
  const auto add = [&](const char* name, const char* target, int bits) {
    Json group = json["config_groups"]["group_0"];
    group["targets"] = {target};
    group["weights"]["num_bits"] = bits;
    json["config_groups"][name] = group;
  };
  EXPECT_EQ((*SchemeOf(json, kDown))->bits, 4);
  add("group_1", "re:.*down", 8);
  EXPECT_EQ((*SchemeOf(json, kDown))->bits, 8);
  EXPECT_EQ((*SchemeOf(json, "model.layers.10.mlp.up_proj"))->bits, 4);
  add("group_2", kDown, 4);
  EXPECT_EQ((*SchemeOf(json, kDown))->bits, 4);
  add("group_3", "re:model.layers.1.*", 4);
  EXPECT_EQ((*SchemeOf(json, kDown))->bits, 4);
  EXPECT_THAT(SchemeOf(json, "model.layers.1.mlp.down_proj").status().ToString(),
              AllOf(HasSubstr("two schemes"), HasSubstr("mlp.down_proj"), HasSubstr(".*down")));
  json["ignore"] = {kDown};
  EXPECT_FALSE(SchemeOf(json, kDown)->has_value());
  EXPECT_FALSE(SchemeOf(QuantisationOf("w4a16_sym"), "lm_head")->has_value());
}

TEST(ModuleSchemesTest, ExceptionsOfEachFormat) {
  Json nf4 = QuantisationOf("nf4");
  nf4["llm_int8_skip_modules"] = {"model.layers.1", "lm_head", "up_proj"};
  EXPECT_TRUE(SchemeOf(nf4, kDown)->has_value());
  EXPECT_FALSE(SchemeOf(nf4, "model.layers.1.mlp.down_proj")->has_value());
  EXPECT_FALSE(SchemeOf(nf4, "model.layers.1")->has_value());
  EXPECT_FALSE(SchemeOf(nf4, "lm_head")->has_value());
  EXPECT_FALSE(SchemeOf(nf4, "model.layers.2.mlp.up_proj")->has_value());
  EXPECT_TRUE(SchemeOf(nf4, "model.layers.2.mlp.gate_up_proj")->has_value());

  Json awq = QuantisationOf("awq");
  awq["modules_to_not_convert"] = {"layers.10.", "visual"};
  EXPECT_FALSE(SchemeOf(awq, kDown)->has_value());
  EXPECT_TRUE(SchemeOf(awq, "model.layers.1.mlp.down_proj")->has_value());
  EXPECT_FALSE(SchemeOf(awq, "lm_head")->has_value());

  Json gptq = QuantisationOf("gptq8");
  EXPECT_FALSE(SchemeOf(gptq, "lm_head")->has_value());
  gptq["lm_head"] = true;
  EXPECT_TRUE(SchemeOf(gptq, "lm_head")->has_value());
  gptq["dynamic"] = {{"-:.*layers\\.1\\.", Json::object()},
                     {"+:.*down", {{"bits", 4}, {"group_size", 64}, {"desc_act", true}}},
                     {".*gate", {{"sym", false}, {"mse", 2.0}}}};
  EXPECT_FALSE(SchemeOf(gptq, "model.layers.1.mlp.down_proj")->has_value());
  EXPECT_EQ(*SchemeOf(gptq, kDown),
            (CodeScheme{.bits = 4, .group_size = 64, .symmetric = true, .has_groups = true}));
  EXPECT_EQ(*SchemeOf(gptq, "model.layers.10.mlp.gate_proj"),
            (CodeScheme{.bits = 8, .group_size = 0, .symmetric = false, .has_groups = false}));
  EXPECT_EQ(*SchemeOf(gptq, "model.layers.10.mlp.up_proj"), (CodeScheme{.bits = 8}));
}

TEST(ModuleSchemesTest, ARegexThatTakesTooLongIsAnError) {
  Json json = QuantisationOf("w4a16_sym");
  json["ignore"] = {"re:(a+)+$"};
  EXPECT_THAT(SchemeOf(json, std::string(64, 'a') + "b").status().ToString(),
              HasSubstr("too many steps"));
}

}  // namespace quantisation_config_test
}  // namespace graft
