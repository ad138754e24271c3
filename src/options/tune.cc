#include "options/tune.h"

#include <algorithm>

#include "base/nearest_names.h"
#include "base/strings.h"

namespace graft {
namespace {

std::vector<std::string> KeysOf(const Command& command) {
  std::vector<std::string> keys;
  for (const Option* row : TunedRows(command)) keys.push_back(FirstName(*row));
  return keys;
}

std::string ValuesText(const Option& row) {
  const OptionTarget& target = row.target;
  return (target.range.empty() ? target.type : target.range) +
         (row.unit.empty() ? "" : " " + row.unit);
}

Status UnknownKey(const Command& command, const std::string& key, const std::string& where) {
  const std::vector<std::string> keys = KeysOf(command);
  const std::string nearest = NearestNames(key, keys, 1);
  return InvalidArgumentError(where + " has no key '" + key + "'" +
                              (nearest.empty() ? "" : "; did you mean " + nearest + "?") +
                              "; its keys are " + Joined(keys, ", "));
}

// The key's name in errors: "--tune turn-ms", "FILE: 'tune': 'turn-ms'".
std::string WhereOf(const std::string& where, const std::string& key, SettingPlace place) {
  if (place == SettingPlace::kFile) return where + ": '" + key + "'";
  return where + " " + key;
}

}  // namespace

std::vector<const Option*> TunedRows(const Command& command) {
  std::vector<const Option*> rows;
  for (const OptionGroup& group : command.groups) {
    for (const Option& option : group.options) {
      if (option.is_tuned) rows.push_back(&option);
    }
  }
  return rows;
}

const Option* FindTuned(const Command& command, std::string_view key) {
  for (const Option* row : TunedRows(command)) {
    if (FirstName(*row) == key) return row;
  }
  return nullptr;
}

const Option* FindNamesake(const Command& command, const Option& tuned) {
  for (const OptionGroup& group : command.groups) {
    for (const Option& option : group.options) {
      if (!option.is_tuned && FirstName(option) == FirstName(tuned)) return &option;
    }
  }
  return nullptr;
}

Option TuneRow(const Command& command, bool with_keys) {
  std::string help =
      "what seldom needs to be set; may be repeated; keys: " + Joined(KeysOf(command), ", ");
  if (with_keys) {
    help = "what seldom needs to be set; may be repeated. Keys:";
    for (const Option* row : TunedRows(command)) {
      help += "\n" + FirstName(*row) + " (" + ValuesText(*row) + ") [" + row->target.initial +
              "]: " + row->help;
    }
  }
  return {.name = kTuneName,
          .target = {.shape = OptionTarget::Shape::kMany, .type = "KEY=VALUE"},
          .help = std::move(help)};
}

Result<std::vector<ConfigPair>> ParseTunePairs(const std::vector<std::string>& texts,
                                               const std::string& where) {
  std::vector<ConfigPair> pairs;
  for (const std::string& text : SplitAtCommas(texts)) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidArgumentError(where + " must be KEY=VALUE, got '" + text + "'");
    }
    pairs.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return pairs;
}

Status AddTuned(const Command& command, const std::vector<ConfigPair>& pairs, SettingPlace place,
                const std::string& where, const std::vector<std::string>& passed_over,
                Settings* settings) {
  for (const ConfigPair& pair : pairs) {
    if (FindTuned(command, pair.key) == nullptr) {
      if (std::find(passed_over.begin(), passed_over.end(), pair.key) != passed_over.end()) {
        continue;
      }
      return UnknownKey(command, pair.key, where);
    }
    const Setting setting{{pair.value}, WhereOf(where, pair.key, place), place};
    const auto [found, is_new] = settings->emplace(pair.key, setting);
    if (!is_new && found->second.place == place) {
      return InvalidArgumentError(setting.where + " is there twice; keep one of them");
    }
  }
  return OkStatus();
}

std::string OldSpellingNote(const std::string& key, const Setting& old,
                            const std::string& variable) {
  const std::string pair = key + "=" + old.texts.front();
  switch (old.place) {
    case SettingPlace::kCommandLine:
      break;
    case SettingPlace::kEnvironment:
      return old.where + " is now " + variable + "=" + pair;
    case SettingPlace::kFile:
      return old.where + " is now '" + key + ": " + old.texts.front() + "' under '" + kTuneName +
             "'";
  }
  return old.where + " is now --" + kTuneName + " " + pair;
}

Status Contradiction(const Setting& one, const Setting& other) {
  return InvalidArgumentError(one.where + " is " + one.texts.front() + " and " + other.where +
                              " is " + other.texts.front() + "; keep one of them");
}

}  // namespace graft
