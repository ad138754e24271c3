#include "options/option.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "options/command.h"
#include "options/markdown.h"

namespace graft {
namespace {

enum class Size : uint8_t { kSmall, kLarge };
constexpr OptionWord<Size> kSizes[] = {{Size::kSmall, "small"}, {Size::kLarge, "large"}};

std::string ErrorOf(const OptionTarget& target, const std::vector<std::string>& texts) {
  return target.set(texts).message();
}

TEST(OptionTest, NumbersAreCheckedAgainstTheirRange) {
  int32_t value = 7;
  const OptionTarget target = Number(value, Between(1, 2048));
  EXPECT_EQ(target.initial, "7");
  EXPECT_EQ(target.range, "1 to 2048");
  EXPECT_EQ(ErrorOf(target, {"0"}), "must be between 1 and 2048, got 0");
  EXPECT_EQ(ErrorOf(target, {"99999999999"}), "must be between 1 and 2048, got 99999999999");
  EXPECT_EQ(ErrorOf(target, {"ten"}), "must be a whole number between 1 and 2048, got 'ten'");
  EXPECT_EQ(ErrorOf(target, {"10x"}), "must be a whole number between 1 and 2048, got '10x'");
  EXPECT_EQ(value, 7);
  EXPECT_TRUE(target.set({"2048"}).ok());
  EXPECT_EQ(value, 2048);
}

TEST(OptionTest, NumbersMayBeWrittenInAnotherUnit) {
  int64_t bytes = 512 * kMibInBytes;
  const OptionTarget target = NumberIn(kMibInBytes, bytes, AtLeast(1));
  EXPECT_EQ(target.initial, "512");
  EXPECT_EQ(target.range, "1 or more");
  EXPECT_TRUE(target.set({"16"}).ok());
  EXPECT_EQ(bytes, int64_t{16} << 20);
  EXPECT_EQ(ErrorOf(target, {"0"}), "must be 1 or more, got 0");
  EXPECT_EQ(ErrorOf(target, {"x"}), "must be a whole number 1 or more, got 'x'");
  EXPECT_EQ(ErrorOf(target, {"9000000000000"}), "must be 1 or more, got 9000000000000");
  EXPECT_EQ(bytes, int64_t{16} << 20);
}

TEST(OptionTest, FractionsMayHaveOpenRangesAndNeverBecomeNothing) {
  double share = 0.25;
  const OptionTarget target = Number(share, Inside(0, 1));
  for (const char* text : {"0", "1", "nan", "inf", "1e999", "-0.5"}) {
    EXPECT_NE(ErrorOf(target, {text}), "") << text;
  }
  EXPECT_TRUE(target.set({"1e-3"}).ok());
  EXPECT_EQ(share, 1e-3);
  EXPECT_EQ(ErrorOf(Number(share, Above(0)), {"0"}), "must be above 0, got 0");
  EXPECT_EQ(ErrorOf(Number(share), {"x"}), "must be a number, got 'x'");
}

TEST(OptionTest, SmallTypesHaveTheirOwnBounds) {
  uint16_t port = 8000;
  EXPECT_EQ(ErrorOf(Number(port), {"99999"}), "must be between 0 and 65535, got 99999");
  EXPECT_EQ(ErrorOf(Number(port), {"-1"}), "must be between 0 and 65535, got -1");
  uint64_t seed = 0;
  EXPECT_TRUE(Number(seed).set({"18446744073709551615"}).ok());
  EXPECT_EQ(seed, UINT64_MAX);
}

TEST(OptionTest, ListsOfNumbersTakeCommasAndRepetition) {
  std::vector<int32_t> ranks = {8, 16};
  const OptionTarget target = Numbers(ranks, Between(1, 256));
  EXPECT_EQ(target.initial, "8,16");
  EXPECT_TRUE(target.set({"1,2", "3"}).ok());
  EXPECT_EQ(ranks, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(ErrorOf(target, {"4,257"}), "must be between 1 and 256, got 257");
  EXPECT_NE(ErrorOf(target, {"4,,5"}), "");
  EXPECT_EQ(ErrorOf(Numbers(ranks, {}, 2), {"1,2,3"}),
            "must be 2 numbers with commas between them, got 3");
  EXPECT_EQ(ranks, (std::vector<int32_t>{1, 2, 3}));
}

TEST(OptionTest, BooleansAreYamlsInAnyCase) {
  bool value = false;
  const OptionTarget target = Boolean(value);
  for (const char* yes : {"true", "True", "TRUE", "yes", "Yes", "ON", "1", "y"}) {
    value = false;
    EXPECT_TRUE(target.set({yes}).ok() && value) << yes;
  }
  for (const char* no : {"false", "False", "FALSE", "No", "OFF", "0", "n"}) {
    value = true;
    EXPECT_TRUE(target.set({no}).ok() && !value) << no;
  }
  EXPECT_EQ(ErrorOf(target, {"maybe"}), "must be true or false, got 'maybe'");
}

TEST(OptionTest, WordsAreThoseOfTheirTable) {
  Size size = Size::kLarge;
  const OptionTarget target = OneOf(size, kSizes);
  EXPECT_EQ(target.initial, "large");
  EXPECT_EQ(target.type, "small|large");
  EXPECT_EQ(ErrorOf(target, {"huge"}), "must be small or large, got 'huge'");
  EXPECT_TRUE(target.set({"small"}).ok());
  EXPECT_EQ(size, Size::kSmall);
  std::vector<Size> sizes = {Size::kSmall};
  EXPECT_TRUE(SomeOf(sizes, kSizes).set({"large,small", "large"}).ok());
  EXPECT_EQ(sizes, (std::vector<Size>{Size::kLarge, Size::kSmall, Size::kLarge}));
}

TEST(OptionTest, MarkdownNamesAnOptionOnceWhereTwoCommandsHaveIt) {
  int32_t threads = 0, other = 4;
  bool quiet = false;
  const auto threads_row = [](int32_t& value) {
    return Option{"threads", Number(value, AtLeast(0)), "kernel threads"};
  };
  Size size = Size::kSmall;
  const Command program{
      .name = "graft",
      .subcommands = {
          {.name = "serve",
           .groups = {{"A", {threads_row(threads), {"size,extent", OneOf(size, kSizes), "a|b"}}}}},
          {.name = "run", .groups = {{"A", {threads_row(threads)}}}},
          {.name = "bench",
           .groups = {{"A",
                       {threads_row(other),
                        {"quiet", Switch(quiet), "q"},
                        {.name = "loud", .target = Removed("no", "?"), .is_removed = true}}}}},
          {.name = "worker", .groups = {{"A", {threads_row(other)}}}, .is_hidden = true}}};
  EXPECT_EQ(OptionsMarkdown(program),
            "### graft serve\n\n"
            "| flag | values | default | |\n|---|---|---|---|\n"
            "| `--threads` | 0 or more | 0 | kernel threads |\n"
            "| `--size`, `--extent` | `small\\|large` | small | a\\|b |\n"
            "\n### graft run\n\n"
            "Also, as above: `--threads`.\n"
            "\n### graft bench\n\n"
            "| flag | values | default | |\n|---|---|---|---|\n"
            "| `--threads` | 0 or more | 4 | kernel threads |\n"
            "| `--quiet` |  |  | q |\n");
}

}  // namespace
}  // namespace graft
