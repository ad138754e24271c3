#include "text/regex.h"

namespace graft {
namespace {

// PCRE2's \s knows U+180E, which is white space no more, and its \w knows fewer marks.
constexpr std::string_view kSpace = "\\p{White_Space}";
constexpr std::string_view kNotSpace = "\\P{White_Space}";
constexpr std::string_view kWordMembers = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

// Walks a pattern once and writes its translation.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> Run() {
    while (pos_ < pattern_.size()) {
      RETURN_IF_ERROR(Step());
    }
    if (in_class_)
      return InvalidArgumentError("regex '" + std::string(pattern_) + "': '[' is open");
    return std::move(out_);
  }

 private:
  Status Step() {
    const char c = pattern_[pos_];
    if (c == '\\') return Escape();
    if (in_class_) return InClass(c);
    if (c == '[') return OpenClass();
    if (StartsWith("(?m") || StartsWith("(?x") || StartsWith("(?im") || StartsWith("(?mi")) {
      return Unsupported("the option groups (?m) and (?x)");
    }
    if (StartsWith("}+")) return Unsupported("'+' after an interval");
    return Copy(1);
  }

  Status OpenClass() {
    in_class_ = true;
    const size_t head = StartsWith("[^") ? 2 : 1;
    RETURN_IF_ERROR(Copy(head));
    // A bracket that closes nothing is a member.
    if (StartsWith("]")) return Copy(1);
    return OkStatus();
  }

  Status InClass(char c) {
    if (StartsWith("&&")) return Unsupported("'&&' in a character class");
    if (StartsWith("[:")) {
      const size_t close = pattern_.find(":]", pos_);
      if (close == std::string_view::npos) return Unsupported("'[' in a character class");
      return Copy(close + 2 - pos_);
    }
    if (c == '[') return Unsupported("'[' in a character class");
    if (c == ']') in_class_ = false;
    return Copy(1);
  }

  Status Escape() {
    if (pos_ + 1 == pattern_.size()) return Copy(1);
    const char c = pattern_[pos_ + 1];
    if (std::string_view("HGKgkyYbBCMNOQE").find(c) != std::string_view::npos) {
      return Unsupported(std::string(pattern_.substr(pos_, 2)));
    }
    switch (c) {
      case 's':
        return Replace(kSpace);
      case 'S':
        return Replace(kNotSpace);
      case 'w':
        return Replace(in_class_ ? std::string(kWordMembers)
                                 : "[" + std::string(kWordMembers) + "]");
      case 'W':
        if (in_class_) return Unsupported("\\W in a character class");
        return Replace("[^" + std::string(kWordMembers) + "]");
      case 'h':
        return Replace(in_class_ ? "0-9A-Fa-f" : "[0-9A-Fa-f]");
      case 'p':
      case 'P':
      case 'x':
        return CopyBraced();
      default:
        return Copy(2);
    }
  }

  // \p{L} and \x{2581}: their braces are no interval.
  Status CopyBraced() {
    if (pattern_.substr(pos_ + 2, 1) != "{") return Copy(2);
    const size_t close = pattern_.find('}', pos_);
    return Copy(close == std::string_view::npos ? 2 : close + 1 - pos_);
  }

  bool StartsWith(std::string_view prefix) const {
    return pattern_.substr(pos_, prefix.size()) == prefix;
  }
  Status Copy(size_t bytes) {
    out_.append(pattern_.substr(pos_, bytes));
    pos_ += bytes;
    return OkStatus();
  }
  // Replaces an escape of two bytes.
  Status Replace(std::string_view with) {
    out_.append(with);
    pos_ += 2;
    return OkStatus();
  }
  Status Unsupported(const std::string& what) const {
    return UnimplementedError("regex '" + std::string(pattern_) + "': " + what +
                              " is not supported");
  }

  std::string_view pattern_;
  size_t pos_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

Result<std::string> TranslateRegex(std::string_view pattern) { return Translator(pattern).Run(); }

}  // namespace graft
