// The normalizer of a tokenizer.json: rewrites a text before it is split. Immutable, any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace graft {

class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  // `json` may be null. kUnimplemented names a type that is not supported.
  static Result<Normalizer> Parse(const Json& json);

  bool empty() const { return steps_.empty(); }
  // `text` is valid UTF-8 and stays so. `*starts_later` (where asked for) becomes true if the start
  // of the original text was stripped off: what is left does not stand at the start any more.
  Status Apply(std::string* text, bool* starts_later = nullptr) const;

  // The same where some ranges of the text are marked: `*marked` becomes what was made of them, or
  // all of the text where that cannot be told.
  Status ApplyMarked(std::string* text, TextRanges* marked, bool* starts_later) const;

  // How many bytes of a text (`ascii`: of one that is all ASCII) can become one byte at most;
  // nothing where there is no bound.
  std::optional<size_t> ShrinkMax(bool ascii) const;
  // Whether the text is spelled in the byte-level alphabet afterwards.
  bool MakesByteLevel() const;

 private:
  enum class Kind { kUnicode, kPrepend, kReplace, kLowercase, kStrip, kStripAccents, kByteLevel };
  struct Step {
    Kind kind;
    NormalForm form = NormalForm::kNfc;
    std::string content;             // of kPrepend and kReplace
    std::optional<Pattern> pattern;  // of kReplace
    bool left = false;               // of kStrip
    bool right = false;
  };
  Status AddSteps(const Json& json);
  static Result<Step> ParseStep(const Json& json, const std::string& type);
  static Status ApplyStep(const Step& step, std::string* text);
  static Status ApplyStepMarked(const Step& step, std::string* text, TextRanges* marked);
  // Whether the step takes white space off the start of this text.
  static bool StripsStart(const Step& step, std::string_view text);

  std::vector<Step> steps_;
};

}  // namespace graft
