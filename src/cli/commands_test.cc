#include "cli/commands.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/bench.h"

namespace graft {
namespace {

class CommandsTest : public testing::Test {
 protected:
  CommandsTest() {
    AddServeCommand(app_, run_);
    AddGenerateCommand(app_, run_);
    AddBenchCommand(app_, run_);
  }
  // What --help says of it there; "" where there is none.
  std::string Help(const std::vector<std::string>& command, const std::string& option) {
    CLI::App* app = &app_;
    for (const std::string& name : command) app = app->get_subcommand(name);
    const CLI::Option* found = app->get_option_no_throw(option);
    return found == nullptr ? "" : found->get_description() + found->get_default_str();
  }

  CLI::App app_;
  CommandRun run_;
};

TEST_F(CommandsTest, OptionsOfAllCommandsReadTheSame) {
  for (const std::string option : {"--model", "--device", "--dtype", "--threads"}) {
    const std::string help = Help({"serve"}, option);
    EXPECT_NE(help, "") << option;
    EXPECT_EQ(Help({"generate"}, option), help) << option;
    for (const std::string bench : {"adapters", "assist", "serve", "step"}) {
      EXPECT_EQ(Help({"bench", bench}, option), help) << bench << " " << option;
    }
  }
  for (const std::string option : {"--device", "--threads"}) {
    EXPECT_EQ(Help({"bench", "ops"}, option), Help({"serve"}, option)) << option;
  }
}

}  // namespace
}  // namespace graft
