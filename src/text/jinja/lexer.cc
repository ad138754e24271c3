#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/strings.h"
#include "text/jinja/python_text.h"
#include "text/utf8.h"

namespace graft::jinja {
namespace {

bool IsNameByte(char c) { return IsAsciiAlnum(c) || c == '_' || (c & 0x80) != 0; }

// Every kind of line end becomes "\n", and one at the very end goes.
std::string NormalizeLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// The value of n hexadecimal digits at text[pos], or -1.
int64_t HexDigits(std::string_view text, size_t pos, size_t n) {
  if (pos + n > text.size()) return -1;
  uint32_t value = 0;
  const char* end = text.data() + pos + n;
  const auto parsed = std::from_chars(text.data() + pos, end, value, 16);
  return parsed.ptr == end ? static_cast<int64_t>(value) : -1;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> Run() {
    while (pos_ < source_.size()) RETURN_IF_ERROR(Root());
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  enum class Tag : uint8_t { kVariable, kBlock, kComment };

  Status Fail(const std::string& message) const {
    return InvalidArgumentError("line " + std::to_string(line_) + ": " + message);
  }

  bool At(std::string_view text) const { return source_.substr(pos_, text.size()) == text; }

  void Advance(size_t bytes) {
    const std::string_view passed = source_.substr(pos_, bytes);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    pos_ += passed.size();
  }

  void Add(TokenKind kind, std::string_view text) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.line = line_;
    token.text = text;
  }

  void AddData(std::string_view text) {
    if (!text.empty()) Add(TokenKind::kData, text);
  }

  // Where the next "{{", "{%" or "{#" begins.
  size_t FindTag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string_view::npos;
         at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return source_.size();
  }

  // Text before a tag, without what the tag's sign or lstrip_blocks takes from its end.
  // `line_start`: the text begins where a line begins.
  static std::string_view TrimBefore(std::string_view text, char sign, bool lstrip,
                                     bool line_start) {
    if (sign == '-') return StripSpace(text, StripSide::kRight);
    if (sign == '+' || !lstrip) return text;
    const size_t newline = text.rfind('\n');
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (begin == 0 && !line_start) return text;
    return StripSpace(text.substr(begin), StripSide::kBoth).empty() ? text.substr(0, begin) : text;
  }

