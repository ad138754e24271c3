#include "options/parser.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/nearest_names.h"
#include "base/server_log.h"
#include "base/start_notes.h"
#include "base/strings.h"
#include "options/config_file.h"
#include "options/tune.h"

namespace graft {
namespace {

constexpr char kConfigName[] = "config";
constexpr std::string_view kPrefix = "GRAFT_";  // of all commands' variables
constexpr char kConfigHelp[] = "YAML or JSON file that holds any of these flags";

std::string VariableOf(const std::string& prefix, const std::string& name) {
  std::string variable = prefix + name;
  std::replace(variable.begin(), variable.end(), '-', '_');
  std::transform(variable.begin(), variable.end(), variable.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return variable;
}

std::string DidYouMean(const std::string& typed, const std::vector<std::string>& words) {
  const std::string nearest = NearestNames(typed, words, 1);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

bool HasFlag(const Command& command, std::string_view name) {
  if (name == kTuneName) return !TunedRows(command).empty();
  for (const OptionGroup& group : command.groups) {
    for (const Option& option : group.options) {
      const std::vector<std::string> names = AllNames(option);
      if (!option.is_tuned && std::find(names.begin(), names.end(), name) != names.end()) {
        return true;
      }
    }
  }
  return false;
}

// Whether the command has each "--flag" that is named in the text, and each "--tune key".
bool HasFlagsIn(const Command& command, std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz-";
  const auto word_at = [&](size_t at) {
    return text.substr(at, std::min(text.find_first_not_of(kLetters, at), text.size()) - at);
  };
  for (size_t at = text.find("--"); at != std::string_view::npos; at = text.find("--", at)) {
    at += 2;
    const std::string_view name = word_at(at);
    if (!HasFlag(command, name)) return false;
    const size_t key_at = at + name.size() + 1;
    if (name != kTuneName || key_at >= text.size()) continue;
    if (FindTuned(command, word_at(key_at)) == nullptr) return false;
  }
  return true;
}

// What to write in place of another program's flag; "" if the flag is not known, or if this command
// lacks the flags that replace it.
std::string AdviceFor(const Command& command, std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  for (const ForeignFlag& flag : command.foreign_flags) {
    if (name == flag.name) return HasFlagsIn(command, flag.advice) ? flag.advice : "";
  }
  return "";
}

// The leaf that the first words name, or the last command that they do; its path from the program's
// name on, and the words left.
struct Picked {
  const Command* command;
  std::string path;
  std::vector<std::string> words;
};

Result<Picked> PickCommand(const Command& program, const std::vector<std::string>& args) {
  Picked picked{&program, program.name, args};
  while (!picked.command->subcommands.empty()) {
    std::vector<std::string> names;
    for (const Command& one : picked.command->subcommands) {
      if (!one.is_hidden) names.push_back(one.name);
    }
    const std::string listed = Joined(names, ", ");
    if (picked.words.empty()) {
      return InvalidArgumentError("which command? " + picked.path + " takes one of " + listed +
                                  "; see " + picked.path + " --help");
    }
    const std::string word = picked.words.front();
    if (word.starts_with('-')) return picked;
    const auto& subcommands = picked.command->subcommands;
    const auto named = std::find_if(subcommands.begin(), subcommands.end(),
                                    [&](const Command& one) { return one.name == word; });
    if (named == subcommands.end()) {
      return InvalidArgumentError("unknown command '" + word + "'" + DidYouMean(word, names) +
                                  "; " + picked.path + " takes one of " + listed);
    }
    picked.command = &*named;
    picked.path += " " + word;
    picked.words.erase(picked.words.begin());
  }
  return picked;
}

std::string FlagsOf(const Option& option) { return "--" + Joined(AllNames(option), ",--"); }

// The help without its examples.
std::string Summary(const std::string& help) { return help.substr(0, help.find("\n  ")); }

// What the help says of an option's values: "off|auto [off]".
std::string OptionText(const Option& option) {
  std::string text = option.target.type;
  if (option.target.shape == OptionTarget::Shape::kMany) text += " ...";
  const std::string& value =
      option.default_help.empty() ? option.target.initial : option.default_help;
  if (!value.empty()) text += " [" + value + "]";
  return text;
}

CLI::Option* AddOption(CLI::App& app, const Option& option, const std::string& group) {
  const auto keep = [](const CLI::results_t&) { return true; };
  const std::string help = option.help;
  CLI::Option* added = nullptr;
  if (option.is_positional) {
    added = app.add_option(option.name, keep, help);
  } else if (option.target.shape == OptionTarget::Shape::kSwitch) {
    added = app.add_flag(FlagsOf(option), help);
  } else {
    added = app.add_option(FlagsOf(option), keep, help);
  }
  if (option.target.shape == OptionTarget::Shape::kMany) {
    added->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
  }
  if (!OptionText(option).empty()) added->option_text(OptionText(option));
  if (!group.empty()) added->group(group);
  if (option.is_removed || option.is_tuned) added->group("");
  return added;
}

bool TakesSettings(const Command& command) {
  return command.run != nullptr && !command.environment_prefix.empty();
}

// The library's parser for one command's words; options in the order of the groups.
struct Parser {
  CLI::App app;
  std::vector<std::pair<const Option*, CLI::Option*>> options;
  CLI::Option* config = nullptr;
  CLI::Option* tune = nullptr;  // null: the command has no keys
};

void MakeParser(const Picked& picked, const std::string& version, Parser* parser) {
  CLI::App& app = parser->app;
  app.name(picked.path);
  app.description(picked.command->help);
  app.allow_extras();
  app.get_formatter()->column_width(36);
  if (picked.path.find(' ') == std::string::npos) app.set_version_flag("--version", version);
  for (const OptionGroup& group : picked.command->groups) {
    for (const Option& option : group.options) {
      if (option.is_tuned && FindNamesake(*picked.command, option) != nullptr) continue;
      parser->options.emplace_back(&option, AddOption(app, option, group.title));
    }
  }
  if (!TunedRows(*picked.command).empty()) {
    parser->tune = AddOption(app, TuneRow(*picked.command, /*with_keys=*/true), "Tuning");
  }
  if (TakesSettings(*picked.command)) {
    parser->config = app.add_option(
        std::string("--") + kConfigName, [](const CLI::results_t&) { return true; }, kConfigHelp);
    parser->config->option_text("FILE");
  }
  for (const Command& one : picked.command->subcommands) {
    CLI::App* added = app.add_subcommand(one.name, Summary(one.help));
    if (one.is_hidden) added->group("");
  }
}

std::vector<std::string> FlagNames(const Picked& picked) {
  std::vector<std::string> names;
  for (const OptionGroup& group : picked.command->groups) {
    for (const Option& option : group.options) {
      if (option.is_positional || option.is_removed || option.is_tuned) continue;
      for (std::string& name : AllNames(option)) names.push_back(std::move(name));
    }
  }
  if (!TunedRows(*picked.command).empty()) names.emplace_back(kTuneName);
  if (TakesSettings(*picked.command)) names.emplace_back(kConfigName);
  return names;
}

Status UnknownWord(const Picked& picked, const std::string& word) {
  const std::string see = "; see " + picked.path + " --help";
  const std::vector<std::string> flags = FlagNames(picked);
  if (!word.starts_with("--")) {
    const bool takes_model = std::find(flags.begin(), flags.end(), "model") != flags.end();
    return InvalidArgumentError("unexpected '" + word + "'" +
                                (takes_model ? "; a model is named by --model DIR" : "") + see);
  }
  const std::string name =
      word.substr(2, word.find('=') == std::string::npos ? std::string::npos : word.find('=') - 2);
  const std::string advice = AdviceFor(*picked.command, name);
  if (!advice.empty()) return InvalidArgumentError("unknown flag --" + name + ": " + advice + see);
  std::vector<std::string> names = flags;
  for (const Option* row : TunedRows(*picked.command)) names.push_back(FirstName(*row));
  std::string nearest = NearestNames(name, names, 1);
  if (!nearest.empty()) nearest = nearest.substr(1, nearest.size() - 2);  // unquoted
  const bool is_key = std::find(flags.begin(), flags.end(), nearest) == flags.end();
  const std::string meant = is_key ? std::string(kTuneName) + " " + nearest + "=VALUE" : nearest;
  return InvalidArgumentError("unknown flag --" + name +
                              (nearest.empty() ? "" : "; did you mean --" + meant + "?") + see);
}

// Runs the library over the words. Text to print instead of running anything: help, the version.
Result<std::optional<std::string>> ParseWords(const Picked& picked, Parser& parser) {
  for (const std::string& word : picked.words) {
    if (word.starts_with("--") && word.ends_with("=")) {
      return InvalidArgumentError(word.substr(0, word.size() - 1) +
                                  " is empty; give it a value or leave it out");
    }
  }
  std::vector<std::string> backwards(picked.words.rbegin(), picked.words.rend());
  try {
    parser.app.parse(std::move(backwards));
  } catch (const CLI::CallForHelp&) {
    return std::optional(parser.app.help());
  } catch (const CLI::CallForVersion& version) {
    return std::optional(std::string(version.what()) + "\n");
  } catch (const CLI::Error& error) {
    return InvalidArgumentError(std::string(error.what()) + "; see " + picked.path + " --help");
  }
  const std::vector<std::string> unknown = parser.app.remaining();
  if (!unknown.empty()) return UnknownWord(picked, unknown.front());
  return std::optional<std::string>();
}

// "tcp://10.0.0.1:8131": what Kubernetes puts into every pod's GRAFT_PORT where a Service is called
// graft.
bool IsServiceLink(const std::string& text) {
  for (const char* scheme : {"tcp://", "udp://", "sctp://"}) {
    if (!text.starts_with(scheme)) continue;
    const size_t colon = text.rfind(':');
    return colon + 1 < text.size() &&
           text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  }
  return false;
}

// A variable's text; nothing where it is not set, or set by Kubernetes for something else.
std::optional<std::string> ReadVariable(const std::string& variable) {
  const char* text = std::getenv(variable.c_str());
  if (text == nullptr) return std::nullopt;
  if (!IsServiceLink(text)) return text;
  NoteAtStart(variable + " is '" + text +
              "', as Kubernetes sets it for a Service of that name: ignored (enableServiceLinks: "
              "false in the pod's spec keeps it out)");
  return std::nullopt;
}

// One text, or those of "[a,b]".
std::vector<std::string> SplitBrackets(const std::string& text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return {text};
  std::vector<std::string> parts;
  for (size_t begin = 1; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size() - 1);
    const size_t first = std::min(text.find_first_not_of(' ', begin), end);
    parts.push_back(text.substr(first, end - first));
    begin = end + 1;
  }
  return parts;
}

// The config file's, if there is one, each under an option that the command has. Those of --tune go
// to `tuned`.
Result<Settings> ReadFileSettings(const Picked& picked, const Parser& parser, Settings* tuned) {
  Settings settings;
  std::optional<std::string> path =
      ReadVariable(VariableOf(picked.command->environment_prefix, kConfigName));
  if (parser.config->count() > 0) path = parser.config->results().front();
  if (!path.has_value()) return settings;
  ASSIGN_OR_RETURN(const std::vector<ConfigEntry> entries, ReadConfigFile(*path));
  for (const ConfigEntry& entry : entries) {
    if (entry.key == kTuneName && parser.tune != nullptr) {
      const std::string where = *path + ": '" + kTuneName + "'";
      if (!entry.is_mapping) {
        return InvalidArgumentError(where + " must be a mapping of keys to values");
      }
      RETURN_IF_ERROR(
          AddTuned(*picked.command, entry.pairs, SettingPlace::kFile, where, {}, tuned));
      continue;
    }
    const Option* found = nullptr;
    for (const auto& [option, unused] : parser.options) {
      const std::vector<std::string> names = AllNames(*option);
      const bool is_it = std::find(names.begin(), names.end(), entry.key) != names.end();
      if (is_it && !option->is_positional) found = option;
    }
    if (found == nullptr) {
      const std::string advice = AdviceFor(*picked.command, entry.key);
      return InvalidArgumentError(
          *path + ": unknown key '" + entry.key + "'" +
          (advice.empty() ? DidYouMean(entry.key, FlagNames(picked)) : ": " + advice) + "; see " +
          picked.path + " --help for the flags");
    }
    if (entry.is_mapping) {
      return InvalidArgumentError(*path + ": '" + entry.key +
                                  "' must be one value or a list of them");
    }
    const bool takes_list = found->target.shape == OptionTarget::Shape::kMany;
    if (entry.is_list && !takes_list) {
      return InvalidArgumentError(*path + ": '" + entry.key + "' must be one value");
    }
    const Setting setting{entry.texts, *path + ": '" + entry.key + "'", SettingPlace::kFile};
    if (!settings.emplace(FirstName(*found), setting).second) {
      return InvalidArgumentError(setting.where + " is there under two names; keep one of them");
    }
  }
  return settings;
}

// The setting that counts for the option; nothing if it is set nowhere.
std::optional<Setting> SettingOf(const Command& command, const Option& option,
                                 const CLI::Option& parsed, const Settings& file) {
  const std::string name = FirstName(option);
  if (parsed.count() > 0) {
    return Setting{parsed.results(), option.is_positional ? name : "--" + name};
  }
  if (option.is_positional || !TakesSettings(command)) return std::nullopt;
  const std::string variable = VariableOf(command.environment_prefix, name);
  if (const std::optional<std::string> text = ReadVariable(variable)) {
    const bool takes_list = option.target.shape == OptionTarget::Shape::kMany;
    return Setting{takes_list ? SplitBrackets(*text) : std::vector{*text}, variable,
                   SettingPlace::kEnvironment};
  }
  const auto found = file.find(name);
  if (found == file.end()) return std::nullopt;
  return found->second;
}

// An empty value is a mistake: for --api-keys it would open the server to all callers.
Status Apply(const Option& option, const Setting& setting) {
  for (const std::string& text : setting.texts) {
    if (text.empty()) {
      return InvalidArgumentError(setting.where + " is empty; give it a value or leave it out");
    }
  }
  if (setting.texts.empty()) {
    return InvalidArgumentError(setting.where + " is an empty list; leave it out instead");
  }
  const Status status = option.target.set(setting.texts);
  if (status.ok()) return status;
  return Status(status.code(), setting.where + " " + status.message());
}

// The variables that some command of the program reads.
void AddVariables(const Command& command, std::vector<std::string>* variables) {
  for (const Command& one : command.subcommands) AddVariables(one, variables);
  if (!TakesSettings(command) || command.groups.empty()) return;
  variables->push_back(VariableOf(command.environment_prefix, kConfigName));
  if (!TunedRows(command).empty()) {
    variables->push_back(VariableOf(command.environment_prefix, kTuneName));
  }
  for (const OptionGroup& group : command.groups) {
    for (const Option& option : group.options) {
      if (option.is_positional) continue;
      variables->push_back(VariableOf(command.environment_prefix, FirstName(option)));
    }
  }
}

// The variable that a misspelt one was meant to be: few letters differ, those of the prefix aside.
std::string MeantVariable(const std::string& name, const std::vector<std::string>& variables) {
  constexpr int kEditsMax = 2;
  const auto edits_max = std::min(kEditsMax, static_cast<int>(name.size() - kPrefix.size()) / 4);
  std::string nearest;
  int least = edits_max + 1;
  for (const std::string& variable : variables) {
    const int edits = EditDistance(name, variable, edits_max);
    if (edits >= least) continue;
    least = edits;
    nearest = variable;
  }
  return nearest;
}

// Notes what looks like a setting and is none: nothing would say that it does nothing. Other
// programs and scripts may have variables of their own that begin like ours.
void NoteUnknownVariables(const Command& program, const Command& command) {
  std::vector<std::string> variables;
  AddVariables(program, &variables);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (!name.starts_with(kPrefix) || name.find("_SERVICE_") != std::string::npos) continue;
    if (name.size() < text.size() && IsServiceLink(text.substr(name.size() + 1))) continue;
    if (std::find(variables.begin(), variables.end(), name) != variables.end()) continue;
    const std::string advice = AdviceFor(command, LowerCase(name.substr(kPrefix.size())));
    const std::string meant = advice.empty() ? MeantVariable(name, variables) : "";
    if (advice.empty() && meant.empty()) continue;
    NoteAtStart("the variable " + name +
                " sets nothing: " + (advice.empty() ? "did you mean " + meant + "?" : advice));
  }
}

// The keys of all commands of the program that read the same variables.
void AddTunedKeys(const Command& command, const std::string& prefix,
                  std::vector<std::string>* keys) {
  for (const Command& one : command.subcommands) AddTunedKeys(one, prefix, keys);
  if (command.environment_prefix != prefix) return;
  for (const Option* row : TunedRows(command)) keys->push_back(FirstName(*row));
}

// What --tune and its variable say, by key. One variable may be many commands': each passes over
// the keys of others.
Result<Settings> ReadTuned(const Command& program, const Command& command, const Parser& parser) {
  Settings settings;
  if (parser.tune == nullptr) return settings;
  const std::string flag = std::string("--") + kTuneName;
  ASSIGN_OR_RETURN(std::vector<ConfigPair> pairs, ParseTunePairs(parser.tune->results(), flag));
  RETURN_IF_ERROR(AddTuned(command, pairs, SettingPlace::kCommandLine, flag, {}, &settings));
  if (!TakesSettings(command)) return settings;
  const std::string variable = VariableOf(command.environment_prefix, kTuneName);
  const std::optional<std::string> text = ReadVariable(variable);
  if (!text.has_value()) return settings;
  if (text->empty()) {
    return InvalidArgumentError(variable + " is empty; give it a value or leave it out");
  }
  std::vector<std::string> others;
  AddTunedKeys(program, command.environment_prefix, &others);
  ASSIGN_OR_RETURN(pairs, ParseTunePairs(SplitBrackets(*text), variable));
  RETURN_IF_ERROR(
      AddTuned(command, pairs, SettingPlace::kEnvironment, variable, others, &settings));
  return settings;
}

// Applies a key of --tune, where no higher place says otherwise by its name alone: by the flag that
// it was before, or by the namesake's, which was applied.
Status ApplyTuned(const Command& command, const Option& option, const Parser& parser,
                  const Settings& file, const Settings& tuned) {
  const std::string key = FirstName(option);
  const Option* const namesake = FindNamesake(command, option);
  const Option* const spelled = namesake == nullptr ? &option : namesake;
  std::optional<Setting> by_name;
  for (const auto& [one, parsed] : parser.options) {
    if (one == spelled) by_name = SettingOf(command, *one, *parsed, file);
  }
  const auto found = tuned.find(key);
  const bool has_tuned = found != tuned.end();
  if (has_tuned && by_name.has_value() && by_name->place == found->second.place &&
      by_name->texts != found->second.texts) {
    return Contradiction(*by_name, found->second);
  }
  if (by_name.has_value() && namesake == nullptr) {
    const std::string variable = VariableOf(command.environment_prefix, kTuneName);
    NoteAtStart(OldSpellingNote(key, *by_name, variable));
  }
  if (has_tuned && (!by_name.has_value() || found->second.place <= by_name->place)) {
    return Apply(option, found->second);
  }
  return by_name.has_value() && namesake == nullptr ? Apply(option, *by_name) : OkStatus();
}

Status ApplySettings(const Command& program, const Picked& picked, const Parser& parser) {
  Settings file;
  ASSIGN_OR_RETURN(Settings tuned, ReadTuned(program, *picked.command, parser));
  if (TakesSettings(*picked.command)) {
    ASSIGN_OR_RETURN(file, ReadFileSettings(picked, parser, &tuned));
  }
  for (const auto& [option, parsed] : parser.options) {
    if (option->is_tuned) continue;
    const auto setting = SettingOf(*picked.command, *option, *parsed, file);
    if (setting.has_value()) {
      RETURN_IF_ERROR(Apply(*option, *setting));
    } else if (option->is_required) {
      return InvalidArgumentError(
          (option->is_positional ? "which " + option->name : "--" + FirstName(*option)) +
          (option->is_positional ? "?" : " is needed;") + " see " + picked.path + " --help");
    }
  }
  for (const Option* option : TunedRows(*picked.command)) {
    RETURN_IF_ERROR(ApplyTuned(*picked.command, *option, parser, file, tuned));
  }
  return OkStatus();
}

// Sums of memory are checked beforehand; this is for what none of them knew of.
Status RunOrGiveUp(const CommandRun& run) {
  try {
    return run();
  } catch (const std::bad_alloc& error) {
    return ResourceExhaustedError("memory ran out (" + std::string(error.what()) +
                                  "); ask for less, or end other programs that use it");
  }
}

}  // namespace

Result<CommandRun> ParseCommandLine(const Command& program, const std::string& version,
                                    const std::vector<std::string>& args) {
  ASSIGN_OR_RETURN(const Picked picked, PickCommand(program, args));
  RETURN_IF_ERROR(picked.command->refusal);
  Parser parser;
  MakeParser(picked, version, &parser);
  ASSIGN_OR_RETURN(const std::optional<std::string> text, ParseWords(picked, parser));
  if (text.has_value()) {
    return CommandRun([text] {
      std::fputs(text->c_str(), stdout);
      return OkStatus();
    });
  }
  RETURN_IF_ERROR(ApplySettings(program, picked, parser));
  if (TakesSettings(*picked.command)) NoteUnknownVariables(program, *picked.command);
  return picked.command->run;
}

int RunProgram(const Command& program, const std::string& version, int argc,
               const char* const* argv) {
  constexpr int kFailure = 1, kWrongUse = 2;
  CHECK(InitLog("info").ok());  // for commands that set up no log: lines look alike everywhere
  const Result<CommandRun> run =
      ParseCommandLine(program, version, std::vector<std::string>(argv + 1, argv + argc));
  const Status status = run.ok() ? RunOrGiveUp(*run) : run.status();
  for (const std::string& note : TakeStartNotes()) {
    std::fprintf(stderr, "%s: %s\n", program.name.c_str(), note.c_str());
  }
  if (status.ok()) return 0;
  if (ServerLog::is_json()) {
    LOG_ERROR("{}", status.message());  // a reader of such a log expects nothing else on stderr
  } else {
    std::fprintf(stderr, "%s: %s\n", program.name.c_str(), status.message().c_str());
  }
  const bool is_wrong_use =
      status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kNotFound;
  return is_wrong_use ? kWrongUse : kFailure;
}

}  // namespace graft
