#include "sources/part_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/file.h"
#include "base/sha256.h"

namespace graft {
namespace part_file_test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPart = 64 << 10;

class PartFileTest : public ::testing::Test {
 protected:
  PartFileTest() {
    folder_ = ::testing::TempDir() + "part_file_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    bytes_.resize(static_cast<size_t>(2 * kPart + 1234));
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i * 2654435761u >> 13);
  }
  ~PartFileTest() override { fs::remove_all(folder_); }

  Result<std::unique_ptr<PartFile>> Open(bool adopts = true) {
    return PartFile::Open({.path = path(),
                           .unfinished_path = path() + ".incomplete",
                           .bytes = std::ssize(bytes_),
                           .kind = DigestKind::kSha256,
                           .digest = Sha256Of(bytes_),
                           .adopts = adopts,
                           .part_bytes = kPart});
  }
  std::string path() const { return folder_ + "/blob"; }
  Status WritePart(PartFile& file, int part, const std::string& from) {
    const auto begin = static_cast<size_t>(file.PartBegin(part));
    const auto size = static_cast<size_t>(file.PartEnd(part)) - begin;
    EXPECT_TRUE(file.Write(file.PartBegin(part), std::string_view(from).substr(begin, size)).ok());
    return file.FinishPart(part);
  }

  std::string folder_;
  std::string bytes_;
};

TEST_F(PartFileTest, PartsComeInAnyOrder) {
  const auto file = *Open();
  ASSERT_EQ(file->num_parts(), 3);
  for (const int part : {2, 0, 1}) {
    EXPECT_FALSE(FileExists(path()));
    EXPECT_TRUE(WritePart(*file, part, bytes_).ok());
  }
  EXPECT_TRUE(file->is_whole());
  EXPECT_EQ(*ReadFile(path()), bytes_);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(PartFileTest, WrongBytesNeverGetTheName) {
  const auto file = *Open();
  std::string wrong = bytes_;
  wrong[100] ^= 1;
  EXPECT_TRUE(WritePart(*file, 0, wrong).ok());
  EXPECT_TRUE(WritePart(*file, 1, wrong).ok());
  const Status status = WritePart(*file, 2, wrong);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("sha256"));
  EXPECT_FALSE(FileExists(path()));
  EXPECT_FALSE(file->IsDone(1));
  for (const int part : {0, 1, 2}) EXPECT_TRUE(WritePart(*file, part, bytes_).ok());
  EXPECT_EQ(*ReadFile(path()), bytes_);
}

TEST_F(PartFileTest, ANextProcessTakesFinishedParts) {
  {
    const auto file = *Open();
    EXPECT_TRUE(WritePart(*file, 0, bytes_).ok());
    EXPECT_TRUE(WritePart(*file, 2, bytes_).ok());
  }
  {
    const auto file = *Open();
    EXPECT_TRUE(file->IsDone(0));
    EXPECT_FALSE(file->IsDone(1));
    EXPECT_TRUE(file->IsDone(2));
    EXPECT_EQ(file->done_bytes(), kPart + 1234);
  }
  // The last line of the list was cut.
  std::ofstream(path() + ".incomplete.parts", std::ios::app)
      << std::ssize(bytes_) << " " << kPart << " 1";
  const auto file = *Open();
  EXPECT_FALSE(file->IsDone(1));
  EXPECT_TRUE(WritePart(*file, 1, bytes_).ok());
  EXPECT_EQ(*ReadFile(path()), bytes_);
}

TEST_F(PartFileTest, PartsWithoutADigestOrOfAnotherFileAreNotTaken) {
  { EXPECT_TRUE(WritePart(**Open(), 0, bytes_).ok()); }
  { EXPECT_FALSE((*Open(/*adopts=*/false))->IsDone(0)); }
  EXPECT_FALSE(FileExists(path() + ".incomplete"));
  { EXPECT_TRUE(WritePart(**Open(), 0, bytes_).ok()); }
  bytes_ += "longer";
  EXPECT_FALSE((*Open())->IsDone(0));
}

TEST_F(PartFileTest, AllPartsButNoNameIsTakenToo) {
  { EXPECT_TRUE(WritePart(**Open(), 0, bytes_).ok()); }
  std::ofstream list(path() + ".incomplete.parts", std::ios::app);
  for (const int part : {1, 2}) list << std::ssize(bytes_) << " " << kPart << " " << part << "\n";
  list.close();
  const auto file = *Open();
  // Parts 1 and 2 were never written: the digest finds it out.
  EXPECT_EQ(WritePart(*file, 2, bytes_).code(), StatusCode::kDataLoss);
}

TEST_F(PartFileTest, AnEmptyFileIsWholeAtOnce) {
  bytes_.clear();
  EXPECT_TRUE((*Open())->is_whole());
  EXPECT_EQ(*ReadFile(path()), "");
}

TEST_F(PartFileTest, TellsWhatADiskHasFree) {
  EXPECT_GT(*FreeDiskBytes(folder_ + "/not/there/yet"), 0);
}

}  // namespace
}  // namespace part_file_test
}  // namespace graft
