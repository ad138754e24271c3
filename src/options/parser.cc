#include "options/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <optional>
#include <utility>

#include "base/nearest_names.h"
#include "options/config_file.h"

namespace graft {
namespace {

constexpr char kConfigName[] = "config";
constexpr char kConfigHelp[] = "YAML or JSON file that holds any of these flags";

// What one place says of an option; `where` is its name in errors.
struct Setting {
  std::vector<std::string> texts;
  std::string where;
};

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
    std::string listed;
    for (const Command& one : picked.command->subcommands) {
      if (one.is_hidden) continue;
      names.push_back(one.name);
      listed += (listed.empty() ? "" : ", ") + one.name;
    }
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

std::string FlagsOf(const Option& option) {
  std::string flags;
  for (const std::string& name : AllNames(option)) {
    flags += (flags.empty() ? "--" : ",--") + name;
  }
  return flags;
}

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
      parser->options.emplace_back(&option, AddOption(app, option, group.title));
    }
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
      if (!option.is_positional) {
        for (std::string& name : AllNames(option)) names.push_back(std::move(name));
      }
    }
  }
  if (TakesSettings(*picked.command)) names.emplace_back(kConfigName);
  return names;
}

Status UnknownWord(const Picked& picked, const std::string& word) {
  const std::string see = "; see " + picked.path + " --help";
  if (!word.starts_with("--")) return InvalidArgumentError("unexpected '" + word + "'" + see);
  const std::string name =
      word.substr(2, word.find('=') == std::string::npos ? std::string::npos : word.find('=') - 2);
  return InvalidArgumentError("unknown flag --" + name + DidYouMean(name, FlagNames(picked)) + see);
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
  std::fprintf(stderr,
               "graft: %s is '%s', as Kubernetes sets it for a Service of that name: ignored "
               "(enableServiceLinks: false in the pod's spec keeps it out)\n",
               variable.c_str(), text);
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

using FileSettings = std::map<std::string, Setting>;  // by the option's first name

// The config file's, if there is one, each under an option that the command has.
Result<FileSettings> ReadFileSettings(const Picked& picked, const Parser& parser) {
  FileSettings settings;
  std::optional<std::string> path =
      ReadVariable(VariableOf(picked.command->environment_prefix, kConfigName));
  if (parser.config->count() > 0) path = parser.config->results().front();
  if (!path.has_value()) return settings;
  ASSIGN_OR_RETURN(const std::vector<ConfigEntry> entries, ReadConfigFile(*path));
  for (const ConfigEntry& entry : entries) {
    const Option* found = nullptr;
    for (const auto& [option, unused] : parser.options) {
      const std::vector<std::string> names = AllNames(*option);
      const bool is_it = std::find(names.begin(), names.end(), entry.key) != names.end();
      if (is_it && !option->is_positional) found = option;
    }
    if (found == nullptr) {
      return InvalidArgumentError(*path + ": unknown key '" + entry.key + "'" +
                                  DidYouMean(entry.key, FlagNames(picked)) + "; see " +
                                  picked.path + " --help for the flags");
    }
    const bool takes_list = found->target.shape == OptionTarget::Shape::kMany;
    if (entry.is_list && !takes_list) {
      return InvalidArgumentError(*path + ": '" + entry.key + "' must be one value");
    }
    const Setting setting{entry.texts, *path + ": '" + entry.key + "'"};
    if (!settings.emplace(FirstName(*found), setting).second) {
      return InvalidArgumentError(setting.where + " is there under two names; keep one of them");
    }
  }
  return settings;
}

// What counts for the option; nothing where nobody says anything.
std::optional<Setting> SettingOf(const Command& command, const Option& option,
                                 const CLI::Option& parsed, const FileSettings& file) {
  const std::string name = FirstName(option);
  if (parsed.count() > 0) {
    return Setting{parsed.results(), option.is_positional ? name : "--" + name};
  }
  if (option.is_positional || !TakesSettings(command)) return std::nullopt;
  const std::string variable = VariableOf(command.environment_prefix, name);
  if (const std::optional<std::string> text = ReadVariable(variable)) {
    const bool takes_list = option.target.shape == OptionTarget::Shape::kMany;
    return Setting{takes_list ? SplitBrackets(*text) : std::vector{*text}, variable};
  }
  const auto found = file.find(name);
  if (found == file.end()) return std::nullopt;
  return found->second;
}

// An empty value is nobody's wish: of --api-keys it would open the server to everybody.
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

Status ApplySettings(const Picked& picked, const Parser& parser) {
  FileSettings file;
  if (TakesSettings(*picked.command)) {
    ASSIGN_OR_RETURN(file, ReadFileSettings(picked, parser));
  }
  for (const auto& [option, parsed] : parser.options) {
    const auto setting = SettingOf(*picked.command, *option, *parsed, file);
    if (setting.has_value()) {
      RETURN_IF_ERROR(Apply(*option, *setting));
    } else if (option->is_required) {
      return InvalidArgumentError(
          (option->is_positional ? "which " + option->name : "--" + FirstName(*option)) +
          (option->is_positional ? "?" : " is needed;") + " see " + picked.path + " --help");
    }
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
  Parser parser;
  MakeParser(picked, version, &parser);
  ASSIGN_OR_RETURN(const std::optional<std::string> text, ParseWords(picked, parser));
  if (text.has_value()) {
    return CommandRun([text] {
      std::fputs(text->c_str(), stdout);
      return OkStatus();
    });
  }
  RETURN_IF_ERROR(ApplySettings(picked, parser));
  return picked.command->run;
}

int RunProgram(const Command& program, const std::string& version, int argc,
               const char* const* argv) {
  constexpr int kFailure = 1, kWrongUse = 2;
  const Result<CommandRun> run =
      ParseCommandLine(program, version, std::vector<std::string>(argv + 1, argv + argc));
  const Status status = run.ok() ? RunOrGiveUp(*run) : run.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", program.name.c_str(), status.message().c_str());
  const bool is_wrong_use =
      status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kNotFound;
  return is_wrong_use ? kWrongUse : kFailure;
}

}  // namespace graft
