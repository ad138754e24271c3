// Filters that return one text, number or other single value.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include "text/jinja/access.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/python_text.h"
#include "text/jinja/write.h"
#include "text/utf8.h"

namespace graft::jinja {
namespace {

constexpr int64_t kJsonIndentMax = 256;

// A filter's input as a string; copies only what is none yet.
Result<Value> InputString(Heap& heap, const Value& input) {
  if (!input.is_string()) return ToText(heap, input);
  heap.ChargeBytes(input.text().size());
  return input;
}

Result<std::string_view> InputText(Heap& heap, const Value& input) {
  ASSIGN_OR_RETURN(const Value text, InputString(heap, input));
  return text.text();
}

template <std::string (*kMap)(std::string_view)>
Result<Value> MappedFilter(Heap& heap, const Value& input, const Bound&) {
  ASSIGN_OR_RETURN(const Value text, InputString(heap, input));
  return heap.Derived(kMap(text.text()), text);
}

Result<Value> StringFilter(Heap& heap, const Value& input, const Bound&) {
  return InputString(heap, input);
}

Result<Value> Trim(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const Value text, InputString(heap, input));
  if (bound.Or(0, Value::None()).is_none()) {
    return text.Part(StripSpace(text.text(), StripSide::kBoth));
  }
  ASSIGN_OR_RETURN(const std::string_view characters, bound.Text(0));
  return text.Part(StripCharacters(text.text(), characters, StripSide::kBoth));
}

// Jinja's title differs from str.title: a word begins after white space or one of -({[<.
Result<Value> Title(Heap& heap, const Value& input, const Bound&) {
  ASSIGN_OR_RETURN(const Value source, InputString(heap, input));
  const std::string_view text = source.text();
  const auto is_border = [](char32_t c) {
    return IsPythonSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    const bool border = is_border(NextCodePoint(text, &end));
    for (size_t pos = end; end < text.size(); end = pos) {
      if (is_border(NextCodePoint(text, &pos)) != border) break;
    }
    const std::string_view part = text.substr(begin, end - begin);
    const size_t first = ByteOffset(part, 1);
    out += ToUpper(part.substr(0, first)) + ToLower(part.substr(first));
    begin = end;
  }
  return heap.Derived(std::move(out), source);
}

Result<Value> ReplaceFilter(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const Value text, InputString(heap, input));
  ASSIGN_OR_RETURN(const Value old_value, bound.Required(0));
  ASSIGN_OR_RETURN(const Value new_value, bound.Required(1));
  ASSIGN_OR_RETURN(const std::string_view old_text, InputText(heap, old_value));
  ASSIGN_OR_RETURN(const Value new_text, InputString(heap, new_value));
  const Value count_value = bound.Or(2, Value::None());
  if (count_value.is_none()) return ReplaceText(heap, text, old_text, new_text, -1);
  ASSIGN_OR_RETURN(const int64_t count, bound.IntOr(2, -1));
  return ReplaceText(heap, text, old_text, new_text, count);
}

Result<Value> Default(Heap&, const Value& input, const Bound& bound) {
  const bool missing = input.is_undefined() || (bound.TruthOr(1, false) && !Truth(input));
  return missing ? bound.Or(0, Value::String("")) : input;
}

Result<Value> LengthFilter(Heap& heap, const Value& input, const Bound&) {
  if (input.is_string()) heap.ChargeBytes(input.text().size());
  ASSIGN_OR_RETURN(const int64_t length, Length(input));
  return Value::Int(length);
}

Result<Value> Same(Heap&, const Value& input, const Bound&) { return input; }

Result<Value> Escape(Heap& heap, const Value& input, const Bound&) {
  ASSIGN_OR_RETURN(const Value source, InputString(heap, input));
  const std::string_view text = source.text();
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return heap.Derived(std::move(out), source);
}

