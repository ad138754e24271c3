#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "text/text_test_util.h"

namespace graft {
namespace {

StopMatcher Matcher(const std::vector<std::string>& stops, bool include_stop_text) {
  return StopMatcher(std::make_shared<StopStrings>(stops), include_stop_text);
}

TEST(StopMatcherTest, HoldsBackWhatMayBeAStop) {
  StopMatcher matcher = Matcher({"\n\n", "END"}, false);
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
  StopMatcher matcher = Matcher({"END"}, false);
  EXPECT_EQ(matcher.Push("the EN").text, "the ");
  EXPECT_EQ(matcher.Flush(), "EN");
}

TEST(StopMatcherTest, CanKeepTheStop) {
  StopMatcher matcher = Matcher({"END"}, true);
  const StopMatcher::Output output = matcher.Push("the END of it");
  EXPECT_TRUE(output.stopped);
  EXPECT_EQ(output.text, "the END");
}

TEST(StopMatcherTest, EmptyStopsMatchNothing) {
  StopMatcher matcher = Matcher({"", ""}, false);
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
    StopMatcher matcher = Matcher(stops, include);
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

// A stop that matches in part at every place, again and again: 16 of them were compared with every
// end of the text at each token.
TEST(StopMatcherTest, ItsWorkIsLinear) {
  std::vector<std::string> stops;
  for (size_t i = 0; i < 16; ++i) stops.push_back(std::string(1000 + i, 'a') + "b");
  StopMatcher matcher = Matcher(stops, false);
  const uint64_t num_tokens = 20'000;
  std::string text;
  for (uint64_t i = 0; i < num_tokens; ++i) text += matcher.Push("aaa").text;
  text += matcher.Flush();
  EXPECT_EQ(text, std::string(3 * num_tokens, 'a'));
  EXPECT_LE(matcher.num_compared(), 2 * 16 * 3 * num_tokens);
}

class SpecialStopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
      if (tokenizer_->IsSpecial(id)) specials_.push_back(id);
    }
    ASSERT_GE(specials_.size(), 2u);
    first_ = std::string(tokenizer_->TokenText(specials_[0]));
    second_ = std::string(tokenizer_->TokenText(specials_[1]));
  }
  StopMatcher Of(const std::vector<std::string>& stops, bool include_stop_text = false) {
    return StopMatcher(std::make_shared<StopStrings>(stops, *tokenizer_), include_stop_text);
  }
  StopMatcher::Output PushFirst(StopMatcher* matcher) {
    return matcher->PushSpecial(specials_[0], first_);
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = GoldenTokenizer(0);
  std::vector<int32_t> specials_;
  std::string first_;
  std::string second_;
};

TEST_F(SpecialStopTest, AStopMayBeOrEndInASpecialToken) {
  StopMatcher alone = Of({first_});
  EXPECT_EQ(alone.Push("text").text, "text");
  StopMatcher::Output output = PushFirst(&alone);
  EXPECT_TRUE(output.stopped);
  EXPECT_EQ(output.text, "");
  StopMatcher behind = Of({"x" + first_});
  EXPECT_EQ(behind.Push("ax").text, "a");
  output = PushFirst(&behind);
  EXPECT_TRUE(output.stopped);
  EXPECT_EQ(output.text, "");
  StopMatcher several = Of({first_ + second_});
  EXPECT_FALSE(PushFirst(&several).stopped);
  EXPECT_TRUE(several.PushSpecial(specials_[1], second_).stopped);
  StopMatcher between = Of({"a" + first_ + "b"});
  EXPECT_EQ(between.Push("ca").text, "c");
  EXPECT_FALSE(PushFirst(&between).stopped);
  EXPECT_TRUE(between.Push("bc").stopped);
  StopMatcher kept = Of({"x" + first_}, /*include_stop_text=*/true);
  kept.Push("a");
  kept.Push("x");
  EXPECT_EQ(PushFirst(&kept).text, "x" + first_);
}

TEST_F(SpecialStopTest, ATokenThatStopsNothingIsNoText) {
  StopMatcher matcher = Of({first_ + "b", "cd"});
  EXPECT_EQ(matcher.Push("a").text, "a");
  EXPECT_EQ(PushFirst(&matcher).text, "");
  EXPECT_EQ(matcher.Push("ac").text, "a");
  EXPECT_EQ(PushFirst(&matcher).text, "") << "the other stop does not see it";
  EXPECT_TRUE(matcher.Push("d").stopped);
  StopMatcher other = Of({second_});
  EXPECT_EQ(PushFirst(&other).stopped, false);
  EXPECT_EQ(other.Push("a").text + other.Flush(), "a");
}

// What a stream of texts and special tokens (1 and 2) gives, found by looking at all of it: each
// stop in the stream without the special tokens that it does not spell out.
std::string NaiveCut(const std::string& stream, const std::vector<std::string>& stops,
                     const std::map<char, std::string>& specials) {
  size_t first_end = std::string::npos;  // in bytes of the whole stream, special tokens spelled out
  size_t longest = 0;
  size_t num_visible = 0;
  for (const std::string& stop : stops) {
    std::string seen;
    std::vector<size_t> ends;      // of each byte that is seen, in the whole stream
    std::vector<size_t> visibles;  // and how many visible ones come before it
    size_t at = 0, visible = 0;
    for (const char c : stream) {
      const auto special = specials.find(c);
      const std::string text = special == specials.end() ? std::string(1, c) : special->second;
      const bool sees = special == specials.end() || stop.find(text) != std::string::npos;
      for (const char byte : text) {
        ++at;
        if (!sees) continue;
        seen += byte;
        ends.push_back(at);
        visibles.push_back(visible);
      }
      visible += special == specials.end() ? 1 : 0;
    }
    const size_t begin = seen.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = ends[begin + stop.size() - 1];
    if (end > first_end || (end == first_end && stop.size() < longest)) continue;
    first_end = end;
    longest = stop.size();
    num_visible = visibles[begin];
  }
  std::string text;
  for (const char c : stream) text += specials.contains(c) ? "" : std::string(1, c);
  return first_end == std::string::npos ? text : text.substr(0, num_visible);
}

TEST_F(SpecialStopTest, StopsWhereAStopIsInWhatItSees) {
  const std::map<char, std::string> specials = {{'1', first_}, {'2', second_}};
  Random random(9);
  const auto random_stream = [&random](size_t size) {
    std::string stream(size, 'a');
    for (char& c : stream) c = "aab12"[random.Below(5)];
    return stream;
  };
  int num_stopped = 0;
  for (int round = 0; round < 5'000; ++round) {
    std::vector<std::string> stops;
    for (uint64_t i = 1 + random.Below(3); i > 0; --i) {
      std::string stop;
      for (const char c : random_stream(1 + random.Below(4))) {
        stop += specials.contains(c) ? specials.at(c) : std::string(1, c);
      }
      stops.push_back(std::move(stop));
    }
    const std::string stream = random_stream(random.Below(16));
    StopMatcher matcher = Of(stops);
    std::string sent;
    bool stopped = false;
    for (const char c : stream) {
      if (stopped) break;
      const StopMatcher::Output output =
          c == '1' || c == '2'
              ? matcher.PushSpecial(specials_[static_cast<size_t>(c - '1')], specials.at(c))
              : matcher.Push(std::string(1, c));
      sent += output.text;
      stopped = output.stopped;
    }
    sent += matcher.Flush();
    num_stopped += stopped ? 1 : 0;
    EXPECT_EQ(sent, NaiveCut(stream, stops, specials)) << stream << " " << stops[0];
  }
  EXPECT_GT(num_stopped, 1000);
}

}  // namespace
}  // namespace graft
