#include "adapters/content_reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "adapters/peft_folder.h"
#include "base/unwanted_work.h"

namespace graft {
namespace {

using ::testing::HasSubstr;
using testing::SourcePath;
using testing::TempDir;
using testing::WriteAdapter;
using testing::WriteFile;

constexpr int64_t kMaxBytes = 1 << 30;
// Weights that are read in several pieces, the last of which is short.
std::string LongWeights(char first) {
  std::string bytes(size_t{5} * (1 << 20) + 12345, 'w');
  for (size_t i = 0; i < bytes.size(); i += 1000) bytes[i] = static_cast<char>(i / 1000);
  bytes[0] = first;
  return bytes;
}

class ContentReadingTest : public ::testing::Test {
 protected:
  // Files that were written a moment ago are remembered only with `settle_ns` 0.
  void Remembering(int64_t settle_ns) {
    memory_ = std::make_unique<HashMemory>(HashMemoryOptions{.path = "", .settle_ns = settle_ns});
    help_.memory = memory_.get();
  }
  // Times of files are taken from a clock of coarse ticks: the next one is waited for.
  static void LetClockTick() {
    for (const int64_t now = FileTimeNow(); FileTimeNow() <= now + 20'000'000;) {
    }
  }
  Result<PeftContent> Read(TextFileUse use = TextFileUse::kContent) {
    return ReadAdapter(path_, kMaxBytes, {}, use, help_);
  }
  std::string Hash() { return ContentHash(*Read()); }
  std::string Remembered(TextFileUse use = TextFileUse::kContent) {
    return RememberedHash(path_, kMaxBytes, {}, use, help_);
  }

  const TempDir dir_;
  const std::string path_ = dir_.File("a");
  WorkCrew crew_{4};
  std::unique_ptr<HashMemory> memory_;
  AdapterReadHelp help_;
};

TEST_F(ContentReadingTest, BytesAndHashesAreTheSameWithAndWithoutHelp) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1} << 20, size_t{3'000'001}}) {
    const std::string weights = LongWeights('x').substr(0, bytes);
    WriteAdapter(path_, "{}", weights);
    help_ = {};
    const PeftContent alone = *Read();
    help_.crew = &crew_;
    const PeftContent helped = *Read();
    EXPECT_EQ(alone.folders[0].weights.view(), weights);
    EXPECT_EQ(helped.folders[0].weights.view(), weights);
    EXPECT_EQ(ContentHash(helped), AdapterHash(alone.folders[0]));
    EXPECT_EQ(ContentHash(alone), ContentHash(helped));
    EXPECT_EQ(ContentHash(helped), ContentHash(helped)) << "asked again";
  }
  EXPECT_EQ(ContentHash(*ReadAdapter(SourcePath("demo/adapters/austen"), kMaxBytes, {},
                                     TextFileUse::kNone, help_)),
            "b41d2bde4c2c9debe22efc517ce4b157c03a3e31046c31d9c79eda12fcc3e5ab");
}

TEST_F(ContentReadingTest, WhatIsRememberedIsNotHashedAgain) {
  Remembering(0);
  WriteAdapter(path_, "{}", LongWeights('x'));
  LetClockTick();
  EXPECT_EQ(Remembered(), "");
  const std::string hash = Hash();
  EXPECT_EQ(Remembered(), hash);
  EXPECT_EQ(memory_->num_entries(), 1);
  // Nothing is learned anew where it is known.
  EXPECT_EQ(Hash(), hash);
  EXPECT_EQ(memory_->num_entries(), 1);
  // Texts and config are part of what is known.
  WriteFile(path_ + "/chat_template.jinja", "hi");
  EXPECT_EQ(Remembered(), "");
  EXPECT_EQ(Remembered(TextFileUse::kNone), hash);
  const std::string with_text = Hash();
  EXPECT_NE(with_text, hash);
  EXPECT_EQ(Remembered(), with_text);
  WriteFile(path_ + "/adapter_config.json", "{ }");
  EXPECT_EQ(Remembered(), "");
  EXPECT_EQ(Remembered(TextFileUse::kNone), "");
}

TEST_F(ContentReadingTest, AFileThatWasWrittenSinceIsHashedAgain) {
  Remembering(0);
  WriteAdapter(path_, "{}", LongWeights('x'));
  LetClockTick();
  const std::string hash = Hash();
  ASSERT_EQ(Remembered(), hash);
  // The same size, and the same time of change as far as a program can set it.
  const std::string weights = path_ + "/adapter_model.safetensors";
  const auto time = std::filesystem::last_write_time(weights);
  WriteFile(weights, LongWeights('y'));
  std::filesystem::last_write_time(weights, time);
  EXPECT_EQ(Remembered(), "");
  help_.memory = nullptr;
  const std::string now = Hash();
  help_.memory = memory_.get();
  EXPECT_NE(now, hash);
  EXPECT_EQ(Hash(), now);
}