// The lines of `text`, which stay where their origin is known by.
Result<std::vector<std::string_view>> LinesToIndent(Heap& heap, std::string_view text,
                                                    bool at_newlines_alone) {
  if (!at_newlines_alone) {
    TextBuilder with_end = heap.NewText();
    with_end.Append(text);
    with_end.AppendTrusted("\n");
    return SplitLines(heap.Text(std::move(with_end)).text(), false);
  }
  std::vector<std::string_view> lines;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    RETURN_IF_ERROR(heap.Fits(static_cast<double>(lines.size() * sizeof(lines[0]))));
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  lines.push_back(text);
  return lines;
}

Result<Value> Indent(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::string_view text, InputText(heap, input));
  Value indentation = bound.Or(0, Value::None());
  if (!indentation.is_string()) {
    ASSIGN_OR_RETURN(const int64_t width, bound.IntOr(0, 4));
    RETURN_IF_ERROR(heap.Fits(static_cast<double>(width)));
    indentation =
        heap.TemplateText(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '));
  }
  const bool first = bound.TruthOr(1, false);
  const bool blank = bound.TruthOr(2, false);
  // Jinja splits "text\n" as Python's splitlines does, so that other line ends become "\n" too;
  // with `blank` it replaces every "\n", whatever follows.
  ASSIGN_OR_RETURN(const std::vector<std::string_view> lines, LinesToIndent(heap, text, blank));
  TextBuilder out = heap.NewText();
  if (first) out.Append(indentation);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.AppendTrusted("\n");
    if (i > 0 && (blank || !lines[i].empty())) out.Append(indentation);
    out.Append(lines[i]);
    RETURN_IF_ERROR(heap.Fits(static_cast<double>(out.size())));
  }
  return heap.Text(std::move(out));
}

Result<Value> Center(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::string_view text, InputText(heap, input));
  ASSIGN_OR_RETURN(const int64_t width, bound.IntOr(0, 80));
  Arguments arguments;
  arguments.positional.push_back(Value::Int(width));
  return CallMethod(heap, Value::String(text), "center", arguments);
}

Result<Value> Truncate(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::string_view text, InputText(heap, input));
  ASSIGN_OR_RETURN(const int64_t length, bound.IntOr(0, 255));
  ASSIGN_OR_RETURN(const std::string_view end, bound.TextOr(2, "..."));
  ASSIGN_OR_RETURN(const int64_t leeway, bound.IntOr(3, 5));
  const int64_t end_length = CountCodePoints(end);
  if (length < end_length || leeway < 0) {
    return InvalidArgumentError("'truncate' needs a length of at least its end, and a leeway >= 0");
  }
  if (CountCodePoints(text) - leeway <= length) return Value::String(text);
  std::string_view kept = text.substr(0, ByteOffset(text, length - end_length));
  if (!bound.TruthOr(1, false)) kept = kept.substr(0, kept.rfind(' '));
  TextBuilder out = heap.NewText();
  out.Append(kept);
  out.Append(end);
  return heap.Text(std::move(out));
}

Result<Value> WordCount(Heap& heap, const Value& input, const Bound&) {
  ASSIGN_OR_RETURN(const std::string_view text, InputText(heap, input));
  int64_t words = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const bool word = IsPythonWord(NextCodePoint(text, &pos));
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::Int(words);
}

Result<Value> Abs(Heap&, const Value& input, const Bound&) {
  if (input.kind() == Kind::kFloat) return Value::Float(std::fabs(input.number()));
  if (input.is_undefined()) return UndefinedError(input);
  if (!input.is_integral()) return TypeError("'abs' needs a number");
  return input.integer() < 0 ? Negative(input) : Value::Int(input.integer());
}

