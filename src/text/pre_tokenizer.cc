#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/byte_level.h"
#include "text/json_field.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace graft {
namespace {

constexpr const char* kSupportedPreTokenizers =
    "Split, ByteLevel, Metaspace, Whitespace, WhitespaceSplit, Digits, Punctuation, "
    "CharDelimiterSplit, BertPreTokenizer, Sequence";

// GPT-2's split, which ByteLevel has built in.
constexpr const char* kByteLevelRegex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Rust's \w, which counts the two joiners in.
constexpr const char* kWhitespaceRegex = R"([\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+)";
constexpr const char* kMetaspace = "\xE2\x96\x81";  // U+2581

Result<Pattern> RegexPattern(const char* regex) { return Pattern::Parse(Json{{"Regex", regex}}); }

}  // namespace

Result<PreTokenizer> PreTokenizer::Parse(const Json& json) {
  PreTokenizer pre_tokenizer;
  if (!json.is_null()) RETURN_IF_ERROR(pre_tokenizer.AddSteps(json));
  return pre_tokenizer;
}

Status PreTokenizer::AddSteps(const Json& json) {
  ASSIGN_OR_RETURN(const std::string type, TypeOf(json, "pre-tokenizer"));
  if (type == "Sequence") {
    const auto list = json.find("pretokenizers");
    if (list == json.end() || !list->is_array()) {
      return InvalidArgumentError("pre-tokenizer Sequence has no list 'pretokenizers'");
    }
    for (const Json& member : *list) RETURN_IF_ERROR(AddSteps(member));
    return OkStatus();
  }
  if (type == "BertPreTokenizer") {
    steps_.push_back({.kind = Kind::kCharacter,
                      .behavior = SplitBehavior::kRemoved,
                      .test = IsUnicodeWhitespace});
    steps_.push_back({.kind = Kind::kCharacter, .test = IsUnicodePunctuation});
    return OkStatus();
  }
  Result<Step> step = ParseStep(json, type);
  if (!step.ok()) return step.status().WithContext("pre-tokenizer " + type);
  steps_.push_back(*std::move(step));
  return OkStatus();
}

Result<PreTokenizer::Step> PreTokenizer::ParseStep(const Json& json, const std::string& type) {
  if (type == "Split") return ParseSplit(json);
  if (type == "ByteLevel") return ParseByteLevel(json);
  if (type == "Metaspace") return ParseMetaspace(json);
  if (type == "Whitespace") {
    Step step{.kind = Kind::kSplit, .behavior = SplitBehavior::kRemoved, .invert = true};
    ASSIGN_OR_RETURN(step.pattern, RegexPattern(kWhitespaceRegex));
    return step;
  }
  return ParseCharacterStep(json, type);
}

Result<PreTokenizer::Step> PreTokenizer::ParseSplit(const Json& json) {
  Step step{.kind = Kind::kSplit};
  ASSIGN_OR_RETURN(step.pattern, Pattern::Parse(json.value("pattern", Json())));
  ASSIGN_OR_RETURN(const std::string behavior, StringField(json, "behavior", ""));
  ASSIGN_OR_RETURN(step.behavior, ParseSplitBehavior(behavior));
  ASSIGN_OR_RETURN(step.invert, BoolField(json, "invert", false));
  return step;
}

Result<PreTokenizer::Step> PreTokenizer::ParseByteLevel(const Json& json) {
  Step step{.kind = Kind::kByteLevel};
  ASSIGN_OR_RETURN(step.add_prefix_space, BoolField(json, "add_prefix_space", true));
  ASSIGN_OR_RETURN(const bool use_regex, BoolField(json, "use_regex", true));
  if (use_regex) {
    ASSIGN_OR_RETURN(step.pattern, RegexPattern(kByteLevelRegex));
  }
  return step;
}

Result<PreTokenizer::Step> PreTokenizer::ParseMetaspace(const Json& json) {
  Step step{.kind = Kind::kMetaspace, .behavior = SplitBehavior::kMergedWithNext};
  ASSIGN_OR_RETURN(step.replacement, StringField(json, "replacement", kMetaspace));
  if (!IsOneCodePoint(step.replacement)) {
    return InvalidArgumentError("field 'replacement' must be one character");
  }
  ASSIGN_OR_RETURN(const std::string scheme, StringField(json, "prepend_scheme", "always"));
  ASSIGN_OR_RETURN(const bool add_prefix_space, BoolField(json, "add_prefix_space", true));
  if (!add_prefix_space || scheme == "never") {
    step.prepend = PrependScheme::kNever;
  } else if (scheme == "first") {
    step.prepend = PrependScheme::kFirst;
  } else if (scheme != "always") {
    return InvalidArgumentError("prepend_scheme '" + scheme + "' does not exist");
  }
  ASSIGN_OR_RETURN(const bool split, BoolField(json, "split", true));
  if (split) step.pattern = Pattern::OfString(step.replacement);
  return step;
}

