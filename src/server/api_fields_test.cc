#include "server/api_fields.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "base/file.h"
#include "server/openai_request.h"

namespace graft {
namespace {

// Reading a body checks that what is read and the rows are the same.
TEST(ApiFieldsTest, TheRowsAreWhatIsRead) {
  EXPECT_TRUE(ParseCompletionRequest({{"model", "m"}, {"prompt", "x"}}, RequestLimits()).ok());
  const Json messages = {{{"role", "user"}, {"content", "x"}}};
  EXPECT_TRUE(ParseChatRequest({{"model", "m"}, {"messages", messages}}, RequestLimits()).ok());
  for (const ApiFields* fields : {&CompletionFields(), &ChatFields()}) {
    std::set<std::string> names;
    for (const ApiField& row : fields->rows()) {
      EXPECT_TRUE(names.insert(row.name).second) << row.name;
    }
  }
}

TEST(ApiFieldsTest, EveryRefusedFieldIsNamedAndItsNeutralValueIsNot) {
  for (const ApiField& row : ChatFields().rows()) {
    Json body = {{"model", "m"}, {"messages", {{{"role", "user"}, {"content", "x"}}}}};
    if (row.use == FieldUse::kRead) continue;
    body[row.name] = {{"some", "thing"}};
    const auto request = ParseChatRequest(body, RequestLimits());
    EXPECT_EQ(request.ok(), row.use == FieldUse::kIgnored) << row.name;
    if (row.use == FieldUse::kIgnored) continue;
    EXPECT_EQ(request.error().param, row.name);
    EXPECT_EQ(request.error().code, "unsupported");
    body[row.name] = Json::parse(row.neutral);
    EXPECT_TRUE(ParseChatRequest(body, RequestLimits()).ok()) << row.name;
  }
}

// With GRAFT_WRITE_DOCS=1 the test writes the page instead.
TEST(ApiFieldsTest, ThePageHasTheTables) {
  const char* dir = std::getenv("GRAFT_SOURCE_DIR");
  const std::string path = std::string(dir == nullptr ? "." : dir) + "/docs/http-api.md";
  const Result<std::string> before = ReadFile(path);
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  std::string page = *before;
  const std::pair<const char*, std::string> tables[] = {{"both", SharedFieldsMarkdown()},
                                                        {"completions", CompletionFieldsMarkdown()},
                                                        {"chat", ChatFieldsMarkdown()}};
  for (const auto& [name, table] : tables) {
    const std::string mark = std::string("<!-- fields: ") + name + " -->\n";
    const size_t begin = page.find(mark);
    ASSERT_NE(begin, std::string::npos) << mark;
    const size_t first = begin + mark.size();
    const size_t end = page.find("<!-- end -->", first);
    ASSERT_NE(end, std::string::npos) << mark;
    page.replace(first, end - first, "\n" + table + "\n");
  }
  if (std::getenv("GRAFT_WRITE_DOCS") != nullptr) std::ofstream(path) << page;
  EXPECT_TRUE(page == *before || std::getenv("GRAFT_WRITE_DOCS") != nullptr)
      << "docs/http-api.md is behind src/server/api_fields.cc; run this test with "
         "GRAFT_WRITE_DOCS=1";
}

}  // namespace
}  // namespace graft
