#include "text/output/python_literals.h"

#include <cmath>
#include <cstdlib>

#include "base/json.h"
#include "base/strings.h"
#include "text/output/json_scanner.h"
#include "text/utf8.h"

namespace graft {
namespace {

constexpr int kDepthMax = 48;  // within kJsonDepthMax, with room for what goes around

bool IsPythonNameByte(char c) { return IsAsciiAlnum(c) || c == '_' || c == '.' || c == '-'; }

}  // namespace

void PythonText::SkipSpace() {
  while (!rest_.empty() && IsJsonSpace(rest_.front())) rest_.remove_prefix(1);
}

bool PythonText::Take(char c) {
  if (!Peek(c)) return false;
  rest_.remove_prefix(1);
  SkipSpace();
  return true;
}

bool PythonText::TakeName(std::string* name) {
  name->clear();
  while (!rest_.empty() && IsPythonNameByte(rest_.front())) {
    *name += rest_.front();
    rest_.remove_prefix(1);
  }
  SkipSpace();
  return !name->empty() && !IsAsciiDigit(name->front()) && name->front() != '-';
}

bool PythonText::TakeValue(std::string* json, int depth) {
  if (depth > kDepthMax || rest_.empty()) return false;
  const char c = rest_.front();
  if (c == '"' || c == '\'') {
    std::string text;
    if (!TakeString(&text)) return false;
    *json += DumpJson(Json(text));
    return true;
  }
  if (c == '[') return TakeSequence('[', ']', json, depth);
  if (c == '(') return TakeSequence('(', ')', json, depth);
  if (c == '{') return TakeDict(json, depth);
  if (IsAsciiDigit(c) || c == '-' || c == '+' || c == '.') return TakeNumber(json);
  return TakeWord(json);
}

bool PythonText::TakeWord(std::string* json) {
  std::string word;
  if (!TakeName(&word)) return false;
  if (word == "True" || word == "true") {
    *json += "true";
  } else if (word == "False" || word == "false") {
    *json += "false";
  } else if (word == "None" || word == "null") {
    *json += "null";
  } else {
    return false;
  }
  return true;
}

// In quotes or triple quotes.
bool PythonText::TakeString(std::string* text) {
  const char mark = rest_.front();
  const std::string triple(3, mark);
  const std::string end = rest_.starts_with(triple) ? triple : std::string(1, mark);
  rest_.remove_prefix(end.size());
  while (!rest_.starts_with(end)) {
    if (rest_.empty()) return false;
    if (rest_.front() == '\\') {
      if (!TakeEscape(text)) return false;
      continue;
    }
    *text += rest_.front();
    rest_.remove_prefix(1);
  }
  rest_.remove_prefix(end.size());
  SkipSpace();
  return true;
}

bool PythonText::TakeEscape(std::string* text) {
  if (rest_.size() < 2) return false;
  const char c = rest_[1];
  rest_.remove_prefix(2);
  constexpr std::string_view kLetters = "abfnrtv0\\'\"";
  constexpr std::string_view kMeanings("\a\b\f\n\r\t\v\0\\'\"", 11);
  const size_t letter = kLetters.find(c);
  if (letter != std::string_view::npos) {
    *text += kMeanings[letter];
  } else if (c == 'x') {
    return TakeHex(2, text, /*is_byte=*/true);
  } else if (c == 'u') {
    return TakeHex(4, text, /*is_byte=*/false);
  } else if (c == 'U') {
    return TakeHex(8, text, /*is_byte=*/false);
  } else if (c != '\n') {
    // As Python does with what is no escape.
    *text += '\\';
    *text += c;
  }
  return true;
}

// Models also write a character beyond U+FFFF as two surrogates, as JSON has it.
bool PythonText::TakeHex(size_t digits, std::string* text, bool is_byte) {
  const std::string hex(rest_.substr(0, digits));
  if (hex.size() < digits || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
    return false;
  }
  rest_.remove_prefix(digits);
  auto code = static_cast<char32_t>(std::strtoul(hex.c_str(), nullptr, 16));
  const bool is_high = code >= 0xD800 && code < 0xDC00;
  if (!is_byte && is_high && rest_.starts_with("\\u") && rest_.size() >= 6) {
    const std::string low_hex(rest_.substr(2, 4));
    const auto low = static_cast<char32_t>(std::strtoul(low_hex.c_str(), nullptr, 16));
    if (low >= 0xDC00 && low < 0xE000) {
      rest_.remove_prefix(6);
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
  AppendCodePoint(code, text);
  return true;
}

bool PythonText::TakeNumber(std::string* json) {
  std::string number;
  while (!rest_.empty()) {
    const char c = rest_.front();
    const bool is_sign = c == '-' || c == '+';
    const bool after_exponent = !number.empty() && (number.back() == 'e' || number.back() == 'E');
    if (is_sign && !number.empty() && !after_exponent) break;
    if (!IsAsciiDigit(c) && !is_sign && c != '.' && c != 'e' && c != 'E' && c != '_') break;
    rest_.remove_prefix(1);
    if (c != '_') number += c;
  }
  SkipSpace();
  // JSON wants a digit on both sides of the point, and no plus in front.
  if (number.starts_with("+")) number.erase(0, 1);
  const size_t first = number.starts_with("-") ? 1 : 0;
  if (number.substr(first).starts_with(".")) number.insert(first, "0");
  if (const size_t point = number.find('.'); point != std::string::npos) {
    if (point + 1 == number.size() || !IsAsciiDigit(number[point + 1])) {
      number.insert(point + 1, "0");
    }
  }
  const Result<Json> parsed = ParseJson(number);
  if (!parsed.ok() || !parsed->is_number() || !std::isfinite(parsed->get<double>())) return false;
  *json += number;
  return true;
}

bool PythonText::TakeSequence(char open, char close, std::string* json, int depth) {
  Take(open);
  std::string items;
  size_t num_items = 0;
  bool has_comma = false;
  while (!Take(close)) {
    if (num_items > 0 && !has_comma) return false;
    if (num_items > 0) items += ", ";
    if (!TakeValue(&items, depth + 1)) return false;
    ++num_items;
    has_comma = Take(',');
  }
  // Brackets around one value alone are no tuple.
  const bool is_value = open == '(' && num_items == 1 && !has_comma;
  *json += is_value ? items : "[" + items + "]";
  return true;
}

bool PythonText::TakeDict(std::string* json, int depth) {
  Take('{');
  *json += '{';
  bool has_comma = true;
  for (size_t num_entries = 0; !Take('}'); ++num_entries) {
    if (!has_comma) return false;
    std::string key;
    if (!TakeValue(&key, depth + 1) || !Take(':')) return false;
    if (key.front() == '[' || key.front() == '{') return false;
    if (num_entries > 0) *json += ", ";
    *json += key.front() == '"' ? key : "\"" + key + "\"";
    *json += ": ";
    if (!TakeValue(json, depth + 1)) return false;
    has_comma = Take(',');
  }
  *json += '}';
  return true;
}

}  // namespace graft
