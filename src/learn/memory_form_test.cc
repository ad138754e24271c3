#include "learn/memory_form.h"

#include <gtest/gtest.h>

#include <numeric>

namespace graft {
namespace {

std::vector<int32_t> Tokens(int32_t n) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

std::vector<int32_t> Kept(const MemoryReading& reading, size_t window, int32_t ReadText::Row::*of) {
  std::vector<int32_t> values;
  for (const ReadText::Row& row : reading.rows[window]) values.push_back(row.*of);
  return values;
}

using Values = std::vector<int32_t>;

// A memory without compression is the document's own keys and values, where they are.
TEST(MemoryFormTest, WithoutCompressionIsWhatWasRead) {
  const MemoryReading reading = ReadingOf(Values{1, 2}, Tokens(5), {}, 1);
  ASSERT_EQ(reading.windows.size(), 1u);
  EXPECT_EQ(reading.windows[0], (Values{1, 2, 100, 101, 102, 103, 104}));
  EXPECT_EQ(Kept(reading, 0, &ReadText::Row::row), (Values{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Kept(reading, 0, &ReadText::Row::token), (Values{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Kept(reading, 0, &ReadText::Row::position), (Values{0, 1, 2, 3, 4, 5, 6}));
}

// The last row of each piece, as far from what follows as it was: 7 tokens become 4.
TEST(MemoryFormTest, PiecesKeepTheirLastRow) {
  const MemoryReading reading = ReadingOf(Values{1, 2}, Tokens(5), {}, 4);
  EXPECT_EQ(Kept(reading, 0, &ReadText::Row::row), (Values{0, 1, 5, 6}));
  EXPECT_EQ(Kept(reading, 0, &ReadText::Row::position), (Values{-3, -2, 2, 3}));
  const MemoryReading close =
      ReadingOf(Values{1, 2}, Tokens(5), {.places = MemoryPlaces::kClose}, 4);
  EXPECT_EQ(Kept(close, 0, &ReadText::Row::position), (Values{0, 1, 2, 3}));
}

TEST(MemoryFormTest, WindowsStandBehindEachOther) {
  const MemoryForm form = {.window_tokens = 4};
  const MemoryReading reading = ReadingOf(Values{1}, Tokens(6), form, 2);
  ASSERT_EQ(reading.windows.size(), 2u);
  EXPECT_EQ(reading.windows[1], (Values{1, 103, 104, 105}));
  EXPECT_EQ(Kept(reading, 0, &ReadText::Row::row), (Values{0, 2, 3}));
  EXPECT_EQ(Kept(reading, 1, &ReadText::Row::row), (Values{2, 3})) << "the start stands once";
  EXPECT_EQ(Kept(reading, 1, &ReadText::Row::token), (Values{3, 4}));
  EXPECT_EQ(Kept(reading, 0, &ReadText::Row::position), (Values{-2, 0, 1}));
  EXPECT_EQ(Kept(reading, 1, &ReadText::Row::position), (Values{3, 4}));
}

TEST(MemoryFormTest, VirtualTokensAreSpreadOverTheirWindow) {
  const MemoryForm form = {.rows = MemoryRows::kBehind, .window_tokens = 4, .behind = 2};
  const MemoryReading reading = ReadingOf(Values{1}, Tokens(8), form, 2);
  EXPECT_EQ(Kept(reading, 1, &ReadText::Row::row), (Values{5, 6}));
  EXPECT_EQ(Kept(reading, 0, &ReadText::Row::position), (Values{-3, -1}));
  EXPECT_EQ(Kept(reading, 1, &ReadText::Row::position), (Values{1, 3}));
}

TEST(MemoryFormTest, AVirtualTokenStandsBehindEachPiece) {
  const MemoryForm form = {.rows = MemoryRows::kBetween};
  const MemoryReading reading = ReadingOf(Values{1, 2}, Tokens(5), form, 4);
  EXPECT_EQ(reading.windows[0], (Values{1, 2, 100, 101, 102, 103, -1, 104, -1}));
  EXPECT_EQ(Kept(reading, 0, &ReadText::Row::row), (Values{0, 1, 6, 8}));
  EXPECT_EQ(Kept(reading, 0, &ReadText::Row::position), (Values{-3, -2, 2, 3})) << "as of pieces";
  EXPECT_TRUE(reading.is_between);
}

TEST(MemoryFormTest, SizesAreThoseOfReadings) {
  for (const MemoryForm& form :
       {MemoryForm{}, MemoryForm{.window_tokens = 7},
        MemoryForm{.rows = MemoryRows::kBetween, .window_tokens = 7},
        MemoryForm{.rows = MemoryRows::kBehind, .window_tokens = 7, .behind = 3},
        MemoryForm{
            .carrier = MemoryCarrier::kStates, .rows = MemoryRows::kBehind, .window_tokens = 9}}) {
    for (const int32_t n : {1, 6, 7, 20, 50}) {
      for (const int32_t compression : {1, 2, 16}) {
        EXPECT_EQ(MemoryTokensOf(2, static_cast<size_t>(n), form, compression),
                  ReadingOf(Values{1, 2}, Tokens(n), form, compression).memory_tokens);
      }
    }
  }
}

}  // namespace
}  // namespace graft