// It could be written again within the same tick of its clock, which nothing would tell.
TEST_F(ContentReadingTest, AFileThatWasJustWrittenIsNotRemembered) {
  Remembering(int64_t{3600} * 1'000'000'000);
  WriteAdapter(path_, "{}", LongWeights('x'));
  const std::string hash = Hash();
  EXPECT_EQ(memory_->num_entries(), 0);
  EXPECT_EQ(Remembered(), "");
  WriteFile(path_ + "/adapter_model.safetensors", LongWeights('y'));
  EXPECT_NE(Hash(), hash);
}

// Opened, then written, then read: the bytes are hashed, whatever was known of those before.
TEST_F(ContentReadingTest, AFileThatChangesWhileItIsReadIsHashedAndForgotten) {
  Remembering(0);
  WriteAdapter(path_, "{}", LongWeights('x'));
  LetClockTick();
  const std::string hash = Hash();
  const std::string weights = path_ + "/adapter_model.safetensors";
  const auto open = [&] {
    std::vector<OpenedAdapterFolder> folders(1);
    folders[0] = {.path = path_, .config = "{}", .weights = *FileJail().Open(weights, kMaxBytes)};
    return std::make_unique<ContentReading>(std::move(folders), FileTimeNow(), help_);
  };
  const auto reading = open();
  ASSERT_TRUE(reading->KnownHash({}).has_value());
  testing::WriteFile(weights, LongWeights('y'));
  ASSERT_TRUE(reading->Read(/*hashes=*/false).ok());
  EXPECT_EQ(reading->weights(0).data()[0], 'y');
  const std::string read = reading->Hash({});
  EXPECT_NE(read, hash);
  EXPECT_EQ(memory_->num_entries(), 1) << "nothing was learned";
  help_.memory = nullptr;
  EXPECT_EQ(Hash(), read);
}

TEST_F(ContentReadingTest, AFileThatIsCutShortFailsThatReadingAlone) {
  for (WorkCrew* const crew : {static_cast<WorkCrew*>(nullptr), &crew_}) {
    help_.crew = crew;
    WriteAdapter(path_, "{}", LongWeights('x'));
    const std::string weights = path_ + "/adapter_model.safetensors";
    std::vector<OpenedAdapterFolder> folders(1);
    folders[0] = {.path = path_, .config = "{}", .weights = *FileJail().Open(weights, kMaxBytes)};
    ContentReading reading(std::move(folders), FileTimeNow(), help_);
    std::filesystem::resize_file(weights, 2'500'000);
    const Status status = reading.Read(/*hashes=*/true);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("became shorter"));
    EXPECT_EQ(Read()->folders[0].weights.bytes(), 2'500'000);
  }
}

// Between the pieces of a reading, on all threads of it, and nothing is remembered of the half.
TEST_F(ContentReadingTest, UnwantedReadingEnds) {
  Remembering(0);
  WriteAdapter(path_, "{}", LongWeights('x'));
  LetClockTick();
  std::atomic<bool> is_unwanted = true;
  for (WorkCrew* const crew : {static_cast<WorkCrew*>(nullptr), &crew_}) {
    help_.crew = crew;
    std::vector<OpenedAdapterFolder> folders(1);
    folders[0] = {.path = path_,
                  .config = "{}",
                  .weights = *FileJail().Open(path_ + "/adapter_model.safetensors", kMaxBytes)};
    const WatchedWork watched(is_unwanted);
    ContentReading reading(std::move(folders), FileTimeNow(), help_);
    EXPECT_EQ(reading.Read(/*hashes=*/true).code(), StatusCode::kCancelled);
    EXPECT_EQ(reading.weights(0).data()[LongWeights('x').size() - 1], 0) << "it was read";
  }
  EXPECT_EQ(memory_->num_entries(), 0);
  EXPECT_EQ(Read()->folders[0].weights.view(), LongWeights('x'));
}

TEST_F(ContentReadingTest, BundlesAreHashedOverBothParts) {
  WriteAdapter(path_ + "/lora", R"({"peft_type": "LORA"})", LongWeights('x'));
  WriteFile(path_ + "/graft.json", R"({"format": 1})");
  const std::string alone = Hash();
  help_.crew = &crew_;
  EXPECT_EQ(Hash(), alone);
  const PeftContent content = *Read();
  ASSERT_EQ(content.folders.size(), 2u);
  EXPECT_TRUE(content.folders[1].path.empty());
  PeftContent bytes = content;
  bytes.reading = nullptr;
  EXPECT_EQ(ContentHash(bytes), alone);
  Remembering(0);
  LetClockTick();
  EXPECT_EQ(Hash(), alone);
  EXPECT_GE(memory_->num_entries(), 1);
  EXPECT_EQ(Hash(), alone);
}

}  // namespace
}  // namespace graft
