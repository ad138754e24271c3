#include "grammar/schema_pattern.h"

#include <algorithm>
#include <bitset>
#include <cctype>
#include <charconv>
#include <set>
#include <utility>

namespace graft {
namespace {

// Patterns are compiled in a time that grows with the square of it.
constexpr int64_t kRepeatsMax = 256;
constexpr size_t kGroupsMax = 32;

// Printable ASCII that needs no escape in JSON, but for classes that differ between engines beyond
// ASCII.
constexpr std::string_view kNoSpace = "!#-\\[\\]-~";
constexpr std::string_view kNoDigit = " !#-/:-\\[\\]-~";
constexpr std::string_view kNoWord = " !#-/:-@\\[\\]^`{-~";

// What may stand beside a match: any text without an escape.
constexpr std::string_view kAnyText = "[^\"\\\\]*";

constexpr size_t kStringsMax = 64;  // that are listed of a pattern
using Strings = std::vector<std::string>;

Status Unsupported(std::string_view what) {
  return UnimplementedError("has " + std::string(what) +
                            ", which patterns of answers cannot have here");
}

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : rest_(pattern) {}

  // Each alternative has anchors of its own.
  Result<std::string> Read() {
    std::string whole;
    for (bool is_first = true; is_first || Skip('|'); is_first = false) {
      const bool is_begin = Skip('^');
      ends_anchored_ = false;
      out_.clear();
      RETURN_IF_ERROR(ReadAlternatives());
      if (!rest_.empty() && rest_.front() == ')') {
        return InvalidArgumentError("has a ')' without its '('");
      }
      if (!is_first) whole += '|';
      if (!is_begin) whole += kAnyText;
      whole += out_;
      if (!ends_anchored_ && (is_begin || !out_.empty())) whole += kAnyText;
    }
    return "^(" + whole + ")$";
  }

 private:
  bool Skip(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // Reads the alternatives of a group; outside of groups the next one.
  Status ReadAlternatives() {
    bool can_repeat = false;
    while (!rest_.empty() && rest_.front() != ')') {
      const char c = rest_.front();
      if (c == '|' && depth_ == 0) return OkStatus();
      if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (!can_repeat) return InvalidArgumentError("repeats nothing, or something twice");
        RETURN_IF_ERROR(ReadRepeat());
        can_repeat = false;
        continue;
      }
      can_repeat = c != '|' && c != '$';
      RETURN_IF_ERROR(ReadItem(c));
    }
    return OkStatus();
  }

  Status ReadItem(char c) {
    rest_.remove_prefix(1);
    switch (c) {
      case '(':
        return ReadGroup();
      case '[':
        return ReadClass();
      case '\\':
        return ReadEscape(/*in_class=*/false);
      case '|':
        out_ += '|';
        return OkStatus();
      case '$':
        if (depth_ > 0 || (!rest_.empty() && rest_.front() != '|')) {
          return Unsupported("a '$' that is not the end of it or of an alternative");
        }
        ends_anchored_ = true;
        return OkStatus();
      case '^':
        return Unsupported("a '^' that is not the beginning of it or of an alternative");
      case ']':
      case '}':
        out_ += '\\';
        break;
      default:
        break;
    }
    RETURN_IF_ERROR(CheckLiteral(c));
    out_ += c;
    return OkStatus();
  }

  static Status CheckLiteral(char c) {
    if (c == '"') return Unsupported("a quotation mark");
    if (c < 0x20 || c > 0x7e) return Unsupported("characters beyond printable ASCII");
    return OkStatus();
  }

  Status ReadGroup() {
    if (rest_.starts_with('?')) {
      if (!rest_.starts_with("?:")) return Unsupported("a group that begins with '(?'");
      rest_.remove_prefix(2);
    }
    if (++depth_ > kGroupsMax) return Unsupported("groups that deep in each other");
    out_ += '(';
    RETURN_IF_ERROR(ReadAlternatives());
    if (!rest_.starts_with(')')) return InvalidArgumentError("has a '(' without its ')'");
    rest_.remove_prefix(1);
    --depth_;
    out_ += ')';
    return OkStatus();
  }

  Status ReadEscape(bool in_class) {
    if (rest_.empty()) return InvalidArgumentError("ends with a backslash");
    const char c = rest_.front();
    rest_.remove_prefix(1);
    switch (c) {
      case 'd':
        return AddClass("0-9", in_class);
      case 'w':
        return AddClass("a-zA-Z0-9_", in_class);
      case 's':  // others need an escape in JSON
        return AddClass(" ", in_class);
      case 'S':
      case 'D':
      case 'W':
        if (in_class && is_negated_) return Unsupported("such a class within a negated one");
        return AddClass(c == 'S' ? kNoSpace : c == 'D' ? kNoDigit : kNoWord, in_class);
      default:
        break;
    }
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      return Unsupported("the escape '\\" + std::string(1, c) + "'");
    }
    if (c == '\\') return Unsupported("a backslash");
    RETURN_IF_ERROR(CheckLiteral(c));
    AddLiteral(c);
    return OkStatus();
  }

