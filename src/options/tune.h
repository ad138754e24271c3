// --tune KEY=VALUE: one flag for the many settings that tests and measurements use and users seldom
// do (see Tuned). In a config file it is a mapping, in the environment KEY=VALUE pairs with commas
// between them. These functions are for the parser and for the tables in the pages. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "options/command.h"
#include "options/config_file.h"

namespace graft {

inline constexpr char kTuneName[] = "tune";

// Where a value can come from; the first wins.
enum class SettingPlace : uint8_t { kCommandLine, kEnvironment, kFile };

// What one place says of an option; `where` is its name in errors.
struct Setting {
  std::vector<std::string> texts;
  std::string where;
  SettingPlace place = SettingPlace::kCommandLine;
};

using Settings = std::map<std::string, Setting>;  // by the option's first name

// The command's rows that are Tuned, in order; the one of a key, or null.
std::vector<const Option*> TunedRows(const Command& command);
const Option* FindTuned(const Command& command, std::string_view key);
// The row of a flag of its own that has the key's name, as --cold-start beside the key cold-start;
// or null: then the key's name is the flag that it was before.
const Option* FindNamesake(const Command& command, const Option& tuned);

// The row of --tune itself for a command that has keys. `with_keys`: its help explains each key.
Option TuneRow(const Command& command, bool with_keys);

// What texts of "KEY=VALUE" say, several with commas between them; `where` is --tune or the
// variable.
Result<std::vector<ConfigPair>> ParseTunePairs(const std::vector<std::string>& texts,
                                               const std::string& where);
// Adds the pairs to `settings`, by key, unless a higher place has the key. Keys that the command
// lacks are refused, but for those in `passed_over`.
Status AddTuned(const Command& command, const std::vector<ConfigPair>& pairs, SettingPlace place,
                const std::string& where, const std::vector<std::string>& passed_over,
                Settings* settings);

// "--turn-ms is now --tune turn-ms=5", of a value that came by the flag that the key was before.
std::string OldSpellingNote(const std::string& key, const Setting& old,
                            const std::string& variable);
// The error of two places of one rank that say different things.
Status Contradiction(const Setting& one, const Setting& other);

}  // namespace graft
