#include "text/jinja/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "text/jinja/access.h"
#include "text/jinja/python_text.h"
#include "text/jinja/write.h"
#include "text/utf8.h"

namespace graft::jinja {
namespace {

constexpr int64_t kWidthMax = 1 << 20;
constexpr int64_t kPrecisionMax = 400;

// How one value is laid out. Both formatting languages are read into this.
struct Layout {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';    // - + or space
  bool alternate = false;
  char group = '\0';  // , or _
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

// Digits of the integer part in groups of three.
std::string Grouped(const std::string& digits, char separator) {
  const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (size_t i = 0; i < end; ++i) {
    if (i > 0 && (end - i) % 3 == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(end);
}

std::string InBase(uint64_t value, int base, bool upper) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, base);
  const std::string_view digits(buffer, static_cast<size_t>(end.ptr - buffer));
  return upper ? ToUpper(digits) : std::string(digits);
}

Result<Value> Lay(Heap& heap, const Layout& layout, std::string_view sign, std::string_view body,
                  char default_align) {
  const char align = layout.align != '\0' ? layout.align : default_align;
  const int64_t length = CountCodePoints(sign) + CountCodePoints(body);
  const int64_t padding = std::max<int64_t>(layout.width - length, 0);
  const int64_t left = align == '<' ? 0 : align == '^' ? padding / 2 : padding;
  TextBuilder out = heap.NewText();
  const auto fill = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) out.AppendTrusted(layout.fill);
  };
  if (align != '=') fill(left);
  out.AppendTrusted(sign);
  if (align == '=') fill(padding);
  out.Append(body);
  if (align != '=') fill(padding - left);
  return heap.Text(std::move(out));
}

std::string_view SignText(const Layout& layout, bool negative) {
  if (negative) return "-";
  return layout.sign == '+' ? "+" : layout.sign == ' ' ? " " : "";
}

Result<Value> LayInteger(Heap& heap, const Layout& layout, int64_t value) {
  const uint64_t magnitude =
      value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const char type = layout.type;
  std::string prefix;
  std::string digits;
  if (type == 'x' || type == 'X') {
    digits = InBase(magnitude, 16, type == 'X');
    if (layout.alternate) prefix = type == 'x' ? "0x" : "0X";
  } else if (type == 'o') {
    digits = InBase(magnitude, 8, false);
    if (layout.alternate) prefix = "0o";
  } else if (type == 'b') {
    digits = InBase(magnitude, 2, false);
    if (layout.alternate) prefix = "0b";
  } else {
    digits = InBase(magnitude, 10, false);
  }
  if (layout.precision > static_cast<int64_t>(digits.size())) {
    digits.insert(0, static_cast<size_t>(layout.precision) - digits.size(), '0');
  }
  if (layout.group != '\0') digits = Grouped(digits, layout.group);
  return Lay(heap, layout, std::string(SignText(layout, value < 0)) + prefix, digits, '>');
}

Result<Value> LayFloat(Heap& heap, const Layout& layout, double value) {
  std::string digits;
  const double magnitude = std::fabs(value);
  char type = layout.type;
  if (type == '\0' && layout.precision < 0) {
    digits = FloatText(magnitude);
  } else {
    const bool percent = type == '%';
    if (percent) type = 'f';
    if (type == '\0') type = 'g';
    const std::string pattern = std::string("%") + (layout.alternate ? "#" : "") + ".*" + type;
    const int precision = layout.precision < 0 ? 6 : static_cast<int>(layout.precision);
    char buffer[1024];  // 309 digits before the point, kPrecisionMax after it
    std::snprintf(buffer, sizeof(buffer), pattern.c_str(), precision,
                  percent ? magnitude * 100 : magnitude);
    digits = buffer;
    if (percent) digits += '%';
  }
  if (layout.group != '\0') digits = Grouped(digits, layout.group);
  return Lay(heap, layout, SignText(layout, std::signbit(value) && !std::isnan(value)), digits,
             '>');
}

Result<Value> LayText(Heap& heap, const Layout& layout, std::string_view text) {
  if (layout.precision >= 0) text = text.substr(0, ByteOffset(text, layout.precision));
  return Lay(heap, layout, "", text, '<');
}

bool IsOneOf(char c, std::string_view set) {
  return c != '\0' && set.find(c) != std::string_view::npos;
}

Status BadFormat(std::string_view text) {
  return InvalidArgumentError("cannot read the format '" + std::string(text) + "'");
}

// A run of digits at text[*pos], or -1 for none.
Result<int64_t> ReadNumber(std::string_view text, size_t* pos, int64_t max) {
  int64_t value = -1;
  while (*pos < text.size() && text[*pos] >= '0' && text[*pos] <= '9') {
    value = std::max<int64_t>(value, 0) * 10 + (text[(*pos)++] - '0');
    if (value > max) return InvalidArgumentError("a format's number is too large");
  }
  return value;
}

// What an untrusted format has made of its values is untrusted all over.
Value FormattedBy(Heap& heap, std::string_view format, TextBuilder out) {
  if (heap.origins().IsUntrusted(format)) out.MarkAll();
  return heap.Text(std::move(out));
}

class PercentFormatter {
 public:
  PercentFormatter(Heap& heap, std::string_view text, const Value& values)
      : heap_(heap), text_(text), values_(values) {
    const bool is_tuple =
        values.kind() == Kind::kSequence && values.sequence().flavor == Flavor::kTuple;
    if (is_tuple) {
      rest_ = values.sequence().items;
    } else {
      rest_ = {values};
    }
  }

