#include "options/config_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace graft {
namespace {

// The value of --config before anything is parsed, or "".
std::string FindConfigPath(int argc, const char* const* argv) {
  constexpr std::string_view kFlag = "--config";
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == kFlag && i + 1 < argc) return argv[i + 1];
    if (arg.substr(0, kFlag.size() + 1) == "--config=") {
      return std::string(arg.substr(kFlag.size() + 1));
    }
  }
  const char* path = std::getenv("GRAFT_CONFIG");
  return path == nullptr ? "" : path;
}

// A list as CLI11 reads one.
std::string JoinValues(const YAML::Node& list) {
  std::string joined = "[";
  for (const YAML::Node& value : list) {
    if (joined.size() > 1) joined += ",";
    joined += value.as<std::string>();
  }
  return joined + "]";
}

Status ApplyEntry(CLI::App& command, const std::string& path, std::string key,
                  const YAML::Node& value) {
  std::replace(key.begin(), key.end(), '_', '-');
  CLI::Option* option = command.get_option_no_throw("--" + key);
  if (option == nullptr) {
    return InvalidArgumentError(path + ": unknown key '" + key + "'; see graft " +
                                command.get_name() + " --help for the flags");
  }
  const bool takes_list = option->get_items_expected_max() > 1;
  if (!value.IsScalar() && !(takes_list && value.IsSequence())) {
    return InvalidArgumentError(path + ": '" + key + "' must be one value" +
                                (takes_list ? " or a list of them" : ""));
  }
  option->run_callback_for_default();
  option->default_val(value.IsScalar() ? value.as<std::string>() : JoinValues(value));
  option->required(false);
  return OkStatus();
}

}  // namespace

void AddConfigOptions(CLI::App& command) {
  command.add_option("--config", "YAML or JSON file that holds any of these flags");
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames().front() == "help") continue;
    std::string variable = "GRAFT_" + option->get_lnames().front();
    std::replace(variable.begin(), variable.end(), '-', '_');
    std::transform(variable.begin(), variable.end(), variable.begin(),
                   [](unsigned char c) { return std::toupper(c); });
    option->envname(variable);
  }
}

Status ApplyConfigFile(CLI::App& command, int argc, const char* const* argv) {
  const std::string path = FindConfigPath(argc, argv);
  if (path.empty()) return OkStatus();
  try {
    const YAML::Node root = YAML::LoadFile(path);
    if (root.IsNull()) return OkStatus();
    if (!root.IsMap()) {
      return InvalidArgumentError(path + ": must hold one mapping of flag names to values");
    }
    for (const auto& entry : root) {
      RETURN_IF_ERROR(ApplyEntry(command, path, entry.first.as<std::string>(), entry.second));
    }
  } catch (const YAML::BadFile&) {
    return NotFoundError("cannot read the config file " + path);
  } catch (const YAML::Exception& error) {
    return InvalidArgumentError(path + ": not valid YAML: " + error.what());
  } catch (const CLI::Error& error) {
    return InvalidArgumentError(path + ": " + error.what());
  }
  return OkStatus();
}

}  // namespace graft
