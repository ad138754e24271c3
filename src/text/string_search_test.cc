#include "text/string_search.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace graft {
namespace {

TEST(StringSearchTest, FindsTheLastPlace) {
  EXPECT_EQ(FindLast("one two one", "one"), 8u);
  EXPECT_EQ(FindLast("one two one", "two"), 4u);
  EXPECT_EQ(FindLast("aaa", "aa"), 1u);
  EXPECT_EQ(FindLast("one", "three"), std::string_view::npos);
  EXPECT_EQ(FindLast("one", ""), 3u);
  Random random(11);
  const auto text_of = [&random](size_t size_max) {
    std::string text(random.Below(size_max + 1), 'a');
    for (char& c : text) c = "ab"[random.Below(2)];
    return text;
  };
  for (int round = 0; round < 20'000; ++round) {
    const std::string text = text_of(24);
    const std::string part = text_of(5);
    EXPECT_EQ(FindLast(text, part), text.rfind(part)) << text << " " << part;
  }
}

TEST(StringSearchTest, ThePrefixFunctionIsThat) {
  EXPECT_EQ(PrefixFunction("abacabab"), (std::vector<uint32_t>{0, 0, 1, 0, 1, 2, 3, 2}));
  EXPECT_EQ(PrefixFunction("aaaa"), (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_TRUE(PrefixFunction("").empty());
}

// Texts that repeat themselves drive up searches that begin anew at each place, and tables that are
// made with a comparison for each pair of places.
TEST(StringSearchTest, ItsWorkIsLinear) {
  const size_t size = size_t{1} << 20;
  const std::string same(size, 'a');
  const std::string with_end = "b" + std::string(size / 2, 'a');
  const std::string in_the_middle = std::string(size / 4, 'a') + "b" + std::string(size / 4, 'a');
  for (const std::string& part : {same, with_end, in_the_middle}) {
    uint64_t num_compared = 0;
    FindLast(same, part, &num_compared);
    EXPECT_LE(num_compared, 2 * (same.size() + part.size()));
  }
}

}  // namespace
}  // namespace graft
