#include "model/python_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cctype>

namespace graft {
namespace {

constexpr uint32_t kHeapKibMax = 4096;

Status NotSame(std::string_view construct, std::string_view why) {
  // It was cut by bytes: shown up to the first that is not ASCII, the message stays UTF-8.
  size_t shown = 0;
  while (shown < construct.size() && static_cast<unsigned char>(construct[shown]) < 0x80) ++shown;
  construct = construct.substr(0, shown);
  return UnimplementedError("regex construct '" + std::string(construct) + "' " + std::string(why));
}

// Walks a pattern once and refuses what PCRE2 would take in another sense than Python.
class DialectChecker {
 public:
  explicit DialectChecker(std::string_view pattern) : pattern_(pattern) {}

  Status Check() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        RETURN_IF_ERROR(CheckEscape(/*in_class=*/false));
      } else if (c == '[') {
        RETURN_IF_ERROR(CheckClass());
      } else if (c == '(') {
        RETURN_IF_ERROR(CheckGroup());
      } else if (c == '{') {
        RETURN_IF_ERROR(CheckBraces());
      } else {
        ++at_;
      }
    }
    return OkStatus();
  }

 private:
  std::string_view Rest() const { return pattern_.substr(at_); }
  char Peek(size_t ahead) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }

  // At a backslash. Letters and digits mean something; escaped punctuation is itself in both.
  Status CheckEscape(bool in_class) {
    const char c = Peek(1);
    const std::string_view construct = Rest().substr(0, 2);
    if (construct.size() < 2) return InvalidArgumentError("regex ends in a backslash");
    at_ += 2;
    if (!std::isalnum(static_cast<unsigned char>(c))) return OkStatus();
    if (c == 'x') {
      if (!std::isxdigit(static_cast<unsigned char>(Peek(0))) ||
          !std::isxdigit(static_cast<unsigned char>(Peek(1)))) {
        return NotSame("\\x", "needs two hexadecimal digits");
      }
      at_ += 2;
      return OkStatus();
    }
    const std::string_view same = in_class ? "dDwWsSbnrtfa" : "dDwWsSbBAZnrtfa";
    if (same.find(c) != std::string_view::npos) return OkStatus();
    const bool back_reference =
        !in_class && c >= '1' && c <= '9' && !std::isdigit(static_cast<unsigned char>(Peek(0)));
    if (back_reference) return OkStatus();
    return NotSame(construct, "is not read the same by Python and by this program");
  }

  // At '['. A ']' right after the opening stands for itself in both.
  Status CheckClass() {
    ++at_;
    if (Peek(0) == '^') ++at_;
    if (Peek(0) == ']') ++at_;
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      const char c = pattern_[at_];
      const char next = Peek(1);
      if (c == '[' && (next == ':' || next == '.' || next == '=')) {
        return NotSame(Rest().substr(0, 2), "is a POSIX class, which Python does not have");
      }
      if (c == '\\') {
        RETURN_IF_ERROR(CheckEscape(/*in_class=*/true));
      } else {
        ++at_;
      }
    }
    if (at_ == pattern_.size()) return InvalidArgumentError("regex has a '[' that is not closed");
    ++at_;
    return OkStatus();
  }

  // At '('.
  Status CheckGroup() {
    if (Peek(1) == '*') return NotSame("(*", "is a verb of PCRE, which Python does not have");
    if (Peek(1) != '?') {
      ++at_;
      return OkStatus();
    }
    static constexpr std::array<std::string_view, 8> kSame = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?P<", "(?P=", "(?>"};
    for (const std::string_view opening : kSame) {
      if (Rest().starts_with(opening)) {
        at_ += opening.size();
        return OkStatus();
      }
    }
    // Python wants flags for the whole pattern at its start.
    if (Rest().starts_with("(?i:") || (at_ == 0 && Rest().starts_with("(?i)"))) {
      at_ += 4;
      return OkStatus();
    }
    return NotSame(Rest().substr(0, 4), "is not supported");
  }

  // At '{': a whole quantifier {n}, {n,} or {n,m}. What else Python and the versions of PCRE2 make
  // of a brace differs, and no module path has one.
  Status CheckBraces() {
    size_t ahead = 1;
    const auto skip_digits = [&] {
      const size_t first = ahead;
      while (std::isdigit(static_cast<unsigned char>(Peek(ahead)))) ++ahead;
      return ahead > first;
    };
    if (!skip_digits()) return NotSame("{", "needs a number: {n}, {n,} or {n,m}");
    if (Peek(ahead) == ',') {
      ++ahead;
      skip_digits();
    }
    if (Peek(ahead) != '}') return NotSame("{", "is not closed: {n}, {n,} or {n,m}");
    at_ += ahead + 1;
    return OkStatus();
  }

  std::string_view pattern_;
  size_t at_ = 0;
};

std::string CompileErrorText(int error, size_t offset) {
  std::array<PCRE2_UCHAR, 160> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return "not a valid regex at byte " + std::to_string(offset) + ": " +
         reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct PythonRegex::State {
  ~State() {
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
};

PythonRegex::PythonRegex(std::unique_ptr<State> state) : state_(std::move(state)) {}
PythonRegex::PythonRegex(PythonRegex&&) noexcept = default;
PythonRegex& PythonRegex::operator=(PythonRegex&&) noexcept = default;
PythonRegex::~PythonRegex() = default;

Result<PythonRegex> PythonRegex::Compile(std::string_view pattern, uint32_t steps_max) {
  if (pattern.size() > kRegexBytesMax) {
    return InvalidArgumentError("regex has " + std::to_string(pattern.size()) +
                                " bytes, the limit is " + std::to_string(kRegexBytesMax));
  }
  RETURN_IF_ERROR(DialectChecker(pattern).Check());
  auto state = std::make_unique<State>();
  int error = 0;
  size_t offset = 0;
  // UTF and UCP: a pattern is code points and \w knows Unicode, as for Python's str.
  state->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  if (state->code == nullptr) return InvalidArgumentError(CompileErrorText(error, offset));
  state->match = pcre2_match_data_create_from_pattern(state->code, nullptr);
  state->context = pcre2_match_context_create(nullptr);
  CHECK(state->match != nullptr && state->context != nullptr) << "out of memory";
  pcre2_set_match_limit(state->context, steps_max);
  pcre2_set_heap_limit(state->context, kHeapKibMax);
  return PythonRegex(std::move(state));
}

Result<bool> PythonRegex::FullMatch(std::string_view subject) const {
  return Match(subject, PCRE2_ANCHORED | PCRE2_ENDANCHORED);
}

Result<bool> PythonRegex::PrefixMatch(std::string_view subject) const {
  return Match(subject, PCRE2_ANCHORED);
}

Result<bool> PythonRegex::Match(std::string_view subject, uint32_t options) const {
  const int code = pcre2_match(state_->code, reinterpret_cast<PCRE2_SPTR>(subject.data()),
                               subject.size(), 0, options, state_->match, state_->context);
  if (code >= 0) return true;
  if (code == PCRE2_ERROR_NOMATCH) return false;
  if (code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_DEPTHLIMIT ||
      code == PCRE2_ERROR_HEAPLIMIT) {
    return InvalidArgumentError("regex takes too many steps on '" + std::string(subject) + "'");
  }
  return InvalidArgumentError("regex failed on '" + std::string(subject) + "' with PCRE2 error " +
                              std::to_string(code));
}

std::optional<std::string_view> PythonRegex::Group(const char* name,
                                                   std::string_view subject) const {
  const int number =
      pcre2_substring_number_from_name(state_->code, reinterpret_cast<PCRE2_SPTR>(name));
  if (number < 0) return std::nullopt;
  const size_t* const offsets = pcre2_get_ovector_pointer(state_->match);
  const size_t begin = offsets[2 * number];
  const size_t end = offsets[2 * number + 1];
  if (begin == PCRE2_UNSET || end < begin) return std::nullopt;
  return subject.substr(begin, end - begin);
}

}  // namespace graft