// Python's float(text), or nothing.
bool ParseFloat(std::string_view text, double* value) {
  std::string digits(StripSpace(text, StripSide::kBoth));
  for (size_t i = 1; i + 1 < digits.size(); ++i) {
    const bool between = std::isdigit(static_cast<unsigned char>(digits[i - 1])) != 0 &&
                         std::isdigit(static_cast<unsigned char>(digits[i + 1])) != 0;
    if (digits[i] == '_' && between) digits.erase(i, 1);
  }
  const char* first = digits.data() + (!digits.empty() && digits[0] == '+' ? 1 : 0);
  if (first != digits.data() && digits.size() > 1 && digits[1] == '-') return false;
  const char* last = digits.data() + digits.size();
  const auto parsed = std::from_chars(first, last, *value);
  if (parsed.ptr != last || first == last) return false;
  // from_chars leaves the value alone past the range; strtod gives Python's inf and 0.
  if (parsed.ec == std::errc::result_out_of_range) *value = std::strtod(first, nullptr);
  return parsed.ec == std::errc() || parsed.ec == std::errc::result_out_of_range;
}

// Python's int(text, base), or nothing.
bool ParseInt(std::string_view text, int base, int64_t* value) {
  std::string digits(StripSpace(text, StripSide::kBoth));
  bool negative = false;
  if (!digits.empty() && (digits[0] == '+' || digits[0] == '-')) {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  const char marker = digits.size() > 2 && digits[0] == '0'
                          ? static_cast<char>(std::tolower(static_cast<unsigned char>(digits[1])))
                          : '\0';
  const bool prefixed =
      (base == 16 && marker == 'x') || (base == 8 && marker == 'o') || (base == 2 && marker == 'b');
  if (prefixed) digits.erase(0, 2);
  for (size_t i = 1; i + 1 < digits.size(); ++i) {
    if (digits[i] == '_' && digits[i - 1] != '_' && digits[i + 1] != '_') digits.erase(i, 1);
  }
  if (digits.empty() || digits[0] == '-') return false;
  if (negative) digits.insert(0, 1, '-');
  const char* last = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), last, *value, base);
  return parsed.ec == std::errc() && parsed.ptr == last;
}

Result<Value> IntFilter(Heap&, const Value& input, const Bound& bound) {
  const Value fallback = bound.Or(0, Value::Int(0));
  ASSIGN_OR_RETURN(const int64_t base, bound.IntOr(1, 10));
  if (base < 2 || base > 36) return InvalidArgumentError("'int' needs a base from 2 to 36");
  if (input.is_undefined()) return UndefinedError(input);
  if (input.is_integral()) return Value::Int(input.integer());
  double number = input.number();
  if (input.is_string()) {
    int64_t value = 0;
    if (ParseInt(input.text(), static_cast<int>(base), &value)) return Value::Int(value);
    if (!ParseFloat(input.text(), &number)) return fallback;
  } else if (input.kind() != Kind::kFloat) {
    return fallback;
  }
  if (std::isnan(number)) return fallback;
  if (std::fabs(number) >= 9.2e18) {
    return InvalidArgumentError("'int': the number does not fit into 64 bits");
  }
  return Value::Int(static_cast<int64_t>(number));
}

Result<Value> FloatFilter(Heap&, const Value& input, const Bound& bound) {
  if (input.is_undefined()) return UndefinedError(input);
  if (input.is_number()) return Value::Float(input.number());
  double value = 0;
  if (input.is_string() && ParseFloat(input.text(), &value)) return Value::Float(value);
  return bound.Or(0, Value::Float(0));
}

// round(value, digits) as Python does it: correctly, from the shortest decimal text upwards.
double RoundTo(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits >= 0) {
    char buffer[1024];
    std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(digits), value);
    return std::strtod(buffer, nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return digits < -308 ? 0.0 : std::nearbyint(value / scale) * scale;
}