  Result<Value> Run() {
    TextBuilder out = heap_.NewText();
    size_t pos = 0;
    while (pos < text_.size()) {
      const size_t percent = std::min(text_.find('%', pos), text_.size());
      out.Append(text_.substr(pos, percent - pos));
      pos = percent + 1;
      if (percent == text_.size()) break;
      RETURN_IF_ERROR(heap_.Fits(static_cast<double>(out.size())));
      if (!heap_.Charge(1)) return heap_.status();
      ASSIGN_OR_RETURN(const Value piece, ReadOne(&pos));
      out.Append(piece);
    }
    if (next_ < rest_.size() && values_.kind() != Kind::kDict) {
      return TypeError("not all arguments were used by the format '" + std::string(text_) + "'");
    }
    return FormattedBy(heap_, text_, std::move(out));
  }

 private:
  Result<Value> NextValue() {
    if (next_ >= rest_.size()) {
      return TypeError("not enough arguments for the format '" + std::string(text_) + "'");
    }
    return rest_[next_++];
  }

  Result<int64_t> ReadStarOrNumber(size_t* pos, int64_t max) {
    if (*pos >= text_.size() || text_[*pos] != '*') return ReadNumber(text_, pos, max);
    ++*pos;
    ASSIGN_OR_RETURN(const Value value, NextValue());
    if (!value.is_integral()) return TypeError("'*' in a format needs an integer");
    if (value.integer() > max || value.integer() < -max) return BadFormat(text_);
    return value.integer();
  }

  Result<Value> ReadOne(size_t* pos) {
    std::optional<Value> named;
    if (*pos < text_.size() && text_[*pos] == '(') {
      const size_t close = text_.find(')', *pos);
      if (close == std::string_view::npos) return BadFormat(text_);
      const std::string_view name = text_.substr(*pos + 1, close - *pos - 1);
      if (values_.kind() != Kind::kDict) return TypeError("a format with names needs a dict");
      const Value* entry = FindEntry(values_.dict(), name);
      if (entry == nullptr) {
        return InvalidArgumentError("the format's '" + std::string(name) + "' is not in the dict");
      }
      named = *entry;
      *pos = close + 1;
    }
    Layout layout;
    for (; *pos < text_.size() && IsOneOf(text_[*pos], "-+ #0"); ++*pos) {
      const char flag = text_[*pos];
      if (flag == '-') layout.align = '<';
      if (flag == '+' || (flag == ' ' && layout.sign != '+')) layout.sign = flag;
      if (flag == '#') layout.alternate = true;
      if (flag == '0') layout.fill = "0";
    }
    ASSIGN_OR_RETURN(layout.width, ReadStarOrNumber(pos, kWidthMax));
    if (layout.width < -1) {
      layout.align = '<';
      layout.width = -layout.width;
    }
    if (*pos < text_.size() && text_[*pos] == '.') {
      ++*pos;
      ASSIGN_OR_RETURN(layout.precision, ReadStarOrNumber(pos, kPrecisionMax));
      layout.precision = std::max<int64_t>(layout.precision, 0);
    }
    if (*pos >= text_.size()) return BadFormat(text_);
    layout.type = text_[(*pos)++];
    if (layout.type == '%') return Value::String("%");
    if (!IsOneOf(layout.type, "srdiufFeEgGxXoc")) return BadFormat(text_);
    if (layout.align == '<') layout.fill = " ";
    if (named.has_value()) return Convert(layout, *named);
    ASSIGN_OR_RETURN(const Value value, NextValue());
    return Convert(layout, value);
  }

