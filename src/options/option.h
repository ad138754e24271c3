// Options of subcommands, each declared once, as a row. It names the flag, the value that it sets,
// the range and the help. The flag's name also gives the config file's key and the environment
// variable. The value before parsing is the default. Rows point into the structs that they set,
// which must outlive them. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"

namespace graft {

// What an option's text is read into, whatever its type.
struct OptionTarget {
  enum class Shape : uint8_t {
    kSwitch,  // given or not; true or false in a file and in the environment
    kOne,     // one value
    kMany,    // may be repeated
  };
  Shape shape = Shape::kOne;
  std::string type;     // for people: "NUMBER", "TEXT", "off|auto"
  std::string range;    // for people: "1 to 2048"; "" for any value of the type
  std::string initial;  // the default, as one would write it; "" for none
  // Reads the texts (exactly one but for kMany) or says what the value must be: "must be ...".
  std::function<Status(const std::vector<std::string>& texts)> set;
};

struct Option {
  // "pool-gib": flag --pool-gib, key pool-gib, variable GRAFT_POOL_GIB. "pool-gib,kv-gib" is two
  // names of one option, of which the first gives the variable.
  std::string name;
  OptionTarget target;
  std::string help;
  std::string default_help = {};  // where the value itself says nothing: "the folder's name"
  bool is_required = false;
  bool is_positional = false;  // words without a flag; on the command line alone
  bool is_removed = false;     // known for one version more, and named in no help
  bool is_tuned = false;       // a key of --tune, see Tuned
  std::string unit = {};       // of a tuned value: "ms"
};

// The row as a key of --tune instead of a flag of its own. For one version more its name is a flag
// too, with a key in files and a variable, which warn. `unit`: where the values have one.
Option Tuned(Option row, std::string unit = "");

// The row as one that must be given: as a flag, and as words without one.
Option Required(Option row);
Option Positional(Option row);

// Numbers from `min` to `max`, both included; where `is_open`, neither.
struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool is_open = false;
};
constexpr NumberRange AtLeast(double min) { return {.min = min}; }
constexpr NumberRange Above(double min) { return {.min = min, .is_open = true}; }
constexpr NumberRange Between(double min, double max) { return {.min = min, .max = max}; }
constexpr NumberRange Inside(double min, double max) { return {min, max, /*is_open=*/true}; }

// T: int32_t, int64_t, uint16_t, uint64_t, float or double. What T cannot hold is out of range too.
template <typename T>
OptionTarget Number(T& value, NumberRange range = {});
// A number that is written in units of so much each: bytes in MiB, nanoseconds in ms.
OptionTarget NumberIn(int64_t unit, int64_t& value, NumberRange range = {});
inline constexpr int64_t kMibInBytes = 1 << 20;
inline constexpr int64_t kHourInSeconds = 3600;
inline constexpr int64_t kMsInNs = 1'000'000;
inline constexpr int64_t kSecondInNs = 1'000'000'000;
// T: int32_t or double; several in one text have commas between them. `count`: how many there must
// be; 0: any number of them, but one at least.
template <typename T>
OptionTarget Numbers(std::vector<T>& values, NumberRange range = {}, size_t count = 0);
OptionTarget Text(std::string& value);
OptionTarget Texts(std::vector<std::string>& values);
// An address to listen on or a name, kept without the brackets that an IPv6 address may have.
OptionTarget Host(std::string& value);
// A machine: HOST:PORT.
OptionTarget Address(std::string& value);
// Machines: several in one text have commas between them.
OptionTarget Addresses(std::vector<std::string>& values);
// For an option that was removed: `neutral` sets nothing, and the error for all else is `why`.
OptionTarget Removed(std::string neutral, std::string why);
OptionTarget RemovedSwitch(std::string why);  // false is neutral
OptionTarget Boolean(bool& value);
OptionTarget Switch(bool& value);

// A value of T and the word for it. Tables of them are static.
template <typename T>
struct OptionWord {
  T value;
  const char* word;
};

// The word for a value; "" for one that has none.
template <typename T, size_t N>
const char* WordOf(const T& value, const OptionWord<T> (&words)[N]) {
  for (const OptionWord<T>& one : words) {
    if (one.value == value) return one.word;
  }
  return "";
}

// The same over places in a list of words. `initial`: the words of the default.
OptionTarget ChosenWord(std::vector<std::string> words, std::string initial,
                        std::function<void(size_t)> choose);
OptionTarget ChosenWords(std::vector<std::string> words, std::string initial,
                         std::function<void(const std::vector<size_t>&)> choose);

template <typename T, size_t N>
std::vector<std::string> AllWords(const OptionWord<T> (&words)[N]) {
  std::vector<std::string> all;
  for (const OptionWord<T>& one : words) all.emplace_back(one.word);
  return all;
}

template <typename T, size_t N>
OptionTarget OneOf(T& value, const OptionWord<T> (&words)[N]) {
  return ChosenWord(AllWords(words), WordOf(value, words),
                    [&value, &words](size_t i) { value = words[i].value; });
}

// Several words, with commas between them.
template <typename T, size_t N>
OptionTarget SomeOf(std::vector<T>& values, const OptionWord<T> (&words)[N]) {
  const auto word_of = [&words](const T& value) { return WordOf(value, words); };
  return ChosenWords(AllWords(words), Joined(values, ",", word_of),
                     [&values, &words](const std::vector<size_t>& chosen) {
                       values.clear();
                       for (const size_t i : chosen) values.push_back(words[i].value);
                     });
}

// A value with a parser of its own, which gives errors that read "must be ...".
template <typename T>
OptionTarget Parsed(T& value, Result<T> (*parse)(const std::string&), std::string type,
                    std::string initial) {
  return {.type = std::move(type),
          .initial = std::move(initial),
          .set = [&value, parse](const std::vector<std::string>& texts) -> Status {
            ASSIGN_OR_RETURN(value, parse(texts.front()));
            return OkStatus();
          }};
}

// The parts of all texts, empty ones too.
std::vector<std::string> SplitAtCommas(const std::vector<std::string>& texts);

// The option's first name, and all of them.
std::string FirstName(const Option& option);
std::vector<std::string> AllNames(const Option& option);

}  // namespace graft
