// Regex: a regular expression over Unicode text with the meaning that it has for Oniguruma, the
// engine of HF's `tokenizers`, run by PCRE2. What the two read differently is translated, or
// refused by name. Matching has a limit, past which it is an error. Immutable, any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/text_range.h"

namespace graft {

class Regex {
 public:
  // kInvalidArgument where the pattern is wrong, kUnimplemented where it uses what is not
  // supported.
  static Result<Regex> Compile(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // All matches from left to right, not overlapping; `text` is valid UTF-8. kResourceExhausted
  // where the text drives the pattern past the match limit.
  Status FindAll(std::string_view text, std::vector<TextRange>* matches) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

// The pattern in PCRE2's words. Public for its tests.
Result<std::string> TranslateRegex(std::string_view pattern);

}  // namespace graft