  Result<Value> Convert(Layout layout, const Value& value) {
    const char type = layout.type;
    if (type == 's' || type == 'r') {
      layout.fill = " ";
      if (layout.align == '\0') layout.align = '>';
      ASSIGN_OR_RETURN(const Value text, type == 's' ? ToText(heap_, value) : ToRepr(heap_, value));
      return LayText(heap_, layout, text.text());
    }
    if (type == 'c') return ConvertCharacter(layout, value);
    if (value.is_undefined()) return UndefinedError(value);
    if (!value.is_number()) {
      return TypeError(std::string("%") + type + " needs a number, not '" +
                       std::string(TypeName(value)) + "'");
    }
    if (layout.fill == "0" && layout.align == '\0') layout.align = '=';
    if (IsOneOf(type, "fFeEgG")) return LayFloat(heap_, layout, value.number());
    const bool decimal = IsOneOf(type, "diu");
    if (!value.is_integral() && !decimal) {
      return TypeError(std::string("%") + type + " needs an integer");
    }
    if (!value.is_integral() && !(std::fabs(value.number()) < 9e18)) {
      return InvalidArgumentError("a number does not fit into 64 bits");
    }
    return LayInteger(heap_, layout,
                      value.is_integral() ? value.integer() : static_cast<int64_t>(value.number()));
  }

  Result<Value> ConvertCharacter(Layout layout, const Value& value) {
    if (layout.align == '\0') layout.align = '>';
    layout.fill = " ";
    if (value.is_string() && CountCodePoints(value.text()) == 1) {
      return LayText(heap_, layout, value.text());
    }
    const int64_t c = value.is_integral() ? value.integer() : -1;
    if (c < 0 || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) {
      return TypeError("%c needs one character");
    }
    std::string text;
    AppendCodePoint(static_cast<char32_t>(c), &text);
    return LayText(heap_, layout, text);
  }

  Heap& heap_;
  const std::string_view text_;
  const Value values_;
  std::vector<Value> rest_;
  size_t next_ = 0;
};

class BraceFormatter {
 public:
  BraceFormatter(Heap& heap, std::string_view text, const Arguments& arguments)
      : heap_(heap), text_(text), arguments_(arguments) {}

  Result<Value> Run() {
    TextBuilder out = heap_.NewText();
    for (size_t pos = 0; pos < text_.size();) {
      const char c = text_[pos];
      const bool doubled = pos + 1 < text_.size() && text_[pos + 1] == c;
      if ((c == '{' || c == '}') && doubled) {
        out.Append(text_.substr(pos, 1));
        pos += 2;
      } else if (c == '{') {
        const size_t close = text_.find('}', pos);
        if (close == std::string_view::npos) return BadFormat(text_);
        RETURN_IF_ERROR(heap_.Fits(static_cast<double>(out.size())));
        if (!heap_.Charge(1)) return heap_.status();
        ASSIGN_OR_RETURN(const Value piece, Field(text_.substr(pos + 1, close - pos - 1)));
        out.Append(piece);
        pos = close + 1;
      } else if (c == '}') {
        return BadFormat(text_);
      } else {
        const size_t end = std::min(text_.find_first_of("{}", pos), text_.size());
        out.Append(text_.substr(pos, end - pos));
        pos = end;
      }
    }
    return FormattedBy(heap_, text_, std::move(out));
  }

 private:
  // "name.attribute[0]!r:>10"
  Result<Value> Field(std::string_view field) {
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view spec = colon < field.size() ? field.substr(colon + 1) : "";
    std::string_view name = field.substr(0, colon);
    if (spec.find('{') != std::string_view::npos) {
      return UnimplementedError("a format within a format is not supported: '" +
                                std::string(text_) + "'");
    }
    const size_t bang = name.find('!');
    char conversion = '\0';
    if (bang != std::string_view::npos) {
      if (bang + 2 != name.size() || !IsOneOf(name[bang + 1], "rs")) return BadFormat(text_);
      conversion = name[bang + 1];
      name = name.substr(0, bang);
    }
    ASSIGN_OR_RETURN(Value value, Lookup(name));
    if (conversion != '\0') {
      ASSIGN_OR_RETURN(value, conversion == 'r' ? ToRepr(heap_, value) : ToText(heap_, value));
    }
    return Convert(spec, value);
  }

