#include "document/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace graft {
namespace document_test {

using ::testing::HasSubstr;

TEST(DocumentTextTest, ReadsTextMarkdownAndHtml) {
  EXPECT_EQ(*DocumentText("\xEF\xBB\xBF  One.\r\nTwo.\rThree.\fFour.  \n", "a.txt"),
            "One.\nTwo.\nThree.\nFour.");
  EXPECT_EQ(*DocumentText("# Head\n\n*x* <b>y</b>", "a.md"), "# Head\n\n*x* <b>y</b>");
  EXPECT_EQ(*DocumentText("<p>x</p>", "a.HTML"), "x");
  EXPECT_EQ(*DocumentText(" <!DOCTYPE html><p>x</p>", "a.txt"), "x");
  EXPECT_EQ(*DocumentText("Gr\u00FC\u00DFe", "a"), "Gr\u00FC\u00DFe");
}

TEST(DocumentTextTest, RefusesByReason) {
  const struct {
    std::string bytes;
    const char* why;
  } cases[] = {{"", "empty"},
               {" \n\t ", "no text"},
               {"<html><script>x</script></html>", "no text"},
               {std::string("ab\0c", 4), "byte 2 is 0"},
               {"\x7F"
                "ELF",
                "binary"},
               {"Gr\xFC\xDF", "not UTF-8"},
               {"PK\x03\x04 docx", ".docx"},
               {"\xFF\xFEx", "UTF-16"},
               {"{\\rtf1 x}", "RTF"},
               {"\x89PNG\r\n", "an image"}};
  for (const auto& c : cases) {
    const Status status = DocumentText(c.bytes, "a.txt").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(c.why));
  }
}

TEST(ReadDocumentTest, NamesTheFile) {
  std::string folder = (std::filesystem::temp_directory_path() / "graft_doc_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/a report.txt") << "Hello.\n";
  const Document read = *ReadDocument(folder + "/a report.txt");
  EXPECT_EQ(read.name, "a report");
  EXPECT_EQ(read.text, "Hello.");
  EXPECT_EQ(read.bytes, 7);
  EXPECT_EQ(read.hash, "a2c064616af4c66c576821616646bdfad5556a263b4b007847605118971f4389");
  std::ofstream(folder + "/large.txt") << std::string(10'000'000, 'x');
  const Status large = ReadDocument(folder + "/large.txt").status();
  EXPECT_EQ(large.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(large.message(), HasSubstr("large.txt"));
  std::ofstream(folder + "/empty.txt");
  EXPECT_THAT(ReadDocument(folder + "/empty.txt").status().message(), HasSubstr("empty.txt: "));
  EXPECT_EQ(ReadDocument(folder + "/none.txt").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadDocument(folder).status().code(), StatusCode::kInvalidArgument);
  std::filesystem::remove_all(folder);
}

}  // namespace document_test
}  // namespace graft
