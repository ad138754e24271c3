#include "cli/commands.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/foreign_flags.h"
#include "options/markdown.h"

namespace graft {
namespace {

const Command* Find(const Command& program, const std::vector<std::string>& words) {
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

// What the page says of the option there, or "" if there is nothing.
std::string Help(const Command& program, const std::vector<std::string>& words,
                 const std::string& name) {
  for (const OptionGroup& group : Find(program, words)->groups) {
    for (const Option& option : group.options) {
      if (FirstName(option) == name)
        return option.help + option.target.type + option.target.initial;
    }
  }
  return "";
}

TEST(CommandsTest, OptionsOfAllCommandsReadTheSame) {
  const Command program = GraftProgram();
  for (const std::string option : {"model", "device", "dtype", "threads"}) {
    const std::string help = Help(program, {"serve"}, option);
    EXPECT_NE(help, "") << option;
    EXPECT_EQ(Help(program, {"generate"}, option), help) << option;
    for (const std::string bench : {"adapters", "assist", "serve", "step"}) {
      EXPECT_EQ(Help(program, {"bench", bench}, option), help) << bench << " " << option;
    }
  }
  for (const std::string option : {"device", "threads"}) {
    EXPECT_EQ(Help(program, {"bench", "ops"}, option), Help(program, {"serve"}, option)) << option;
  }
}

void CheckNames(const Command& command, const std::string& path) {
  std::set<std::string> names = {"config", "help"};
  for (const OptionGroup& group : command.groups) {
    for (const Option& option : group.options) {
      EXPECT_NE(option.help, "") << path << " " << option.name;
      for (const std::string& name : AllNames(option)) {
        EXPECT_TRUE(names.insert(name).second) << path << " has --" << name << " twice";
      }
    }
  }
  for (const Command& one : command.subcommands) CheckNames(one, path + " " + one.name);
}

TEST(CommandsTest, NoCommandHasAnOptionTwiceOrWithoutHelp) { CheckNames(GraftProgram(), "graft"); }

// The defaults must be those of the structs, and each of them must pass its own check.
void CheckDefaults(const Command& command, const std::string& path) {
  for (const OptionGroup& group : command.groups) {
    for (const Option& option : group.options) {
      if (option.target.initial.empty()) continue;
      const Status status = option.target.set({option.target.initial});
      EXPECT_TRUE(status.ok()) << path << " --" << option.name << " " << status.message();
    }
  }
  for (const Command& one : command.subcommands) CheckDefaults(one, path + " " + one.name);
}

TEST(CommandsTest, EveryDefaultMayBeWrittenOut) { CheckDefaults(GraftProgram(), "graft"); }

// Between two comments, the page must hold the tables that `graft help --markdown` prints.
TEST(CommandsTest, ThePageHoldsTheTables) {
  const char* root = std::getenv("GRAFT_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  std::ifstream file(std::string(root) + "/docs/cli.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find("<!-- graft help --markdown -->\n\n" + OptionsMarkdown(GraftProgram()) +
                            "\n<!-- end -->\n"),
            std::string::npos)
      << "docs/cli.md is behind the options; run tools/cli_tables.py build/dev/graft";
}

// What the errors say of vLLM's flags the page has as a table; and none of them is a flag here.
TEST(CommandsTest, ThePageHasVllmsFlags) {
  std::ifstream file(std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/docs/coming-from-vllm.md");
  std::stringstream page;
  page << file.rdbuf();
  const Command program = GraftProgram();
  ASSERT_FALSE(VllmFlags().empty());
  for (const ForeignFlag& flag : VllmFlags()) {
    const std::string name = flag.name;
    EXPECT_NE(page.str().find("`--" + name), std::string::npos) << name;
    for (const std::string command : {"serve", "runner", "frontend", "generate"}) {
      EXPECT_EQ(Help(program, {command}, name), "") << name;
      EXPECT_EQ(Find(program, {command})->foreign_flags.size(), VllmFlags().size()) << command;
    }
  }
}

}  // namespace
}  // namespace graft