Result<PreTokenizer::Step> PreTokenizer::ParseCharacterStep(const Json& json,
                                                            const std::string& type) {
  Step step{.kind = Kind::kCharacter, .behavior = SplitBehavior::kRemoved};
  if (type == "WhitespaceSplit") {
    step.test = IsUnicodeWhitespace;
  } else if (type == "Digits") {
    step.test = IsUnicodeNumeric;
    ASSIGN_OR_RETURN(const bool individual, BoolField(json, "individual_digits", false));
    step.behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  } else if (type == "Punctuation") {
    step.test = IsUnicodePunctuation;
    ASSIGN_OR_RETURN(const std::string behavior, StringField(json, "behavior", "Isolated"));
    ASSIGN_OR_RETURN(step.behavior, ParseSplitBehavior(behavior));
  } else if (type == "CharDelimiterSplit") {
    ASSIGN_OR_RETURN(const std::string delimiter, StringField(json, "delimiter", ""));
    if (!IsOneCodePoint(delimiter)) {
      return InvalidArgumentError("field 'delimiter' must be one character");
    }
    size_t pos = 0;
    step.delimiter = NextCodePoint(delimiter, &pos);
  } else {
    return UnsupportedComponent("pre-tokenizer", type, kSupportedPreTokenizers);
  }
  return step;
}

bool PreTokenizer::DropsText() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.behavior == SplitBehavior::kRemoved; });
}

bool PreTokenizer::MakesByteLevel() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.kind == Kind::kByteLevel; });
}

Status PreTokenizer::Apply(std::vector<Word>* words, TextArena* arena) const {
  for (const Step& step : steps_) RETURN_IF_ERROR(ApplyStep(step, words, arena));
  return OkStatus();
}

Status PreTokenizer::ApplyStep(const Step& step, std::vector<Word>* words, TextArena* arena) {
  std::vector<Word> after;
  after.reserve(words->size());
  std::vector<TextCut> cuts;
  std::vector<TextRange> ranges;
  for (const Word& word : *words) {
    const std::string_view text = Prepare(step, word, arena);
    RETURN_IF_ERROR(Cut(step, text, &cuts));
    JoinCuts(cuts, step.behavior, &ranges);
    for (const TextRange& range : ranges) {
      if (range.begin == range.end) continue;
      std::string_view part = text.substr(range.begin, range.end - range.begin);
      if (step.kind == Kind::kByteLevel) part = arena->AddByteLevel(part);
      after.push_back({part, word.at_start && range.begin == 0});
    }
  }
  *words = std::move(after);
  return OkStatus();
}

// The word's text with what the step writes into it before it cuts.
std::string_view PreTokenizer::Prepare(const Step& step, const Word& word, TextArena* arena) {
  if (step.kind == Kind::kByteLevel) {
    if (!step.add_prefix_space || word.text.starts_with(' ')) return word.text;
    return arena->Add(std::string(1, ' ').append(word.text));
  }
  if (step.kind != Kind::kMetaspace) return word.text;
  std::string text;
  text.reserve(word.text.size() + step.replacement.size());
  for (const char c : word.text) {
    if (c == ' ') {
      text.append(step.replacement);
    } else {
      text.push_back(c);
    }
  }
  const bool prepends = step.prepend == PrependScheme::kAlways ||
                        (step.prepend == PrependScheme::kFirst && word.at_start);
  if (prepends && !text.starts_with(step.replacement)) text.insert(0, step.replacement);
  return arena->Add(text);
}

Status PreTokenizer::Cut(const Step& step, std::string_view text, std::vector<TextCut>* cuts) {
  cuts->clear();
  if (step.pattern.has_value()) {
    RETURN_IF_ERROR(step.pattern->Cut(text, cuts));
    for (TextCut& cut : *cuts) cut.is_match ^= step.invert;
    return OkStatus();
  }
  size_t done = 0;
  for (size_t pos = 0; step.kind == Kind::kCharacter && pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = NextCodePoint(text, &pos);
    const bool is_match = step.test != nullptr ? step.test(c) : c == step.delimiter;
    if (!is_match) continue;
    if (done < begin) cuts->push_back({done, begin, false});
    cuts->push_back({begin, pos, true});
    done = pos;
  }
  if (done < text.size()) cuts->push_back({done, text.size(), false});
  return OkStatus();
}

}  // namespace graft
