#include "text/normalizer.h"

#include <algorithm>
#include <utility>

#include "text/byte_level.h"
#include "text/json_field.h"
#include "text/utf8.h"

namespace graft {
namespace {

constexpr const char* kSupportedNormalizers =
    "NFC, NFD, NFKC, NFKD, Prepend, Replace, Lowercase, Strip, StripAccents, ByteLevel, Sequence";

constexpr std::pair<std::string_view, NormalForm> kForms[] = {{"NFC", NormalForm::kNfc},
                                                              {"NFD", NormalForm::kNfd},
                                                              {"NFKC", NormalForm::kNfkc},
                                                              {"NFKD", NormalForm::kNfkd}};

std::string Lowercase(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) AppendLowercase(NextCodePoint(text, &pos), &lower);
  return lower;
}

std::string StripAccents(std::string_view text) {
  std::string stripped;
  stripped.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    if (!IsUnicodeMark(NextCodePoint(text, &pos))) stripped.append(text.substr(begin, pos - begin));
  }
  return stripped;
}

std::string Strip(std::string_view text, bool left, bool right) {
  size_t begin = 0;
  for (size_t pos = 0; left && pos < text.size();) {
    if (!IsUnicodeWhitespace(NextCodePoint(text, &pos))) break;
    begin = pos;
  }
  size_t end = text.size();
  for (size_t pos = end; right && pos > begin;) {
    if (!IsUnicodeWhitespace(PreviousCodePoint(text, &pos))) break;
    end = pos;
  }
  return std::string(text.substr(begin, end - begin));
}

}  // namespace

Result<Normalizer> Normalizer::Parse(const Json& json) {
  Normalizer normalizer;
  if (!json.is_null()) RETURN_IF_ERROR(normalizer.AddSteps(json));
  return normalizer;
}

Status Normalizer::AddSteps(const Json& json) {
  ASSIGN_OR_RETURN(const std::string type, TypeOf(json, "normalizer"));
  if (type == "Sequence") {
    const auto list = json.find("normalizers");
    if (list == json.end() || !list->is_array()) {
      return InvalidArgumentError("normalizer Sequence has no list 'normalizers'");
    }
    for (const Json& member : *list) RETURN_IF_ERROR(AddSteps(member));
    return OkStatus();
  }
  Result<Step> step = ParseStep(json, type);
  if (!step.ok()) return step.status().WithContext("normalizer " + type);
  steps_.push_back(*std::move(step));
  return OkStatus();
}

Result<Normalizer::Step> Normalizer::ParseStep(const Json& json, const std::string& type) {
  for (const auto& [name, form] : kForms) {
    if (type == name) return Step{.kind = Kind::kUnicode, .form = form};
  }
  if (type == "Lowercase") return Step{.kind = Kind::kLowercase};
  if (type == "StripAccents") return Step{.kind = Kind::kStripAccents};
  if (type == "ByteLevel") return Step{.kind = Kind::kByteLevel};
  if (type == "Strip") {
    Step step{.kind = Kind::kStrip};
    ASSIGN_OR_RETURN(step.left, BoolField(json, "strip_left", true));
    ASSIGN_OR_RETURN(step.right, BoolField(json, "strip_right", true));
    return step;
  }
  if (type == "Prepend") {
    Step step{.kind = Kind::kPrepend};
    ASSIGN_OR_RETURN(step.content, StringField(json, "prepend", ""));
    return step;
  }
  if (type == "Replace") {
    Step step{.kind = Kind::kReplace};
    ASSIGN_OR_RETURN(step.content, StringField(json, "content", ""));
    ASSIGN_OR_RETURN(step.pattern, Pattern::Parse(json.value("pattern", Json())));
    return step;
  }
  return UnsupportedComponent("normalizer", type, kSupportedNormalizers);
}

