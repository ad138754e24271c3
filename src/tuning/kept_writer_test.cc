#include "tuning/kept_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace graft {
namespace {

namespace fs = std::filesystem;

// Two tokens by the order's seed, each with two likeliest ones; of an empty prompt none.
class CountingWriter : public TextWriter {
 public:
  Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) override {
    ++num_calls;
    if (fails) return UnavailableError("no engine");
    std::vector<TaughtText> texts;
    for (const WriteOrder& order : orders) {
      const auto token = static_cast<int32_t>(order.seed);
      if (order.prompt.empty()) {
        texts.emplace_back();
      } else {
        texts.push_back({{token, 2}, {token, 8, 2, 9}, {0.5f, 0.25f, 0.75f, 0.125f}});
      }
    }
    return texts;
  }
  int32_t num_choices() const override { return 2; }

  int num_calls = 0;
  bool fails = false;
};

class KeptWriterTest : public testing::Test {
 protected:
  KeptWriterTest() { fs::remove_all(folder_); }
  ~KeptWriterTest() override { fs::remove_all(folder_); }

  void ExpectTexts(const Result<std::vector<TaughtText>>& texts) {
    ASSERT_TRUE(texts.ok()) << texts.status().ToString();
    ASSERT_EQ(texts->size(), 2u);
    EXPECT_EQ((*texts)[0].tokens, std::vector<int32_t>({7, 2}));
    EXPECT_EQ((*texts)[0].ids, std::vector<int32_t>({7, 8, 2, 9}));
    EXPECT_EQ((*texts)[0].probabilities, std::vector<float>({0.5f, 0.25f, 0.75f, 0.125f}));
    EXPECT_TRUE((*texts)[1].tokens.empty());
  }

  const std::string folder_ =
      (fs::path(testing::TempDir()) / ("kept-" + std::to_string(getpid()))).string();
  CountingWriter writer_;
  const std::vector<WriteOrder> orders_ = {{.prompt = {1, 2}, .tokens_max = 4, .seed = 7},
                                           {.tokens_max = 4, .seed = 8}};
};

TEST_F(KeptWriterTest, TheSameOrdersAreWrittenOnce) {
  for (int i = 0; i < 2; ++i) {
    ExpectTexts(KeptWriter(writer_, folder_, "base").Write(orders_));
    EXPECT_EQ(writer_.num_calls, 1);
  }
}

TEST_F(KeptWriterTest, WhatIsKeptForTheFirstTimeIsTold) {
  int num_told = 0;
  for (int i = 0; i < 2; ++i) {
    ExpectTexts(KeptWriter(writer_, folder_, "base", [&] { ++num_told; }).Write(orders_));
    EXPECT_EQ(num_told, 1);
  }
}

TEST_F(KeptWriterTest, WhateverDiffersIsWrittenAnew) {
  std::vector<std::vector<WriteOrder>> others(6, orders_);
  others[0][0].prompt = {1, 3};
  others[1][0].given = {5};
  others[2][0].tokens_max = 5;
  others[3][0].seed = 9;
  others[4][0].temperature = 0.0f;
  others[5][0].top_p = 0.5f;
  KeptWriter kept(writer_, folder_, "base");
  ASSERT_TRUE(kept.Write(orders_).ok());
  for (size_t i = 0; i < others.size(); ++i) {
    ASSERT_TRUE(kept.Write(others[i]).ok());
    EXPECT_EQ(writer_.num_calls, static_cast<int>(i) + 2);
  }
  ASSERT_TRUE(KeptWriter(writer_, folder_, "another base").Write(orders_).ok());
  EXPECT_EQ(writer_.num_calls, 8);
}

TEST_F(KeptWriterTest, ADamagedFileCountsAsNone) {
  KeptWriter kept(writer_, folder_, "base");
  ASSERT_TRUE(kept.Write(orders_).ok());
  const fs::path file = fs::directory_iterator(folder_)->path();
  const auto size = static_cast<std::streamoff>(fs::file_size(file));
  for (const std::streamoff at : {std::streamoff{3}, size - 1}) {
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(at).put('\x7f');
    ExpectTexts(kept.Write(orders_));
  }
  fs::resize_file(file, 10);
  ExpectTexts(kept.Write(orders_));
  EXPECT_EQ(writer_.num_calls, 4);
  ExpectTexts(kept.Write(orders_));
  EXPECT_EQ(writer_.num_calls, 4);
}

TEST_F(KeptWriterTest, NothingIsKeptOfAWriterThatFails) {
  writer_.fails = true;
  EXPECT_EQ(KeptWriter(writer_, folder_, "base").Write(orders_).status().code(),
            StatusCode::kUnavailable);
  writer_.fails = false;
  ExpectTexts(KeptWriter(writer_, folder_, "base").Write(orders_));
}

// What took hours to write is not lost to a full disk.
TEST_F(KeptWriterTest, AFolderThatCannotBeMadeCostsNoText) {
  std::ofstream(folder_) << "a file";
  ExpectTexts(KeptWriter(writer_, folder_, "base", [] { ADD_FAILURE(); }).Write(orders_));
}

}  // namespace
}  // namespace graft
