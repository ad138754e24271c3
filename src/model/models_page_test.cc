// docs/models.md has the wrappers that there are. With GRAFT_WRITE_DOCS=1 the test writes its
// table.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/file.h"
#include "base/strings.h"
#include "model/model_test_util.h"
#include "model/wrapper.h"

namespace graft {
namespace models_page_test {

std::string Code(std::string_view text) { return "`" + std::string(text) + "`"; }

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

TEST(ModelsPageTest, HasWrappers) {
  const std::string path = testing::SourcePath("docs/models.md");
  const std::string before = *ReadFile(path);
  std::string page = before;
  ReplaceTable("wrappers", WrapperRows(), &page);
  if (std::getenv("GRAFT_WRITE_DOCS") != nullptr) {
    std::ofstream(path, std::ios::binary) << page;
    return;
  }
  EXPECT_EQ(before, page) << "write the table by GRAFT_WRITE_DOCS=1";
}

}  // namespace models_page_test
}  // namespace graft
