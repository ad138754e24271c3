// StopMatcher watches a stream of text for stop strings, which may lie across its pieces. Text that
// may be the start of a stop is held back until it is known not to be. A stop may contain special
// tokens. These are not part of the text, but the matcher sees them in their places. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

class Tokenizer;

// The stop strings of a request. Immutable: all of its choices share them; any thread.
class StopStrings {
 public:
  struct Stop {
    std::string text;
    std::vector<uint32_t> prefixes;       // PrefixFunction of it
    std::vector<int32_t> special_tokens;  // that it spells out
  };

  // Empty strings are left out.
  explicit StopStrings(const std::vector<std::string>& stops);
  // With the special tokens that they spell out.
  StopStrings(const std::vector<std::string>& stops, const Tokenizer& tokenizer);

  const std::vector<Stop>& stops() const { return stops_; }
  // Whether one of them spells out this special token.
  bool Spells(int32_t token) const;

 private:
  std::vector<Stop> stops_;
};

// One thread. Compares at most two characters for each one pushed and each stop.
class StopMatcher {
 public:
  // `stops` may be null: none. `include_stop_text`: the stop that matched ends the output.
  StopMatcher(std::shared_ptr<const StopStrings> stops, bool include_stop_text);

  struct Output {
    std::string text;  // safe to send
    bool stopped;      // a stop has matched; whatever follows is dropped
  };
  // The stop that is complete first counts and, of stops that end together, the longest. So the
  // result does not depend on how the text is cut into pieces.
  Output Push(std::string_view text);
  // A special token that is no part of the output: the stops that spell it out see its text.
  Output PushSpecial(int32_t token, std::string_view token_text);
  // The text held back, at the end of a stream that did not stop.
  std::string Flush();

  uint64_t num_compared() const { return num_compared_; }  // characters

 private:
  // A special token, by where its text lies in what a stop has seen.
  struct Special {
    int64_t begin;
    int64_t size;
  };
  struct State {
    uint32_t num_matched = 0;       // of the stop's bytes, at the end of what it has seen
    int64_t num_seen = 0;           // bytes
    std::vector<Special> specials;  // that may lie within the match
  };

  // Whether the stop is complete with this byte.
  bool Step(size_t stop_idx, char byte);
  // Bytes of the text at its end that are the stop's beginning, without those of special tokens.
  int64_t VisibleBytes(size_t stop_idx);
  // The longest of `complete`, all of which end here, ends the output.
  Output Stop(const std::vector<size_t>& complete);
  // What no stop may begin with any more.
  std::string Release();

  const std::shared_ptr<const StopStrings> stops_;
  const bool include_stop_text_;
  bool stopped_ = false;
  std::vector<State> states_;  // one per stop
  std::string held_;
  uint64_t num_compared_ = 0;
};

}  // namespace graft