  char SignAt(size_t pos) const {
    const char c = pos < source_.size() ? source_[pos] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  // Text up to a tag, then the tag.
  Status Root() {
    const size_t tag_at = FindTag(pos_);
    const std::string_view text = source_.substr(pos_, tag_at - pos_);
    if (tag_at == source_.size()) {
      AddData(text);
      Advance(text.size());
      return OkStatus();
    }
    const char opener = source_[tag_at + 1];
    const char sign = SignAt(tag_at + 2);
    AddData(TrimBefore(text, sign, opener != '{', line_start_));
    Advance(text.size() + 2 + (sign != '\0' ? 1 : 0));
    if (opener == '#') return Comment();
    if (opener == '{') return Inside(Tag::kVariable);
    bool is_raw = false;
    RETURN_IF_ERROR(Raw(&is_raw));
    return is_raw ? OkStatus() : Inside(Tag::kBlock);
  }

  // After a tag's last byte: what its sign and trim_blocks take from the text that follows.
  void TrimAfter(bool strip, bool trim_newline) {
    const size_t begin = pos_;
    if (strip) {
      const std::string_view rest = source_.substr(pos_);
      Advance(rest.size() - StripSpace(rest, StripSide::kLeft).size());
    } else if (trim_newline && At("\n")) {
      Advance(1);
    }
    line_start_ = pos_ > begin && source_[pos_ - 1] == '\n';
  }

  Status Comment() {
    const size_t end = source_.find("#}", pos_);
    if (end == std::string_view::npos) return Fail("a comment {# has no end #}");
    const char sign = end > pos_ ? source_[end - 1] : '\0';
    Advance(end + 2 - pos_);
    TrimAfter(sign == '-', sign != '+');
    return OkStatus();
  }

  // Where the white space that starts at `pos` ends.
  size_t SkipSpace(size_t pos) const {
    return source_.size() - StripSpace(source_.substr(pos), StripSide::kLeft).size();
  }

  // `keyword` between white space at `pos`, then the end of the tag at the returned position, or
  // npos.
  size_t MatchKeyword(size_t pos, std::string_view keyword) const {
    pos = SkipSpace(pos);
    if (source_.substr(pos, keyword.size()) != keyword) return std::string_view::npos;
    pos = SkipSpace(pos + keyword.size());
    const size_t end = pos + (SignAt(pos) != '\0' ? 1 : 0);
    return source_.substr(end, 2) == "%}" ? pos : std::string_view::npos;
  }

  // {% raw %}text{% endraw %}, if that is what stands here.
  Status Raw(bool* is_raw) {
    const size_t end = MatchKeyword(pos_, "raw");
    if (end == std::string_view::npos || SignAt(end) == '+') return OkStatus();
    *is_raw = true;
    const bool strip = SignAt(end) == '-';
    Advance(end + (strip ? 3 : 2) - pos_);
    TrimAfter(strip, false);
    for (size_t at = source_.find("{%", pos_); at != std::string_view::npos;
         at = source_.find("{%", at + 2)) {
      const char sign = SignAt(at + 2);
      const size_t close = MatchKeyword(at + 2 + (sign != '\0' ? 1 : 0), "endraw");
      if (close == std::string_view::npos) continue;
      AddData(TrimBefore(source_.substr(pos_, at - pos_), sign, true, line_start_));
      const char close_sign = SignAt(close);
      Advance(close + (close_sign != '\0' ? 3 : 2) - pos_);
      TrimAfter(close_sign == '-', close_sign != '+');
      return OkStatus();
    }
    return Fail("{% raw %} has no {% endraw %}");
  }

  bool TryEnd(Tag tag) {
    const std::string_view closer = tag == Tag::kVariable ? "}}" : "%}";
    const char sign = SignAt(pos_);
    // "+}}" is no end: a variable's newline is never trimmed, so there is nothing to forbid.
    if (sign == '+' && tag == Tag::kVariable) return false;
    const size_t at = pos_ + (sign != '\0' ? 1 : 0);
    if (source_.substr(at, 2) != closer) return false;
    Add(tag == Tag::kVariable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, closer);
    Advance(at + 2 - pos_);
    TrimAfter(sign == '-', sign != '+' && tag == Tag::kBlock);
    return true;
  }

  Status Inside(Tag tag) {
    Add(tag == Tag::kVariable ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    const int begin_line = line_;
    std::string brackets;  // the closers that are due
    while (pos_ < source_.size()) {
      if (brackets.empty() && TryEnd(tag)) return OkStatus();
      const size_t skipped = SkipSpace(pos_) - pos_;
      if (skipped > 0) {
        Advance(skipped);
        continue;
      }
      const char c = source_[pos_];
      if (c == '\'' || c == '"') {
        RETURN_IF_ERROR(String(c));
      } else if (IsAsciiDigit(c)) {
        RETURN_IF_ERROR(Number());
      } else if (IsNameByte(c)) {
        Name();
      } else {
        RETURN_IF_ERROR(Operator(&brackets));
      }
    }
    line_ = begin_line;
    return Fail(tag == Tag::kVariable ? "{{ has no end }}" : "{% has no end %}");
  }

  void Name() {
    size_t end = pos_;
    while (end < source_.size() && IsNameByte(source_[end])) ++end;
    Add(TokenKind::kName, source_.substr(pos_, end - pos_));
    Advance(end - pos_);
  }

  Status Operator(std::string* brackets) {
    constexpr std::array<std::string_view, 26> kOperators = {
        "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view candidate : kOperators) {
      if (!At(candidate)) continue;
      const char c = candidate[0];
      if (c == '(' || c == '[' || c == '{') {
        brackets->push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
      } else if (c == ')' || c == ']' || c == '}') {
        if (brackets->empty()) return Fail(std::string("'") + c + "' closes nothing");
        if (brackets->back() != c) {
          return Fail(std::string("expected '") + brackets->back() + "', found '" + c + "'");
        }
        brackets->pop_back();
      }
      Add(TokenKind::kOperator, candidate);
      Advance(candidate.size());
      return OkStatus();
    }
    size_t end = pos_;
    NextCodePoint(source_, &end);
    return Fail("unexpected character '" + std::string(source_.substr(pos_, end - pos_)) + "'");
  }

  // Digits with single underscores between them.
  size_t SkipDigits(size_t pos) const {
    while (pos < source_.size() &&
           (IsAsciiDigit(source_[pos]) ||
            (source_[pos] == '_' && pos + 1 < source_.size() && IsAsciiDigit(source_[pos + 1])))) {
      ++pos;
    }
    return pos;
  }

  Status Number() {
    size_t end = SkipDigits(pos_);
    bool is_float = false;
    // After a dot, as in a.0.1, digits are an index and never the start of a float.
    const bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';
    if (!after_dot && end + 1 < source_.size() && source_[end] == '.' &&
        IsAsciiDigit(source_[end + 1])) {
      is_float = true;
      end = SkipDigits(end + 1);
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign = end + 1 < source_.size() && SignAt(end + 1) != '\0' ? 1 : 0;
      if (end + 1 + sign < source_.size() && IsAsciiDigit(source_[end + 1 + sign])) {
        is_float = true;
        end = SkipDigits(end + 1 + sign);
      }
    }
    if (is_float) return AddNumber(TokenKind::kFloat, end, 10);
    if (source_[pos_] == '0' && end == pos_ + 1 && end < source_.size()) {
      const char letter = static_cast<char>(source_[end] | 0x20);
      const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
      if (base != 10) {
        end += 1;
        while (end < source_.size() && IsNameByte(source_[end])) ++end;
        return AddNumber(TokenKind::kInteger, end, base);
      }
    }
    return AddNumber(TokenKind::kInteger, end, 10);
  }

  Status AddNumber(TokenKind kind, size_t end, int base) {
    std::string text(source_.substr(pos_, end - pos_));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    Add(kind, text);
    Token& token = tokens_.back();
    const char* first = text.data() + (base == 10 ? 0 : 2);
    const char* last = text.data() + text.size();
    const auto parsed = kind == TokenKind::kFloat
                            ? std::from_chars(first, last, token.number)
                            : std::from_chars(first, last, token.integer, base);
    if (parsed.ec != std::errc() || parsed.ptr != last) {
      return Fail("'" + text + "' is not a number that fits into 64 bits");
    }
    Advance(end - pos_);
    return OkStatus();
  }

  Status String(char quote) {
    const int begin_line = line_;
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) {
      line_ = begin_line;
      return Fail("a string has no end");
    }
    std::string text;
    RETURN_IF_ERROR(Unescape(source_.substr(pos_ + 1, end - pos_ - 1), &text));
    Add(TokenKind::kString, text);
    Advance(end + 1 - pos_);
    return OkStatus();
  }

  // Python's escapes. An unknown one stays as it is, with its backslash.
  Status Unescape(std::string_view body, std::string* out) const {
    constexpr std::string_view kLetters = "abfnrtv\\'\"";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] != '\\') {
        *out += body[i];
        continue;
      }
      const char c = body[++i];
      const size_t known = kLetters.find(c);
      if (known != std::string_view::npos) {
        *out += kMeanings[known];
      } else if (c >= '0' && c <= '7') {
        uint32_t value = 0;
        size_t digits = 0;
        for (; digits < 3 && i + digits < body.size() && (body[i + digits] & 0xF8) == '0';
             ++digits) {
          value = value * 8 + static_cast<uint32_t>(body[i + digits] - '0');
        }
        AppendCodePoint(value, out);
        i += digits - 1;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        const int64_t value = HexDigits(body, i + 1, digits);
        if (value < 0 || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
          return Fail(std::string("the escape \\") + c + " in a string names no character");
        }
        AppendCodePoint(static_cast<char32_t>(value), out);
        i += digits;
      } else if (c == 'N') {
        return UnimplementedError("line " + std::to_string(line_) +
                                  ": the string escape \\N is not supported");
      } else if (c != '\n') {  // a backslash at the end of a line joins the lines
        *out += '\\';
        *out += c;
      }
    }
    return OkStatus();
  }

  const std::string_view source_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_start_ = true;  // the text at pos_ begins a line
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  if (!IsValidUtf8(source)) return InvalidArgumentError("the template is not UTF-8");
  const std::string normalized = NormalizeLines(source);
  return Lexer(normalized).Run();
}

}  // namespace graft::jinja
