// The tables of docs/models.md and docs/adapters.md that tell of each family: they are made of the
// family files. With GRAFT_WRITE_DOCS=1 the tests write them into the pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "model/config.h"
#include "model/family.h"
#include "model/lora_module.h"
#include "model/model_test_util.h"
#include "model/shard.h"

namespace graft {
namespace family_pages_test {

using testing::SourcePath;

// Sizes under all names that HF's classes have for them.
Json SmallConfig(const ModelFamily& family) {
  return {{"architectures", {family.name}},
          {"model_type", family.model_type},
          {"vocab_size", 64},
          {"hidden_size", 128},
          {"n_embd", 128},
          {"intermediate_size", 96},
          {"num_hidden_layers", 8},
          {"num_layers", 8},
          {"n_layer", 8},
          {"num_attention_heads", 4},
          {"num_heads", 4},
          {"n_head", 4},
          {"attention_types", {{{"global", "local"}, 4}}},
          {"max_position_embeddings", 128},
          {"n_positions", 128}};
}

ModelConfig ConfigOf(const ModelFamily& family, const Json& changes = Json::object()) {
  Json json = SmallConfig(family);
  json.update(changes);
  const Result<ModelConfig> config = ParseModelConfig(json);
  CHECK(config.ok()) << config.status().ToString();
  return *config;
}

std::string Code(std::string_view name) { return "`" + std::string(name) + "`"; }

std::string WithCommas(const std::vector<std::string>& parts) {
  return parts.empty() ? "-" : Joined(parts, ", ");
}

std::string BiasesOf(const ModelFamily& family) {
  std::vector<std::string> parts;
  switch (family.attention_bias) {
    case AttentionBias::kNone:
      break;
    case AttentionBias::kByConfig:
      parts.push_back("`attention_bias` of q, k, v, o");
      break;
    case AttentionBias::kQkv:
      parts.push_back("always of q, k, v");
      break;
    case AttentionBias::kQkvUnlessOff:
      parts.push_back("`attention_bias` of q, k, v, true if absent");
      break;
    case AttentionBias::kAsLayers:
      parts.push_back("the class's");
      break;
  }
  if (family.may_have_mlp_bias) parts.push_back("`mlp_bias`");
  return WithCommas(parts);
}

std::string NormsOf(const ModelConfig& config) {
  const LayerSpec& layer = config.layers[0];
  std::vector<std::string> parts;
  if (config.norm == NormKind::kLayer) parts.push_back("LayerNorm");
  if (layer.input_norms) parts.push_back("before");
  if (layer.output_norms) parts.push_back("behind");
  if (layer.parallel) parts.push_back("in parallel");
  if (layer.qk_norm) parts.push_back(layer.qk_norm_across_heads ? "all of q, k" : "heads of q, k");
  return WithCommas(parts);
}

// Whether layers slide once the config has all that any family's window needs.
std::string WindowsOf(const ModelFamily& family) {
  Json json = SmallConfig(family);
  json.update({{"sliding_window", 8}, {"use_sliding_window", true}, {"max_window_layers", 4}});
  const Result<ModelConfig> config = ParseModelConfig(json);
  if (!config.ok()) return "-";
  const auto slides = [](const LayerSpec& layer) { return layer.window > 0; };
  if (std::ranges::all_of(config->layers, slides)) return "all layers";
  return std::ranges::any_of(config->layers, slides) ? "some layers" : "-";
}

std::string RotationOf(const ModelFamily& family, const ModelConfig& config) {
  std::vector<std::string> parts;
  if (config.num_positions > 0) return "learned positions";
  if (config.rope_interleaved) parts.push_back("neighbours");
  if (family.may_rotate_in_part) {
    std::ostringstream part;
    part << "`partial_rotary_factor`, " << family.rotary_factor << " if absent";
    parts.push_back(part.str());
  }
  const auto stays = [](const RopeConfig& rope) {
    return rope.scaling == RopeScaling::kNoRotation;
  };
  if (std::ranges::any_of(config.ropes, stays)) parts.push_back("some layers do not");
  if (std::ranges::count_if(config.ropes, stays) + 1 < std::ssize(config.ropes)) {
    parts.push_back("two sets of angles");
  }
  for (const RopeType& type : family.rope_types.all) parts.push_back(Code(type.name));
  return WithCommas(parts);
}

std::string ModelRows() {
  std::string rows =
      "| class | `model_type` | biases | norms | windows | rotation, and RoPE types | several "
      "ranks |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const ModelFamily* family : ModelFamilies()) {
    const ModelConfig config = ConfigOf(*family);
    rows += "| " + Code(family->name) + " | " + Code(family->model_type) + " | " +
            BiasesOf(*family) + " | " + NormsOf(config) + " | " + WindowsOf(*family) + " | " +
            RotationOf(*family, config) + " | " + (CheckRanks(config, 2).ok() ? "yes" : "-") +
            " |\n";
  }
  return rows;
}

// Families that have the same modules share a row.
std::string AdapterRows() {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const ModelFamily* family : ModelFamilies()) {
    const ModelConfig config = ConfigOf(*family);
    std::vector<std::string> modules;
    for (const StoredProjection& projection : StoredProjections(config)) {
      modules.push_back(Code(NameOfStored(config, projection)));
    }
    const std::string initial =
        family->has_peft_default ? Joined(family->peft_default, ", ", Code) : "an error";
    const std::string row = Joined(modules, ", ") + " | " + initial;
    const auto same = [&row](const auto& group) { return group.first == row; };
    auto group = std::ranges::find_if(groups, same);
    if (group == groups.end()) group = groups.insert(group, {row, {}});
    group->second.push_back(Code(family->name));
  }
  std::string rows = "| bases | modules | `target_modules` null is |\n|---|---|---|\n";
  for (const auto& [row, names] : groups) rows += "| " + Joined(names, ", ") + " | " + row + " |\n";
  return rows;
}

// The page has these rows between the mark of that name and the next end.
void ExpectRows(const std::string& page_name, const std::string& mark_name,
                const std::string& rows) {
  const std::string path = SourcePath("docs/" + page_name);
  const Result<std::string> before = ReadFile(path);
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  const std::string mark = "<!-- " + mark_name + " -->\n";
  const size_t begin = before->find(mark);
  ASSERT_NE(begin, std::string::npos) << mark;
  const size_t first = begin + mark.size();
  const size_t end = before->find("<!-- end -->", first);
  ASSERT_NE(end, std::string::npos) << mark;
  std::string page = *before;
  page.replace(first, end - first, rows);
  const bool writes = std::getenv("GRAFT_WRITE_DOCS") != nullptr;
  if (writes && page != *before) std::ofstream(path) << page;
  EXPECT_TRUE(page == *before || writes)
      << "docs/" << page_name
      << " is behind src/model/families; run model_test with GRAFT_WRITE_DOCS=1";
}

TEST(FamilyPagesTest, ModelsHasTheFamilies) { ExpectRows("models.md", "families", ModelRows()); }

TEST(FamilyPagesTest, AdaptersHasTheModules) {
  ExpectRows("adapters.md", "families' modules", AdapterRows());
}

}  // namespace family_pages_test
}  // namespace graft
