// What must hold of every program's commands: options named once, with help, defaults that pass
// their own checks, and a page with the program's tables. Tests alone.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "options/command.h"
#include "options/markdown.h"

namespace graft {

// The command that the words name, or nullptr.
inline const Command* FindCommand(const Command& program, const std::vector<std::string>& words) {
  const Command* command = &program;
  for (const std::string& word : words) {
    const Command* found = nullptr;
    for (const Command& one : command->subcommands) {
      if (one.name == word) found = &one;
    }
    if (found == nullptr) return nullptr;
    command = found;
  }
  return command;
}

// What a page says of the command's option, or "" if there is none.
inline std::string HelpOf(const Command& program, const std::vector<std::string>& words,
                          const std::string& name) {
  for (const OptionGroup& group : FindCommand(program, words)->groups) {
    for (const Option& option : group.options) {
      if (FirstName(option) == name) {
        return option.help + option.target.type + option.target.initial;
      }
    }
  }
  return "";
}

inline void CheckNames(const Command& command, const std::string& path) {
  std::set<std::string> names = {"config", "help", "tune"};
  std::set<std::string> keys;
  for (const OptionGroup& group : command.groups) {
    for (const Option& option : group.options) {
      // What was removed is not shown.
      EXPECT_EQ(option.help.empty(), option.is_removed) << path << " " << option.name;
      for (const std::string& name : AllNames(option)) {
        EXPECT_TRUE((option.is_tuned ? keys : names).insert(name).second)
            << path << " has " << name << " twice";
      }
    }
  }
  for (const Command& one : command.subcommands) CheckNames(one, path + " " + one.name);
}

// The defaults must be those of the structs, and each of them must pass its own check.
inline void CheckDefaults(const Command& command, const std::string& path) {
  for (const OptionGroup& group : command.groups) {
    for (const Option& option : group.options) {
      if (option.target.initial.empty()) continue;
      const Status status = option.target.set({option.target.initial});
      EXPECT_TRUE(status.ok()) << path << " --" << option.name << " " << status.message();
    }
  }
  for (const Command& one : command.subcommands) CheckDefaults(one, path + " " + one.name);
}

// A page of docs/, as text.
inline std::string ReadPage(const std::string& name) {
  const char* root = std::getenv("GRAFT_SOURCE_DIR");
  std::ifstream file(std::string(root == nullptr ? "." : root) + "/docs/" + name);
  EXPECT_TRUE(file.good()) << name << "; GRAFT_SOURCE_DIR is the repository";
  std::stringstream page;
  page << file.rdbuf();
  return page.str();
}

// Between two comments, the page must hold the tables that the program's `help --markdown` prints.
inline void CheckTables(const Command& program, const std::string& page) {
  EXPECT_NE(ReadPage(page).find("<!-- " + program.name + " help --markdown -->\n\n" +
                                OptionsMarkdown(program) + "\n<!-- end -->\n"),
            std::string::npos)
      << "docs/" << page << " is behind the options; run tools/cli_tables.py build/dev/"
      << program.name;
}

}  // namespace graft
