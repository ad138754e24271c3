#include "document/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/unwanted_work.h"

namespace graft {
namespace document_test {

using ::testing::HasSubstr;

std::string TextOf(const std::string& bytes, std::string_view name) {
  const Result<Document> content = DocumentText(bytes, name);
  return content.ok() ? content->text : content.status().message();
}

TEST(DocumentTextTest, ReadsTextMarkdownAndHtml) {
  EXPECT_EQ(TextOf("\xEF\xBB\xBF  One.\r\nTwo.\rThree.\fFour.  \n", "a.txt"),
            "One.\nTwo.\nThree.\nFour.");
  EXPECT_EQ(TextOf("# Head\n\n*x* <b>y</b>", "a.md"), "# Head\n\n*x* <b>y</b>");
  EXPECT_EQ(TextOf("<p>x</p>", "a.HTML"), "x");
  EXPECT_EQ(TextOf(" <!DOCTYPE html><p>x</p>", "a.txt"), "x");
  EXPECT_EQ(TextOf("Rei\u00AD\r\nse\u00A0e\uFB03cient", "a.txt"), "Reise efficient");
  EXPECT_EQ(TextOf("<p>Rei\u00AD\nse</p>", "a.html"), "Rei se");
  EXPECT_EQ(TextOf("Gr\u00FC\u00DFe", "a"), "Gr\u00FC\u00DFe");
}

TEST(DocumentTextTest, KnowsHtmlByItsNameOrItsFirstTag) {
  for (const char* const name : {"a.html", "a.HTM", "a.shtml", "a.xhtml", "a.xht"}) {
    EXPECT_EQ(TextOf("<b>x</b>", name), "x") << name;
  }
  for (const char* const page :
       {"<html><p>x", "<HTML\n>x", "<!-- saved from a > b -->\n<html>x",
        "<?xml version='1.0'?><!-- y --> <!DOCTYPE html><p>x</p>", "\xEF\xBB\xBF\n<html>x",
        "<?xml version='1.0'?><html><script src='a.js'/><title/>x</html>"}) {
    EXPECT_EQ(TextOf(page, "page"), "x") << page;
  }
  EXPECT_EQ(TextOf("<script src='a.js'/>x", "a.xht"), "x");
  for (const char* const text :
       {"<htmlx>y", "<?xml version='1.0'?><rss>y</rss>", "<!-- y", "y <p>"}) {
    EXPECT_EQ(TextOf(text, "a.txt"), text);
  }
}

TEST(DocumentTextTest, ATextAboutPdfsIsNone) {
  const std::string about = "A PDF begins with %PDF-1.7 and a comment.";
  for (const char* const name : {"a.md", "a.txt", "a.html", "a.pdf"}) {
    EXPECT_EQ(TextOf(about, name), about);
  }
  const DocumentReading none = {.pdf = {.program = "/no/pdftotext", .child = {}}, .is_wanted = {}};
  const struct {
    std::string bytes;
    const char* name;
  } pdfs[] = {{"%PDF-1.7\n\xE2\xE3", "a"},
              {"\xEF\xBB\xBF \n%PDF-1.7", "a.txt"},
              {"HTTP/1.1 200 OK\n\n%PDF-1.7\n\xE2\xE3", "a.PDF"}};
  for (const auto& pdf : pdfs) {
    EXPECT_EQ(DocumentText(pdf.bytes, pdf.name, none).status().code(),
              StatusCode::kFailedPrecondition);
    EXPECT_TRUE(CheckDocument(pdf.bytes, pdf.name).ok());
  }
}

TEST(DocumentTextTest, LettersThatWereLostAreRefusedOrTold) {
  const std::string lost[] = {"\uE001\uE002\uE003 \uE004 abc", "\uFFFD\uFFFDx",
                              "<p>&#1;it&#x7F;s</p>"};
  for (const std::string& text : lost) EXPECT_THAT(TextOf(text, "a.html"), HasSubstr("OCR"));
  EXPECT_THAT(TextOf("\u0092\u0092\u0093 abc", "a.txt"), HasSubstr("OCR"));
  const Document some = *DocumentText("Press \uE001 to go on, or wait.", "a.txt");
  EXPECT_EQ(some.text, "Press  to go on, or wait.");
  ASSERT_EQ(some.notes.size(), 1U);
  EXPECT_THAT(some.notes[0], HasSubstr("1 of its 20 characters"));
  EXPECT_TRUE(DocumentText("A clean text.", "a.txt")->notes.empty());
}

TEST(DocumentTextTest, TrainingDataIsNoDocument) {
  for (const char* const line :
       {R"({"messages": [{"role": "user", "content": "Hi"}]})",
        R"({"prompt":"a","completion":"b"})",
        R"({"input":{"messages":[]},"preferred_output":[],"non_preferred_output":[]})"}) {
    const std::string lines = "\n" + std::string(line) + "\n" + line + "\n";
    EXPECT_THAT(TextOf(lines, "a.jsonl"), HasSubstr("supervised fine-tuning"));
    EXPECT_FALSE(CheckDocument(lines, "a.txt").ok());
    const std::string list = "[\n  " + std::string(line) + ",\n  " + line + "\n]\n";
    EXPECT_THAT(TextOf(list, "a.json"), HasSubstr("supervised fine-tuning"));
  }
  EXPECT_THAT(TextOf("{\n \"messages\": [\n {\"content\": \"\\\"]}\"}\n ]\n}", "a.json"),
              HasSubstr("supervised fine-tuning"));
  for (const char* const line :
       {R"({"question":"a","answer":"b"})", R"({"messages":"none"})", R"({"messages": [)",
        R"([{"messages": 1}])", R"([1, {"messages": []}])", R"(A line is {"messages": [...]}.)"}) {
    EXPECT_EQ(TextOf(line, "a.jsonl"), line);
  }
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

TEST(CheckDocumentTest, AFileThatNobodyWaitsForIsLeft) {
  std::string page = "<html>";
  for (int i = 0; i < 20'000; ++i) page += "<p>words";
  EXPECT_TRUE(CheckDocument(page, "a.html").ok());
  const std::atomic<bool> is_unwanted{true};
  const WatchedWork watched(is_unwanted);
  EXPECT_EQ(CheckDocument(page, "a.html").code(), StatusCode::kCancelled);
}

}  // namespace document_test
}  // namespace graft