std::optional<size_t> Normalizer::ShrinkMax(bool ascii) const {
  // A mathematical letter of four bytes becomes ASCII; the tests go through all of Unicode.
  constexpr size_t kUnicodeShrinkMax = 4;
  size_t shrink = 1;
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Kind::kUnicode:
      case Kind::kLowercase:
        if (!ascii) shrink *= kUnicodeShrinkMax;
        break;
      case Kind::kReplace: {
        const std::optional<std::string>& plain = step.pattern->plain();
        if (!plain.has_value() || step.content.empty()) return std::nullopt;
        // What is not replaced keeps its length.
        const size_t removed = plain->size(), written = step.content.size();
        shrink *= std::max<size_t>(1, (removed + written - 1) / written);
        ascii = ascii && IsAscii(step.content);
        break;
      }
      case Kind::kStrip:
      case Kind::kStripAccents:
        return std::nullopt;
      case Kind::kPrepend:
        ascii = ascii && IsAscii(step.content);
        break;
      case Kind::kByteLevel:
        // What follows would be counted in bytes of another spelling.
        if (&step != &steps_.back()) return std::nullopt;
        break;
    }
  }
  return shrink;
}

bool Normalizer::MakesByteLevel() const {
  return !steps_.empty() && steps_.back().kind == Kind::kByteLevel;
}

bool Normalizer::StripsStart(const Step& step, std::string_view text) {
  size_t pos = 0;
  return step.kind == Kind::kStrip && step.left && !text.empty() &&
         IsUnicodeWhitespace(NextCodePoint(text, &pos));
}

Status Normalizer::Apply(std::string* text, bool* starts_later) const {
  for (const Step& step : steps_) {
    if (StripsStart(step, *text) && starts_later != nullptr) *starts_later = true;
    RETURN_IF_ERROR(ApplyStep(step, text));
  }
  return OkStatus();
}

Status Normalizer::ApplyMarked(std::string* text, TextRanges* marked, bool* starts_later) const {
  for (const Step& step : steps_) {
    if (StripsStart(step, *text)) *starts_later = true;
    RETURN_IF_ERROR(ApplyStepMarked(step, text, marked));
  }
  return OkStatus();
}

// The step over the marked ranges and over what lies between them, one by one, tells where they
// went, if the pieces join to what the step makes of the whole.
Status Normalizer::ApplyStepMarked(const Step& step, std::string* text, TextRanges* marked) {
  const std::string before = *text;
  RETURN_IF_ERROR(ApplyStep(step, text));
  std::string joined;
  TextRanges moved;
  size_t done = 0;
  const auto add = [&](size_t end, bool is_marked) {
    std::string piece = before.substr(done, end - done);
    const size_t begin = joined.size();
    // What comes before the text comes before its first piece alone.
    if (step.kind != Kind::kPrepend || done == 0) RETURN_IF_ERROR(ApplyStep(step, &piece));
    joined += piece;
    done = end;
    if (is_marked) AppendRange({begin, joined.size()}, &moved);
    return OkStatus();
  };
  for (const TextRange& range : *marked) {
    if (range.begin > done) RETURN_IF_ERROR(add(range.begin, false));
    RETURN_IF_ERROR(add(range.end, true));
  }
  if (done < before.size()) RETURN_IF_ERROR(add(before.size(), false));
  marked->clear();
  if (joined == *text) {
    *marked = std::move(moved);
  } else {
    AppendRange({0, text->size()}, marked);
  }
  return OkStatus();
}

Status Normalizer::ApplyStep(const Step& step, std::string* text) {
  switch (step.kind) {
    case Kind::kUnicode: {
      ASSIGN_OR_RETURN(*text, NormalizeUnicode(*text, step.form));
      break;
    }
    case Kind::kPrepend:
      if (!text->empty()) text->insert(0, step.content);
      break;
    case Kind::kReplace: {
      ASSIGN_OR_RETURN(*text, step.pattern->ReplaceAll(*text, step.content));
      break;
    }
    case Kind::kLowercase:
      *text = Lowercase(*text);
      break;
    case Kind::kStrip:
      *text = Strip(*text, step.left, step.right);
      break;
    case Kind::kStripAccents:
      *text = StripAccents(*text);
      break;
    case Kind::kByteLevel: {
      std::string mapped;
      AppendByteLevel(*text, &mapped);
      *text = std::move(mapped);
      break;
    }
  }
  return OkStatus();
}

}  // namespace graft
