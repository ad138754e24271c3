#include "bench/bench_commands.h"

#include <gtest/gtest.h>

#include <string>

#include "options/command_test_util.h"
#include "profile/profile.h"

namespace graft {
namespace {

// graft's and graft-bench's, too: `profile` has the rows of both.
TEST(BenchCommandsTest, OptionsOfAllCommandsReadTheSame) {
  const Command program = BenchProgram();
  const Command graft = {.name = "graft", .subcommands = {ProfileCommand()}};
  for (const std::string option : {"model", "device", "dtype", "threads"}) {
    const std::string help = HelpOf(graft, {"profile"}, option);
    EXPECT_NE(help, "") << option;
    for (const std::string command : {"adapters", "assist", "serve", "step"}) {
      EXPECT_EQ(HelpOf(program, {command}, option), help) << command << " " << option;
    }
  }
  for (const std::string option : {"device", "threads"}) {
    EXPECT_EQ(HelpOf(program, {"ops"}, option), HelpOf(graft, {"profile"}, option)) << option;
  }
}

TEST(BenchCommandsTest, NoCommandHasAnOptionTwiceOrWithoutHelp) {
  CheckNames(BenchProgram(), "graft-bench");
}

TEST(BenchCommandsTest, EveryDefaultMayBeWrittenOut) {
  CheckDefaults(BenchProgram(), "graft-bench");
}

TEST(BenchCommandsTest, ThePageHoldsTheTables) {
  CheckTables(BenchProgram(), "inside/graft-bench.md");
}

}  // namespace
}  // namespace graft
