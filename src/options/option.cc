#include "options/option.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <type_traits>

#include "base/host_port.h"
#include "base/strings.h"

namespace graft {
namespace {

template <typename T>
std::string NumberText(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", static_cast<double>(value));
    return text;
  } else {
    return std::to_string(value);
  }
}

// Without exponents where it is whole.
std::string BoundText(double bound) {
  if (std::floor(bound) == bound && std::abs(bound) < 1e15) {
    return std::to_string(static_cast<int64_t>(bound));
  }
  return NumberText(bound);
}

// "between 1 and 2048", "0 or more", "above 0"; "" without bounds.
std::string RangeText(const NumberRange& range, const char* between, const char* and_word) {
  const bool has_min = std::isfinite(range.min), has_max = std::isfinite(range.max);
  if (has_min && has_max) {
    return between + BoundText(range.min) + and_word + BoundText(range.max) +
           (range.is_open ? ", both excluded" : "");
  }
  if (has_min) {
    return range.is_open ? "above " + BoundText(range.min) : BoundText(range.min) + " or more";
  }
  return has_max ? "at most " + BoundText(range.max) : "";
}

template <typename T>
constexpr const char* kKind = std::is_floating_point_v<T> ? "a number" : "a whole number";

Status NumberError(const NumberRange& range, const char* kind, const std::string& text) {
  const std::string bounds = RangeText(range, "between ", " and ");
  const bool is_number = text.find_first_not_of("0123456789+-.eE") == std::string::npos;
  return InvalidArgumentError(std::string("must be ") + (is_number ? "" : kind) +
                              (is_number || bounds.empty() ? "" : " ") +
                              (is_number && bounds.empty() ? kind : bounds) + ", got " +
                              (is_number ? text : "'" + text + "'"));
}

template <typename T>
Result<T> ParseNumber(const std::string& text, const NumberRange& range) {
  T value{};
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(begin, end, value);
  const auto number = static_cast<double>(value);
  const bool is_inside =
      range.is_open ? number > range.min && number < range.max
                    : number >= range.min && number <= range.max;  // false for what is no number
  if (error != std::errc() || rest != end || !is_inside || !std::isfinite(number)) {
    return NumberError(range, kKind<T>, text);
  }
  return value;
}

// As narrow as the type, where it is a small one that has bounds of its own.
template <typename T>
NumberRange RangeOf(NumberRange range) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    range.min = std::max(range.min, 0.0);
    range.max = std::min(range.max, 65535.0);
  }
  return range;
}

// In any case of the letters, as YAML has them: True, TRUE.
Result<bool> ParseBoolean(const std::string& text) {
  const std::string lower = LowerCase(text);
  for (const char* yes : {"true", "1", "yes", "on", "y"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"false", "0", "no", "off", "n"}) {
    if (lower == no) return false;
  }
  return InvalidArgumentError("must be true or false, got '" + text + "'");
}

std::string Listed(const std::vector<std::string>& words) {
  std::string listed;
  for (size_t i = 0; i < words.size(); ++i) {
    listed += (i == 0 ? "" : i + 1 < words.size() ? ", " : " or ") + words[i];
  }
  return listed;
}

Result<size_t> FindWord(const std::vector<std::string>& words, const std::string& text) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  return InvalidArgumentError("must be " + Listed(words) + ", got '" + text + "'");
}

bool IsAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  if (text.find_first_of(", ") != std::string::npos) return false;
  return ParseNumber<uint16_t>(text.substr(colon + 1), Between(1, 65535)).ok();
}

}  // namespace

std::vector<std::string> SplitAtCommas(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      parts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return parts;
}

template <typename T>
OptionTarget Number(T& value, NumberRange range) {
  range = RangeOf<T>(range);
  return {.type = "NUMBER",
          .range = RangeText(range, "", " to "),
          .initial = NumberText(value),
          .set = [&value, range](const std::vector<std::string>& texts) -> Status {
            ASSIGN_OR_RETURN(value, ParseNumber<T>(texts.front(), range));
            return OkStatus();
          }};
}

template OptionTarget Number<int32_t>(int32_t&, NumberRange);
template OptionTarget Number<int64_t>(int64_t&, NumberRange);
template OptionTarget Number<uint16_t>(uint16_t&, NumberRange);
template OptionTarget Number<uint64_t>(uint64_t&, NumberRange);
template OptionTarget Number<float>(float&, NumberRange);
template OptionTarget Number<double>(double&, NumberRange);

OptionTarget NumberIn(int64_t unit, int64_t& value, NumberRange range) {
  return {.type = "NUMBER",
          .range = RangeText(range, "", " to "),
          .initial = NumberText(value / unit),
          .set = [unit, &value, range](const std::vector<std::string>& texts) -> Status {
            ASSIGN_OR_RETURN(const int64_t number, ParseNumber<int64_t>(texts.front(), range));
            int64_t product = 0;
            if (__builtin_mul_overflow(number, unit, &product)) {
              return NumberError(range, kKind<int64_t>, texts.front());
            }
            value = product;
            return OkStatus();
          }};
}