Result<Value> Round(Heap&, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const int64_t digits, bound.IntOr(0, 0));
  ASSIGN_OR_RETURN(const std::string_view method, bound.TextOr(1, "common"));
  if (method != "common" && method != "ceil" && method != "floor") {
    return InvalidArgumentError("'round' knows the methods common, ceil and floor");
  }
  if (input.is_undefined()) return UndefinedError(input);
  if (!input.is_number()) return TypeError("'round' needs a number");
  if (method == "common") {
    if (!input.is_integral()) return Value::Float(RoundTo(input.number(), digits));
    if (digits >= 0) return Value::Int(input.integer());
    return Value::Int(static_cast<int64_t>(RoundTo(input.number(), digits)));
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = input.number() * scale;
  return Value::Float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result<Value> ToJsonFilter(Heap& heap, const Value& input, const Bound& bound) {
  JsonStyle style;
  style.ensure_ascii = bound.TruthOr(0, false);
  style.sort_keys = bound.TruthOr(3, false);
  const Value indent = bound.Or(1, Value::None());
  if (!indent.is_none()) {
    style.has_indent = true;
    style.item_separator = ",";
    if (indent.is_string()) {
      style.indent = indent.text();
    } else {
      ASSIGN_OR_RETURN(const int64_t width, bound.IntOr(1, 0));
      style.indent.assign(static_cast<size_t>(std::clamp<int64_t>(width, 0, kJsonIndentMax + 1)),
                          ' ');
    }
    if (style.indent.size() > static_cast<size_t>(kJsonIndentMax)) {
      return InvalidArgumentError("'tojson' indents by at most 256 characters");
    }
  }
  const Value separators = bound.Or(2, Value::None());
  if (!separators.is_none()) {
    ASSIGN_OR_RETURN(const std::vector<Value> pair, Iterate(heap, separators));
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return TypeError("'tojson' takes two separators");
    }
    style.item_separator = pair[0].text();
    style.key_separator = pair[1].text();
  }
  return ToJson(heap, input, style);
}

// "%s and %s" | format(a, b)
Result<Value> FormatFilter(Heap& heap, const Value& input, const Bound& bound) {
  const Arguments& arguments = bound.all();
  if (!arguments.positional.empty() && !arguments.keyword.empty()) {
    return TypeError("'format' takes positional or keyword arguments, not both");
  }
  ASSIGN_OR_RETURN(const std::string_view text, InputText(heap, input));
  if (arguments.keyword.empty()) {
    return FormatPercent(heap, text, heap.NewSequence(Flavor::kTuple, arguments.positional));
  }
  std::vector<std::pair<Value, Value>> named;
  for (const Argument& argument : arguments.keyword) {
    named.emplace_back(Value::String(argument.name), argument.value);
  }
  return FormatPercent(heap, text, heap.NewDict(std::move(named)));
}

Result<Value> Attr(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::string_view name, bound.Text(0));
  // Unlike `.`, never an item of that name.
  if (input.kind() == Kind::kDict) return FindMethod(heap, input, name);
  return GetAttribute(heap, input, name);
}

}  // namespace

const FilterSpec kTextFilters[] = {
    {"abs", Abs},
    {"attr", Attr, {"name"}},
    {"capitalize", MappedFilter<Capitalize>},
    {"center", Center, {"width"}},
    {"count", LengthFilter},
    {"d", Default, {"default_value", "boolean"}},
    {"default", Default, {"default_value", "boolean"}},
    {"e", Escape},
    {"escape", Escape},
    {"float", FloatFilter, {"default"}},
    {"forceescape", Escape},
    {"format", FormatFilter, {}, true},
    {"indent", Indent, {"width", "first", "blank"}},
    {"int", IntFilter, {"default", "base"}},
    {"length", LengthFilter},
    {"lower", MappedFilter<ToLower>},
    {"replace", ReplaceFilter, {"old", "new", "count"}},
    {"round", Round, {"precision", "method"}},
    {"safe", Same},
    {"string", StringFilter},
    {"title", Title},
    {"tojson", ToJsonFilter, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"trim", Trim, {"chars"}},
    {"truncate", Truncate, {"length", "killwords", "end", "leeway"}},
    {"upper", MappedFilter<ToUpper>},
    {"wordcount", WordCount},
    {"", nullptr},
};

}  // namespace graft::jinja
