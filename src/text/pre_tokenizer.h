// The pre-tokenizer of a tokenizer.json: cuts a normalized text into the words that the model
// tokenizes one by one. Immutable, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/pattern.h"
#include "text/text_arena.h"
#include "text/token_model.h"

namespace graft {

class PreTokenizer {
 public:
  PreTokenizer() = default;  // one word
  // `json` may be null. kUnimplemented names a type that is not supported.
  static Result<PreTokenizer> Parse(const Json& json);

  // Cuts `words` in place; new text lives in `arena`.
  Status Apply(std::vector<Word>* words, TextArena* arena) const;

  // Whether some of the text may be in no word.
  bool DropsText() const;
  // Whether the words are spelled in the byte-level alphabet.
  bool MakesByteLevel() const;

 private:
  enum class Kind { kSplit, kByteLevel, kMetaspace, kCharacter };
  enum class PrependScheme { kNever, kFirst, kAlways };
  using CharacterTest = bool (*)(char32_t);
  struct Step {
    Kind kind;
    std::optional<Pattern> pattern;  // of kSplit and kByteLevel: absent means no split
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
    bool add_prefix_space = false;  // of kByteLevel
    std::string replacement;        // of kMetaspace
    PrependScheme prepend = PrependScheme::kAlways;
    CharacterTest test = nullptr;  // of kCharacter
    char32_t delimiter = 0;        // of kCharacter without a test
  };

  Status AddSteps(const Json& json);
  static Result<Step> ParseStep(const Json& json, const std::string& type);
  static Result<Step> ParseSplit(const Json& json);
  static Result<Step> ParseByteLevel(const Json& json);
  static Result<Step> ParseMetaspace(const Json& json);
  static Result<Step> ParseCharacterStep(const Json& json, const std::string& type);

  static Status ApplyStep(const Step& step, std::vector<Word>* words, TextArena* arena);
  static std::string_view Prepare(const Step& step, const Word& word, TextArena* arena);
  static Status Cut(const Step& step, std::string_view text, std::vector<TextCut>* cuts);

  std::vector<Step> steps_;
};

}  // namespace graft
