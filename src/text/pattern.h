// What a tokenizer.json calls a pattern: a string taken as it is, or a regex. Cuts a text into
// matches and what lies between them, and joins the cuts as a split behavior says. Immutable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/regex.h"

namespace graft {

// A cut of a text: a match, or the stretch between two.
struct TextCut {
  size_t begin;
  size_t end;
  bool is_match;
};

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Result<SplitBehavior> ParseSplitBehavior(const std::string& name);

// The cuts joined by `behavior`; kRemoved drops the matches. The result may hold empty ranges.
void JoinCuts(const std::vector<TextCut>& cuts, SplitBehavior behavior,
              std::vector<TextRange>* ranges);

class Pattern {
 public:
  // {"String": "x"}, {"Regex": "x"}, or a plain string.
  static Result<Pattern> Parse(const Json& json);
  static Pattern OfString(std::string text);

  // Every byte of `text` lies in exactly one cut.
  Status Cut(std::string_view text, std::vector<TextCut>* cuts) const;
  // Every match replaced by `content`.
  Result<std::string> ReplaceAll(std::string_view text, std::string_view content) const;

  // The string, where the pattern is one.
  const std::optional<std::string>& plain() const { return plain_; }

 private:
  Pattern() = default;
  Status FindAll(std::string_view text, std::vector<TextRange>* matches) const;

  std::optional<std::string> plain_;
  std::optional<Regex> regex_;
};

}  // namespace graft