  // Beyond ASCII engines differ in what is a digit, a letter or a space: a negated class with such
  // a one is of ASCII.
  Status AddClass(std::string_view characters, bool in_class) {
    has_class_ = true;
    if (in_class) {
      out_ += characters;
      for (char c = ' '; c <= '~'; ++c) {
        const bool is_digit = c >= '0' && c <= '9';
        const bool is_letter = (c | 32) >= 'a' && (c | 32) <= 'z';
        const bool is_in = characters == " " ? c == ' ' : is_digit;
        const bool is_word = characters.size() > 3 && (is_letter || c == '_');
        if (is_in || is_word) members_.set(static_cast<size_t>(c));
      }
    } else {
      out_ += '[' + std::string(characters) + ']';
    }
    return OkStatus();
  }

  void AddLiteral(char c) {
    constexpr std::string_view kSpecial = "\\^$.|?*+()[]{}-/";
    if (kSpecial.find(c) != std::string_view::npos) out_ += '\\';
    out_ += c;
  }

  Status ReadClass() {
    out_ += '[';
    is_negated_ = rest_.starts_with('^');
    has_class_ = false;
    members_.reset();
    const size_t begin = out_.size();
    if (is_negated_) {
      rest_.remove_prefix(1);
      out_ += '^';
    }
    if (rest_.starts_with(']')) return Unsupported("an empty class");
    while (!rest_.starts_with(']')) {
      if (rest_.empty()) return InvalidArgumentError("has a '[' without its ']'");
      RETURN_IF_ERROR(ReadClassItem());
    }
    rest_.remove_prefix(1);
    if (is_negated_ && has_class_) {
      out_.resize(begin);
      for (char c = ' '; c <= '~'; ++c) {
        if (c != '"' && c != '\\' && !members_[static_cast<size_t>(c)]) AddLiteral(c);
      }
    }
    out_ += ']';
    return OkStatus();
  }

  Status ReadClassItem() {
    const char c = rest_.front();
    if (c == '\\' && rest_.size() > 1 && std::isalnum(static_cast<unsigned char>(rest_[1])) != 0) {
      rest_.remove_prefix(1);
      RETURN_IF_ERROR(ReadEscape(/*in_class=*/true));
      if (rest_.starts_with('-') && !rest_.starts_with("-]")) {
        return Unsupported("a range that begins with a class");
      }
      return OkStatus();
    }
    ASSIGN_OR_RETURN(const char low, ReadClassCharacter());
    AddLiteral(low);
    members_.set(static_cast<size_t>(low));
    if (!rest_.starts_with('-') || rest_.starts_with("-]")) return OkStatus();
    rest_.remove_prefix(1);
    if (rest_.empty()) return InvalidArgumentError("has a '[' without its ']'");
    ASSIGN_OR_RETURN(const char high, ReadClassCharacter());
    if (high < low) return InvalidArgumentError("has a range whose end comes before its beginning");
    out_ += '-';
    AddLiteral(high);
    for (char c = low; c < high; ++c) members_.set(static_cast<size_t>(c + 1));
    return OkStatus();
  }

  Result<char> ReadClassCharacter() {
    char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == '\\') {
      if (rest_.empty()) return InvalidArgumentError("ends with a backslash");
      c = rest_.front();
      rest_.remove_prefix(1);
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
        return Unsupported("the escape '\\" + std::string(1, c) + "' in a range");
      }
      return c;  // a backslash among others is never drawn
    }
    if (c < 0x20 || c > 0x7e) return Unsupported("characters beyond printable ASCII");
    return c;
  }

  Status ReadRepeat() {
    const char c = rest_.front();
    if (c != '{') {
      out_ += c;
      rest_.remove_prefix(1);
    } else {
      const size_t end = rest_.find('}');
      if (end == std::string_view::npos) return InvalidArgumentError("has a '{' without its '}'");
      const std::string_view counts = rest_.substr(1, end - 1);
      const size_t comma = counts.find(',');
      const auto low = CountOf(counts.substr(0, comma));
      const std::string_view second =
          comma == std::string_view::npos ? counts.substr(0, comma) : counts.substr(comma + 1);
      const auto high = second.empty() && comma != std::string_view::npos ? low : CountOf(second);
      if (!low.has_value() || !high.has_value() || *high < *low) {
        return InvalidArgumentError("has a '{' that is no number of times, at most " +
                                    std::to_string(kRepeatsMax));
      }
      out_ += rest_.substr(0, end + 1);
      rest_.remove_prefix(end + 1);
    }
    if (rest_.starts_with('?') || rest_.starts_with('+')) {
      return Unsupported("a lazy or possessive repeat");
    }
    return OkStatus();
  }

  static std::optional<int64_t> CountOf(std::string_view digits) {
    int64_t count = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    const bool is_whole = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
    if (!is_whole || count < 0 || count > kRepeatsMax) return std::nullopt;
    return count;
  }

  std::string_view rest_;
  std::string out_;
  size_t depth_ = 0;
  bool is_negated_ = false;  // the class being read
  bool has_class_ = false;   // within it: \d, say
  std::bitset<128> members_;
  bool ends_anchored_ = false;  // the alternative that is being read
};

