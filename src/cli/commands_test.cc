#include "cli/commands.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/start_notes.h"
#include "cli/foreign_flags.h"
#include "options/command_test_util.h"
#include "options/parser.h"

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

// What is wrong with the words; "" if nothing is.
std::string ErrorOf(const std::vector<std::string>& args) {
  const Result<CommandRun> run = ParseCommandLine(GraftProgram(), "1.2.3", args);
  return run.ok() ? "" : run.status().message();
}

TEST(CommandsTest, EveryTunedKeyIsTakenByTheCommandsThatHaveIt) {
  for (const char* pair :
       {"turn-ms=5", "step-ms-max=5", "prefill-chunk-max=5", "page-tokens=5",
        "cpu-assist-workers=1", "run-ahead=false", "rank-transport=nccl", "read-at-start-gib=0",
        "cold-start=cpu-assist", "cold-start=blocking", "lora=after"}) {
    for (const char* command : {"serve", "runner", "generate"}) {
      EXPECT_EQ(ErrorOf({command, "--tune", pair}), "") << command << " " << pair;
    }
  }
  for (const char* command : {"frontend", "simulate"}) {
    EXPECT_EQ(ErrorOf({command, "--tune", "batch-share=0.5"}), "") << command;
    EXPECT_EQ(ErrorOf({command, "--tune", "batch-share=0"}),
              "--tune batch-share must be above 0, got 0");
    EXPECT_EQ(ErrorOf({command, "--batch-share", "0.5"}), "") << command;
  }
  EXPECT_EQ(ErrorOf({"frontend", "--tune", "turn-ms=5"}),
            "--tune has no key 'turn-ms'; its keys are batch-share");
  EXPECT_FALSE(TakeStartNotes().empty());
}

TEST(CommandsTest, ServersHaveAGoal) {
  for (const char* command : {"serve", "runner", "generate", "simulate"}) {
    for (const char* goal : {"latency", "throughput"}) {
      EXPECT_EQ(ErrorOf({command, "--goal", goal}), "") << command;
    }
  }
  EXPECT_EQ(ErrorOf({"serve", "--goal", "speed"}),
            "--goal must be latency or throughput, got 'speed'");
}

TEST(CommandsTest, ColdStartsToCompareWithAreNamedAsKeys) {
  for (const char* way : {"auto", "cached"}) EXPECT_EQ(ErrorOf({"serve", "--cold-start", way}), "");
  EXPECT_EQ(ErrorOf({"serve", "--cold-start", "layerwise"}),
            "--cold-start must be auto or cached, got 'layerwise'; it is a way to compare with: "
            "--tune cold-start=layerwise");
  EXPECT_EQ(ErrorOf({"serve", "--cold-start", "other"}),
            "--cold-start must be auto or cached, got 'other'");
}

TEST(CommandsTest, WhatLeftTheServerIsRefusedByName) {
  const std::string lora_kernel = ErrorOf({"runner", "--lora-kernel", "bmm"});
  EXPECT_NE(lora_kernel.find("--lora-kernel was removed"), std::string::npos) << lora_kernel;
  EXPECT_NE(lora_kernel.find("--tune lora=after"), std::string::npos) << lora_kernel;
  EXPECT_EQ(ErrorOf({"serve", "--pool", "static"}).find("--pool was removed"), 0u);
  EXPECT_EQ(ErrorOf({"serve", "--adapter-share", "0.3"}).find("--adapter-share was removed"), 0u);
  EXPECT_EQ(ErrorOf({"profile", "--lora-kernel", "bmm"}).find("--lora-kernel was removed"), 0u);
  EXPECT_EQ(ErrorOf({"serve", "--lora-kernel", "segmented", "--pool", "shared"}), "");
  EXPECT_EQ(ErrorOf({"serve", "--lora", "folder"}).find("--lora is no flag: --adapters DIR"), 0u);
}

}  // namespace
}  // namespace graft