  Result<Value> First(std::string_view name) {
    size_t digits = 0;
    ASSIGN_OR_RETURN(int64_t index, ReadNumber(name, &digits, 1000));
    if (name.empty()) index = static_cast<int64_t>(next_++);
    if (index >= 0 && digits == name.size()) {
      if (static_cast<size_t>(index) >= arguments_.positional.size()) {
        return InvalidArgumentError("not enough arguments for the format '" + std::string(text_) +
                                    "'");
      }
      return arguments_.positional[static_cast<size_t>(index)];
    }
    for (const Argument& argument : arguments_.keyword) {
      if (argument.name == name) return argument.value;
    }
    return InvalidArgumentError("the format's '" + std::string(name) + "' was not given");
  }

  Result<Value> Lookup(std::string_view name) {
    size_t end = std::min(name.find_first_of(".["), name.size());
    ASSIGN_OR_RETURN(Value value, First(name.substr(0, end)));
    while (end < name.size()) {
      const bool attribute = name[end] == '.';
      const size_t begin = end + 1;
      end = std::min(name.find_first_of(attribute ? ".[" : "]", begin), name.size());
      const std::string_view part = name.substr(begin, end - begin);
      if (attribute) {
        ASSIGN_OR_RETURN(value, GetAttribute(heap_, value, part));
        continue;
      }
      size_t digits = 0;
      ASSIGN_OR_RETURN(const int64_t index, ReadNumber(part, &digits, INT32_MAX));
      const bool is_index = index >= 0 && digits == part.size();
      ASSIGN_OR_RETURN(value,
                       GetItem(heap_, value, is_index ? Value::Int(index) : Value::String(part)));
      end = std::min(end + 1, name.size());
    }
    return value;
  }

  Result<Layout> ReadSpec(std::string_view spec) {
    Layout layout;
    size_t pos = 0;
    size_t first_end = 0;
    if (!spec.empty()) NextCodePoint(spec, &first_end);
    if (first_end < spec.size() && IsOneOf(spec[first_end], "<>^=")) {
      layout.fill = spec.substr(0, first_end);
      layout.align = spec[first_end];
      pos = first_end + 1;
    } else if (!spec.empty() && IsOneOf(spec[0], "<>^=")) {
      layout.align = spec[pos++];
    }
    const auto at = [&](std::string_view set) {
      return pos < spec.size() && IsOneOf(spec[pos], set);
    };
    if (at("+- ")) layout.sign = spec[pos++];
    if (at("#")) layout.alternate = spec[pos++] == '#';
    if (at("0")) {
      if (layout.align == '\0') {
        layout.fill = "0";
        layout.align = '=';
      }
      ++pos;
    }
    ASSIGN_OR_RETURN(layout.width, ReadNumber(spec, &pos, kWidthMax));
    if (at(",_")) layout.group = spec[pos++];
    if (at(".")) {
      ++pos;
      ASSIGN_OR_RETURN(layout.precision, ReadNumber(spec, &pos, kPrecisionMax));
      if (layout.precision < 0) return BadFormat(spec);
    }
    if (pos < spec.size()) layout.type = spec[pos++];
    if (pos < spec.size() || (layout.type != '\0' && !IsOneOf(layout.type, "sdfFeEgGxXobn%"))) {
      return BadFormat(spec);
    }
    return layout;
  }

  Result<Value> Convert(std::string_view spec, const Value& value) {
    if (spec.empty()) return ToText(heap_, value);
    ASSIGN_OR_RETURN(Layout layout, ReadSpec(spec));
    const bool wants_float = IsOneOf(layout.type, "fFeEgG%");
    if (value.is_number() && (wants_float || value.kind() == Kind::kFloat)) {
      if (layout.type != '\0' && !wants_float) return BadFormat(spec);
      return LayFloat(heap_, layout, value.number());
    }
    if (value.is_integral()) {
      if (layout.type == 's' || layout.precision >= 0) return BadFormat(spec);
      return LayInteger(heap_, layout, value.integer());
    }
    if (value.is_string() && (layout.type == '\0' || layout.type == 's') && layout.align != '=') {
      return LayText(heap_, layout, value.text());
    }
    return TypeError("the format '" + std::string(spec) + "' does not fit a value of type '" +
                     std::string(TypeName(value)) + "'");
  }

  Heap& heap_;
  const std::string_view text_;
  const Arguments& arguments_;
  size_t next_ = 0;
};

}  // namespace

Result<Value> FormatPercent(Heap& heap, std::string_view text, const Value& values) {
  return PercentFormatter(heap, text, values).Run();
}

Result<Value> FormatBraces(Heap& heap, std::string_view text, const Arguments& arguments) {
  return BraceFormatter(heap, text, arguments).Run();
}

}  // namespace graft::jinja
