// docs/models.md has the families and wrappers that there are. With GRAFT_WRITE_DOCS=1 the test
// writes its tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/file.h"
#include "base/strings.h"
#include "model/family.h"
#include "model/model_test_util.h"
#include "model/wrapper.h"

namespace graft {
namespace models_page_test {

std::string Code(std::string_view text) { return "`" + std::string(text) + "`"; }

std::string BiasesText(const ModelFamily& family) {
  std::string text;
  if (family.attention_bias == AttentionBias::kQkv) text = "q, k, v";
  if (family.attention_bias == AttentionBias::kAsLayers) text = "the class's";
  if (family.attention_bias == AttentionBias::kByConfig) text = "by `attention_bias`";
  if (!family.may_have_mlp_bias) return text.empty() ? "none" : text;
  return text + (text.empty() ? "" : ", ") + "by `mlp_bias`";
}

// Adapters' modules, and those of an adapter that does not say them.
std::string ModulesText(const ModelFamily& family) {
  const auto name = [&](const StoredProjection& projection) {
    const auto namesakes =
        std::ranges::count(family.projections, projection.name, &StoredProjection::name);
    const TargetSpec& target = family.lora_targets[static_cast<size_t>(projection.first)];
    const std::string block(namesakes > 1 ? target.block : "");
    return Code(block + std::string(projection.name));
  };
  return Joined(family.projections, ", ", name);
}

std::string RopesText(const ModelFamily& family) {
  const auto name = [](const RopeType& type) { return Code(type.name); };
  return Joined(family.rope_types.all, ", ", name);
}

std::string FamilyRows() {
  std::string rows =
      "| class | `model_type` | biases | RoPE besides `default` | modules of adapters |\n"
      "|---|---|---|---|---|\n";
  for (const ModelFamily* const family : ModelFamilies()) {
    rows += "| " + Code(family->name) + " | " + Code(family->model_type) + " | " +
            BiasesText(*family) + " | " + RopesText(*family) + " | " + ModulesText(*family) +
            " |\n";
  }
  return rows;
}

std::string WrapperRows() {
  std::string rows =
      "| class | `model_type` | `model_type` of `text_config`, served as | modules of adapters "
      "begin "
      "with |\n|---|---|---|---|\n";
  for (const ModelWrapper& wrapper : ModelWrappers()) {
    const auto text = [](const WrappedText& one) {
      return Code(one.model_type) + " (" + Code(one.family->name) + ")";
    };
    rows += "| " + Code(wrapper.name) + " | " + Code(wrapper.model_type) + " | " +
            Joined(wrapper.texts, ", ", text) + " | " +
            Code(std::string(wrapper.text_prefix) + "layers.") + " |\n";
  }
  return rows;
}

void ReplaceTable(const std::string& name, const std::string& rows, std::string* page) {
  const std::string mark = "<!-- table: " + name + " -->\n";
  const size_t at = page->find(mark);
  ASSERT_NE(at, std::string::npos) << mark;
  const size_t begin = at + mark.size();
  const size_t end = page->find("<!-- end -->", begin);
  ASSERT_NE(end, std::string::npos) << mark;
  page->replace(begin, end - begin, rows);
}

TEST(ModelsPageTest, HasFamiliesAndWrappers) {
  const std::string path = testing::SourcePath("docs/models.md");
  const std::string before = *ReadFile(path);
  std::string page = before;
  ReplaceTable("families", FamilyRows(), &page);
  ReplaceTable("wrappers", WrapperRows(), &page);
  if (std::getenv("GRAFT_WRITE_DOCS") != nullptr) {
    std::ofstream(path, std::ios::binary) << page;
    return;
  }
  EXPECT_EQ(before, page) << "write the tables by GRAFT_WRITE_DOCS=1";
}

}  // namespace models_page_test
}  // namespace graft
