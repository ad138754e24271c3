#include "cli/commands.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/foreign_flags.h"
#include "options/command_test_util.h"

namespace graft {
namespace {

TEST(CommandsTest, OptionsOfAllCommandsReadTheSame) {
  const Command program = GraftProgram();
  for (const std::string option : {"model", "device", "dtype", "threads"}) {
    const std::string help = HelpOf(program, {"serve"}, option);
    EXPECT_NE(help, "") << option;
    EXPECT_EQ(HelpOf(program, {"generate"}, option), help) << option;
    EXPECT_EQ(HelpOf(program, {"profile"}, option), help) << option;
  }
}

TEST(CommandsTest, NoCommandHasAnOptionTwiceOrWithoutHelp) { CheckNames(GraftProgram(), "graft"); }

TEST(CommandsTest, EveryDefaultMayBeWrittenOut) { CheckDefaults(GraftProgram(), "graft"); }

TEST(CommandsTest, ThePageHoldsTheTables) { CheckTables(GraftProgram(), "cli.md"); }

// What the errors say of vLLM's flags the page has as a table; and none of them is a flag here.
TEST(CommandsTest, ThePageHasVllmsFlags) {
  const std::string page = ReadPage("coming-from-vllm.md");
  const Command program = GraftProgram();
  ASSERT_FALSE(VllmFlags().empty());
  for (const ForeignFlag& flag : VllmFlags()) {
    const std::string name = flag.name;
    EXPECT_NE(page.find("`--" + name), std::string::npos) << name;
    for (const std::string command : {"serve", "runner", "frontend", "generate"}) {
      EXPECT_EQ(HelpOf(program, {command}, name), "") << name;
      EXPECT_EQ(FindCommand(program, {command})->foreign_flags.size(), VllmFlags().size())
          << command;
    }
  }
}

}  // namespace
}  // namespace graft