template <typename T>
OptionTarget Numbers(std::vector<T>& values, NumberRange range, size_t count) {
  const std::string range_text = RangeText(range, "", " to ");
  return {.shape = OptionTarget::Shape::kMany,
          .type = count == 2 ? "NUMBER,NUMBER" : "NUMBER,...",
          .range = range_text.empty() ? "" : "each " + range_text,
          .initial = Joined(values, ",", NumberText<T>),
          .set = [&values, range, count](const std::vector<std::string>& texts) -> Status {
            std::vector<T> parsed;
            for (const std::string& text : SplitAtCommas(texts)) {
              ASSIGN_OR_RETURN(const T value, ParseNumber<T>(text, range));
              parsed.push_back(value);
            }
            if (count != 0 && parsed.size() != count) {
              return InvalidArgumentError("must be " + std::to_string(count) +
                                          " numbers with commas between them, got " +
                                          std::to_string(parsed.size()));
            }
            values = std::move(parsed);
            return OkStatus();
          }};
}

template OptionTarget Numbers<int32_t>(std::vector<int32_t>&, NumberRange, size_t);
template OptionTarget Numbers<double>(std::vector<double>&, NumberRange, size_t);

OptionTarget Text(std::string& value) {
  return {.type = "TEXT", .initial = value, .set = [&value](const std::vector<std::string>& texts) {
            value = texts.front();
            return OkStatus();
          }};
}

OptionTarget Texts(std::vector<std::string>& values) {
  return {.shape = OptionTarget::Shape::kMany,
          .type = "TEXT",
          .set = [&values](const std::vector<std::string>& texts) {
            values = texts;
            return OkStatus();
          }};
}

OptionTarget Host(std::string& value) {
  OptionTarget target = Text(value);
  target.set = [&value](const std::vector<std::string>& texts) {
    value = WithoutBrackets(texts.front());
    return OkStatus();
  };
  return target;
}

OptionTarget Address(std::string& value) {
  return {.type = "HOST:PORT",
          .initial = value,
          .set = [&value](const std::vector<std::string>& texts) -> Status {
            if (!IsAddress(texts.front())) return InvalidArgumentError("must be HOST:PORT");
            value = texts.front();
            return OkStatus();
          }};
}

OptionTarget Addresses(std::vector<std::string>& values) {
  return {.shape = OptionTarget::Shape::kMany,
          .type = "HOST:PORT,...",
          .set = [&values](const std::vector<std::string>& texts) -> Status {
            std::vector<std::string> addresses = SplitAtCommas(texts);
            for (const std::string& address : addresses) {
              if (IsAddress(address)) continue;
              return InvalidArgumentError("must be HOST:PORT, several with commas between them");
            }
            values = std::move(addresses);
            return OkStatus();
          }};
}

OptionTarget Removed(std::string neutral, std::string why) {
  return {.set = [neutral = std::move(neutral),
                  why = std::move(why)](const std::vector<std::string>& texts) -> Status {
    return texts.front() == neutral ? OkStatus() : InvalidArgumentError(why);
  }};
}

OptionTarget RemovedSwitch(std::string why) {
  OptionTarget target = Removed("false", std::move(why));
  target.shape = OptionTarget::Shape::kSwitch;
  return target;
}

OptionTarget Boolean(bool& value) {
  return {.type = "true|false",
          .initial = value ? "true" : "false",
          .set = [&value](const std::vector<std::string>& texts) -> Status {
            ASSIGN_OR_RETURN(value, ParseBoolean(texts.front()));
            return OkStatus();
          }};
}

OptionTarget Switch(bool& value) {
  OptionTarget target = Boolean(value);
  target.shape = OptionTarget::Shape::kSwitch;
  target.type = target.initial = "";
  return target;
}

OptionTarget ChosenWord(std::vector<std::string> words, std::string initial,
                        std::function<void(size_t)> choose) {
  std::string type = Joined(words, "|");
  return {.type = std::move(type),
          .initial = std::move(initial),
          .set = [words = std::move(words),
                  choose = std::move(choose)](const std::vector<std::string>& texts) -> Status {
            ASSIGN_OR_RETURN(const size_t i, FindWord(words, texts.front()));
            choose(i);
            return OkStatus();
          }};
}

OptionTarget ChosenWords(std::vector<std::string> words, std::string initial,
                         std::function<void(const std::vector<size_t>&)> choose) {
  std::string type = Joined(words, "|") + ",...";
  return {.shape = OptionTarget::Shape::kMany,
          .type = std::move(type),
          .initial = std::move(initial),
          .set = [words = std::move(words),
                  choose = std::move(choose)](const std::vector<std::string>& texts) -> Status {
            std::vector<size_t> chosen;
            for (const std::string& text : SplitAtCommas(texts)) {
              ASSIGN_OR_RETURN(const size_t i, FindWord(words, text));
              chosen.push_back(i);
            }
            choose(chosen);
            return OkStatus();
          }};
}

Option Tuned(Option row, std::string unit) {
  row.is_tuned = true;
  row.unit = std::move(unit);
  return row;
}

Option Required(Option row) {
  row.is_required = true;
  return row;
}

Option Positional(Option row) {
  row.is_positional = true;
  return Required(std::move(row));
}

std::vector<std::string> AllNames(const Option& option) { return SplitAtCommas({option.name}); }

std::string FirstName(const Option& option) { return AllNames(option).front(); }

}  // namespace graft
