#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace graft {
namespace {

TEST(StopMatcherTest, HoldsBackWhatMayBeAStop) {
  StopMatcher matcher({"\n\n", "END"}, false);
  EXPECT_EQ(matcher.Push("one\n").text, "one");
  EXPECT_EQ(matcher.Push("two E").text, "\ntwo ");
  EXPECT_EQ(matcher.Push("N").text, "");
  const StopMatcher::Output output = matcher.Push("D and more");
  EXPECT_TRUE(output.stopped);
  EXPECT_EQ(output.text, "");
  EXPECT_TRUE(matcher.Push("more").stopped);
  EXPECT_EQ(matcher.Push("more").text, "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, FlushGivesBackTheStartOfAStop) {
  StopMatcher matcher({"END"}, false);
  EXPECT_EQ(matcher.Push("the EN").text, "the ");
  EXPECT_EQ(matcher.Flush(), "EN");
}

TEST(StopMatcherTest, CanKeepTheStop) {
  StopMatcher matcher({"END"}, true);
  const StopMatcher::Output output = matcher.Push("the END of it");
  EXPECT_TRUE(output.stopped);
  EXPECT_EQ(output.text, "the END");
}

TEST(StopMatcherTest, EmptyStopsMatchNothing) {
  StopMatcher matcher({"", ""}, false);
  const StopMatcher::Output output = matcher.Push("text");
  EXPECT_FALSE(output.stopped);
  EXPECT_EQ(output.text, "text");
}

// What is left of `text` before a stop. Looks at every end of the text from left to right.
std::string NaiveCut(const std::string& text, const std::vector<std::string>& stops, bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string head = text.substr(0, end);
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (head.ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return include ? head : head.substr(0, end - longest);
  }
  return text;
}

TEST(StopMatcherTest, DoesNotDependOnThePieces) {
  Random random(5);
  const auto random_text = [&](size_t size_max) {
    std::string text(random.Below(size_max + 1), 'a');
    for (char& c : text) c = "abc"[random.Below(3)];
    return text;
  };
  for (int round = 0; round < 20'000; ++round) {
    const bool include = random.Below(2) == 0;
    std::vector<std::string> stops;
    for (uint64_t i = random.Below(4); i > 0; --i) stops.push_back("a" + random_text(4));
    const std::string text = random_text(30);
    StopMatcher matcher(stops, include);
    std::string sent;
    bool stopped = false;
    for (size_t pos = 0; pos < text.size() && !stopped;) {
      const size_t bytes = 1 + random.Below(5);
      const StopMatcher::Output output = matcher.Push(text.substr(pos, bytes));
      sent += output.text;
      stopped = output.stopped;
      pos += bytes;
    }
    sent += matcher.Flush();
    EXPECT_EQ(sent, NaiveCut(text, stops, include)) << text;
  }
}

}  // namespace
}  // namespace graft
