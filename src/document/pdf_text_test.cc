#include "document/pdf_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/fault.h"

namespace graft {
namespace {

using ::testing::HasSubstr;

// A program that stands in for pdftotext, to try each limit.
class PdfTextTest : public ::testing::Test {
 protected:
  PdfTextTest() {
    std::string path = (std::filesystem::temp_directory_path() / "graft_pdf_XXXXXX").string();
    CHECK(mkdtemp(path.data()) != nullptr);
    folder_ = path;
    limits_.program = folder_ + "/pdftotext";
  }
  ~PdfTextTest() override { std::filesystem::remove_all(folder_); }

  Result<std::string> Run(const std::string& script, const std::string& pdf = "%PDF-1.4") {
    std::ofstream(limits_.program) << "#!/bin/sh\n" << script << "\n";
    chmod(limits_.program.c_str(), 0700);
    return PdfText(pdf, limits_);
  }

  std::string folder_;
  PdfTextLimits limits_;
};

TEST_F(PdfTextTest, GivesTheFileAndTakesTheText) {
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(*Run("cat", large), large);
  EXPECT_EQ(*Run("echo \"$*\""), "-enc UTF-8 -eol unix - -\n");
  EXPECT_EQ(*Run("printf 'caf\\351 \\303\\251'"), "caf\uFFFD \u00E9");
}

TEST_F(PdfTextTest, SaysWhatFailed) {
  const Status failed = Run("echo 'Syntax Error: no trailer' >&2; echo more >&2; exit 1").status();
  EXPECT_EQ(failed.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(failed.message(), HasSubstr("cannot read it as a PDF: Syntax Error: no trailer"));
  EXPECT_THAT(Run("exit 3").status().message(), HasSubstr("forbids"));
  EXPECT_THAT(Run("exit 99").status().message(), HasSubstr("within its limits"));
  for (const char* const script : {"exec /no/such/program", "exec /"}) {
    EXPECT_EQ(Run(script).status().code(), StatusCode::kInternal) << script;
  }
  const Status crashed = Run("kill -SEGV $$").status();
  EXPECT_EQ(crashed.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(crashed.message(), HasSubstr("crashed"));
  limits_.program = folder_ + "/nothing";
  const Status missing = PdfText("%PDF-1.4", limits_).status();
  EXPECT_EQ(missing.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(missing.message(), HasSubstr("poppler-utils"));
}

// What another moment may not have is no fault of the file.
TEST_F(PdfTextTest, AKilledProgramAndABusyMachinePass) {
  for (const char* const script : {"kill -KILL $$", "kill -TERM $$"}) {
    EXPECT_TRUE(IsPassing(Run(script).status())) << script;
  }
  limits_.child.seconds = 1;
  const Status slow = Run("exec sleep 100").status();
  EXPECT_TRUE(IsPassing(slow));
  EXPECT_THAT(slow.message(), HasSubstr("after 1 s"));
}

TEST_F(PdfTextTest, SaysWhichLimitEndedIt) {
  limits_.child.output_bytes = 1 << 20;
  limits_.child.cpu_seconds = 1;
  const Status large = Run("yes").status();
  EXPECT_THAT(large.message(), HasSubstr("more than 1 MiB of text"));
  const Status slow = Run("while :; do :; done").status();
  EXPECT_THAT(slow.message(), HasSubstr("after 1 s of computing"));
  for (const Status& status : {large, slow}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(PdfText("%PDF-1.4", limits_, [] { return false; }).status().code(),
            StatusCode::kCancelled);
}

}  // namespace
}  // namespace graft
