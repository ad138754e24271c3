#include "document/html_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <iterator>

#include "text/utf8.h"

namespace graft {
namespace {

struct Entity {
  std::string_view name;
  char32_t code_point;
};
// Those that prose has; pages of today write everything else as itself.
constexpr Entity kEntities[] = {
    {"amp", U'&'},         {"lt", U'<'},          {"gt", U'>'},          {"quot", U'"'},
    {"apos", U'\''},       {"nbsp", U' '},        {"ensp", U' '},        {"emsp", U' '},
    {"thinsp", U' '},      {"ndash", U'\u2013'},  {"mdash", U'\u2014'},  {"lsquo", U'\u2018'},
    {"rsquo", U'\u2019'},  {"ldquo", U'\u201C'},  {"rdquo", U'\u201D'},  {"hellip", U'\u2026'},
    {"bull", U'\u2022'},   {"middot", U'\u00B7'}, {"copy", U'\u00A9'},   {"reg", U'\u00AE'},
    {"trade", U'\u2122'},  {"deg", U'\u00B0'},    {"sect", U'\u00A7'},   {"para", U'\u00B6'},
    {"euro", U'\u20AC'},   {"pound", U'\u00A3'},  {"times", U'\u00D7'},  {"divide", U'\u00F7'},
    {"plusmn", U'\u00B1'}, {"frac12", U'\u00BD'}, {"laquo", U'\u00AB'},  {"raquo", U'\u00BB'},
    {"auml", U'\u00E4'},   {"ouml", U'\u00F6'},   {"uuml", U'\u00FC'},   {"Auml", U'\u00C4'},
    {"Ouml", U'\u00D6'},   {"Uuml", U'\u00DC'},   {"szlig", U'\u00DF'},  {"eacute", U'\u00E9'},
    {"egrave", U'\u00E8'}, {"agrave", U'\u00E0'}, {"aacute", U'\u00E1'}, {"ccedil", U'\u00E7'},
    {"ntilde", U'\u00F1'}, {"oacute", U'\u00F3'}, {"iacute", U'\u00ED'}, {"uacute", U'\u00FA'}};
constexpr size_t kEntityBytesMax = 12;

constexpr std::string_view kHidden[] = {"script", "style", "template", "noscript", "svg", "title"};
// What stands in the middle of a line; all other tags begin one.
constexpr std::string_view kInline[] = {
    "a",    "abbr",   "b",   "bdi", "bdo",  "cite",  "code", "data", "del", "dfn",  "em",
    "font", "i",      "img", "ins", "kbd",  "label", "mark", "q",    "s",   "samp", "small",
    "span", "strong", "sub", "sup", "time", "tt",    "u",    "var",  "wbr"};

template <size_t N>
bool IsOneOf(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

char LowerOf(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// The place of `name` in the text, letters of either case, from `from` on.
size_t FindNoCase(std::string_view text, std::string_view name, size_t from) {
  const auto found =
      std::search(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), name.begin(),
                  name.end(), [](char a, char b) { return LowerOf(a) == b; });
  return found == text.end() ? std::string_view::npos : static_cast<size_t>(found - text.begin());
}

// The code point of what stands between & and ;, or 0.
char32_t DecodeEntity(std::string_view name) {
  if (!name.starts_with("#")) {
    for (const Entity& entity : kEntities) {
      if (entity.name == name) return entity.code_point;
    }
    return 0;
  }
  name.remove_prefix(1);
  const bool is_hex = name.starts_with("x") || name.starts_with("X");
  if (is_hex) name.remove_prefix(1);
  uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), value, is_hex ? 16 : 10);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  const bool is_character =
      value >= 0x20 && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
  return is_number && is_character ? static_cast<char32_t>(value) : 0;
}

class Reader {
 public:
  explicit Reader(std::string_view html) : html_(html) {}

  std::string Read() {
    while (at_ < html_.size()) {
      const char c = html_[at_];
      const char next = at_ + 1 < html_.size() ? html_[at_ + 1] : ' ';
      const bool is_tag = c == '<' && (std::isalpha(static_cast<unsigned char>(next)) != 0 ||
                                       next == '/' || next == '!' || next == '?');
      if (is_tag) {
        ReadTag();
      } else if (c == '&') {
        ReadEntity();
      } else {
        Add(html_.substr(at_++, 1));
      }
    }
    return std::move(text_);
  }

 private:
  void SkipPast(std::string_view end) {
    const size_t found = html_.find(end, at_);
    at_ = found == std::string_view::npos ? html_.size() : found + end.size();
  }

  void ReadTag() {
    if (html_.substr(at_).starts_with("<!--")) return SkipPast("-->");
    const bool closes = html_[at_ + 1] == '/';
    size_t name_end = at_ + (closes ? 2 : 1);
    std::string name;
    while (name_end < html_.size() && std::isalnum(static_cast<unsigned char>(html_[name_end]))) {
      name += LowerOf(html_[name_end++]);
    }
    at_ = name_end;
    SkipAttributes();
    if (IsOneOf(name, kHidden)) return closes ? void() : SkipHidden(name);
    if (name == "pre") num_pre_ = closes ? std::max(0, num_pre_ - 1) : num_pre_ + 1;
    if (name == "td" || name == "th") {
      Add(" ");
    } else if (!name.empty() && !IsOneOf(name, kInline)) {
      BeginLine(name == "p" || (name.size() == 2 && name[0] == 'h' && name != "hr") ? 2 : 1);
    }
  }

  // To the tag's >, which quotes may hold, too.
  void SkipAttributes() {
    char quote = 0;
    for (; at_ < html_.size(); ++at_) {
      const char c = html_[at_];
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '>') {
        ++at_;
        return;
      } else if ((c == '"' || c == '\'') && html_[at_ - 1] == '=') {
        quote = c;
      }
    }
  }

  void SkipHidden(const std::string& name) {
    const size_t found = FindNoCase(html_, "</" + name, at_);
    at_ = found == std::string_view::npos ? html_.size() : found;
    if (at_ < html_.size()) SkipPast(">");
  }

  void ReadEntity() {
    const size_t end = html_.substr(at_, kEntityBytesMax).find(';');
    const char32_t code_point =
        end == std::string_view::npos ? 0 : DecodeEntity(html_.substr(at_ + 1, end - 1));
    if (code_point == 0) {
      Add(html_.substr(at_++, 1));
      return;
    }
    std::string character;
    AppendCodePoint(code_point, &character);
    Add(character);
    at_ += end + 1;
  }

  void Add(std::string_view character) {
    if (num_pre_ > 0) {
      text_ += character;
      return;
    }
    const bool is_space = IsSpace(character.front());
    if (!is_space) {
      text_ += character;
    } else if (!text_.empty() && !IsSpace(text_.back())) {
      text_ += ' ';
    }
  }

  // Ends the line, with one blank line after it at most.
  void BeginLine(int num_breaks) {
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
    if (text_.empty()) return;
    int there = 0;
    for (size_t i = text_.size(); i > 0 && text_[i - 1] == '\n'; --i) ++there;
    for (; there < num_breaks; ++there) text_ += '\n';
  }

  const std::string_view html_;
  size_t at_ = 0;
  int num_pre_ = 0;
  std::string text_;
};

}  // namespace

std::string HtmlText(std::string_view html) { return Reader(html).Read(); }

}  // namespace graft