// Patterns of literals, groups and alternatives. Takes what it writes: as many as kStringsMax times
// the bytes of the pattern, and a group's once more for each group around it.
class StringLister {
 public:
  StringLister(std::string_view rest, SchemaWork& work) : rest_(rest), work_(work) {}

  Result<std::optional<Strings>> List() {
    if (!Skip('^')) return std::optional<Strings>();
    Strings strings;
    RETURN_IF_ERROR(ReadSequence(&strings));
    if (!is_listed_ || rest_ != "$") return std::optional<Strings>();
    return std::optional<Strings>(std::move(strings));
  }

 private:
  bool Skip(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Status TakeBytes(size_t bytes) {
    bytes_ += bytes;
    const size_t steps = bytes_ / kBytesOfStep;
    bytes_ %= kBytesOfStep;
    return steps == 0 ? OkStatus() : work_.Take(static_cast<int64_t>(steps));
  }

  Status ReadGroup(Strings* strings) {
    if (rest_.starts_with("?:")) rest_.remove_prefix(2);
    if (++depth_ > kGroupsMax) is_listed_ = false;
    std::set<std::string> known;
    do {
      Strings alternative;
      RETURN_IF_ERROR(ReadSequence(&alternative));
      for (const std::string& one : alternative) {
        RETURN_IF_ERROR(TakeBytes(kBytesOfStep + one.size()));
        if (known.insert(one).second) strings->push_back(one);
      }
    } while (is_listed_ && Skip('|'));
    --depth_;
    if (!Skip(')')) is_listed_ = false;
    return OkStatus();
  }

  // Up to what does not belong to it.
  Status ReadSequence(Strings* strings) {
    *strings = {""};
    while (is_listed_ && !rest_.empty()) {
      char c = rest_.front();
      if (c == '|' || c == ')' || c == '$') break;
      rest_.remove_prefix(1);
      Strings group;
      if (c == '(') {
        RETURN_IF_ERROR(ReadGroup(&group));
      } else if (c == '\\' && !rest_.empty() &&
                 std::ispunct(static_cast<unsigned char>(rest_[0]))) {
        c = rest_.front();
        rest_.remove_prefix(1);
      } else if (std::string_view("[]{}.\\^").find(c) != std::string_view::npos) {
        is_listed_ = false;
      }
      const bool is_repeated =
          !rest_.empty() && std::string_view("*+?{").find(rest_.front()) != std::string_view::npos;
      const bool is_many = strings->size() * std::max(group.size(), size_t{1}) > kStringsMax;
      if (is_repeated || is_many) is_listed_ = false;
      if (!is_listed_) break;
      RETURN_IF_ERROR(group.empty() ? AddCharacter(c, strings) : AddEachOf(group, strings));
    }
    return OkStatus();
  }

  Status AddCharacter(char c, Strings* strings) {
    for (std::string& one : *strings) one += c;
    return TakeBytes(strings->size());
  }

  Status AddEachOf(const Strings& group, Strings* strings) {
    Strings longer;
    for (const std::string& one : *strings) {
      for (const std::string& more : group) {
        RETURN_IF_ERROR(TakeBytes(kBytesOfStep + one.size() + more.size()));
        longer.push_back(one + more);
      }
    }
    *strings = std::move(longer);
    return OkStatus();
  }

  std::string_view rest_;
  SchemaWork& work_;
  size_t bytes_ = 0;  // that were written, beyond whole steps
  size_t depth_ = 0;
  bool is_listed_ = true;
};

}  // namespace

Result<std::string> ReadPattern(std::string_view pattern) { return PatternReader(pattern).Read(); }

Result<std::optional<std::vector<std::string>>> StringsOfPattern(std::string_view pattern,
                                                                 SchemaWork& work) {
  return StringLister(pattern, work).List();
}

}  // namespace graft
