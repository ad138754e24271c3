#include "options/parser.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/out_of_memory.h"
#include "base/start_notes.h"
#include "options/command.h"
#include "options/markdown.h"

namespace graft {
namespace {

constexpr ForeignFlag kForeign[] = {{"size", "sizes are --pool-gib's"},
                                    {"max-size", "there is none"},
                                    {"elsewhere", "use --not-of-serve"},
                                    {"rounds", "use --tune turn-ms"},
                                    {"lanes", "use --tune not-of-serve"}};

constexpr OptionWord<int> kUsersWays[] = {{0, "plain"}, {1, "fast"}};
constexpr OptionWord<int> kWays[] = {{0, "plain"}, {1, "fast"}, {2, "slow"}};

// `graft serve` and `graft bench step` with an option of each kind.
class ParserTest : public testing::Test {
 protected:
  ~ParserTest() override {
    for (const auto& [name, unused] : variables_) unsetenv(name.c_str());
    TakeStartNotes();
  }

  Command Program() {
    const auto options = [this] {
      return std::vector<OptionGroup>{
          {"Group",
           {{"port", Number(port_), "a port"},
            {"api-keys", Text(api_keys_), "a file"},
            {"pool-gib,kv-gib", Number(pool_gib_), "a size"},
            {"pin", Texts(pins_), "names"},
            {"peers", Addresses(peers_), "machines"},
            {"self", Address(self_), "this machine"},
            {"quiet", Switch(quiet_), "no bars"},
            {.name = "old-size",
             .target = Removed("none", "was removed; use --size"),
             .is_removed = true},
            {.name = "old-way",
             .target = RemovedSwitch("was removed; leave it out"),
             .is_removed = true},
            {"cache", Boolean(cache_), "share"},
            {"way", OneOf(way_, kUsersWays), "a way"},
            Tuned({"way", OneOf(way_, kWays), "any way"}),
            Tuned({"turn-ms", Number(turn_ms_, AtLeast(0)), "a turn"}, "ms"),
            Tuned({"ahead", Boolean(ahead_), "early"})}}};
    };
    const auto run = [this] {
      ++runs_;
      return OkStatus();
    };
    return {.name = "graft",
            .help = "help of graft",
            .subcommands = {{.name = "serve",
                             .help = "help of serve",
                             .groups = options(),
                             .run = run,
                             .foreign_flags = kForeign},
                            {.name = "generate",
                             .help = "help of generate",
                             .groups = {{"Group",
                                         {{"model", Text(api_keys_), "a folder"},
                                          Tuned({"share", Number(pool_gib_), "a share"})}}},
                             .run = run},
                            {.name = "inspect",
                             .help = "help of inspect",
                             .groups = {{"Group",
                                         {{.name = "paths",
                                           .target = Texts(paths_),
                                           .help = "folders",
                                           .is_required = true,
                                           .is_positional = true}}}},
                             .run = run},
                            {.name = "bench",
                             .help = "help of bench",
                             .subcommands = {{.name = "step",
                                              .help = "help of step",
                                              .groups = options(),
                                              .run = run,
                                              .environment_prefix = "GRAFT_BENCH_"}}},
                            {.name = "gone",
                             .is_hidden = true,
                             .refusal = InvalidArgumentError("gone is elsewhere")}}};
  }

  // Parses the words. Returns the error's text, or "" after a run.
  std::string Parse(const std::vector<std::string>& args) {
    const Result<CommandRun> run = ParseCommandLine(Program(), "1.2.3", args);
    if (!run.ok()) return run.status().message();
    return (*run)().message();
  }
  std::string Printed(const std::vector<std::string>& args) {
    testing::internal::CaptureStdout();
    const std::string error = Parse(args);
    return testing::internal::GetCapturedStdout() + error;
  }
  void SetVariable(const std::string& name, const std::string& value) {
    variables_[name] = value;
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
  // Writes a config file and returns its path.
  std::string Write(const std::string& text) {
    const std::string path = testing::TempDir() + "parser_test.yaml";
    std::ofstream(path) << text;
    return path;
  }

  uint16_t port_ = 8000;
  std::string api_keys_;
  double pool_gib_ = 0.0;
  std::string self_;
  std::vector<std::string> peers_, pins_, paths_;
  bool quiet_ = false, cache_ = true, ahead_ = true;
  int way_ = 0, turn_ms_ = 500;
  int runs_ = 0;
  std::map<std::string, std::string> variables_;
};

TEST_F(ParserTest, FlagsSetTheirValues) {
  EXPECT_EQ(Parse({"serve", "--port", "1", "--kv-gib=2.5", "--pin", "a", "--pin", "b", "--quiet",
                   "--cache", "false"}),
            "");
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(port_, 1);
  EXPECT_EQ(pool_gib_, 2.5);
  EXPECT_EQ(pins_, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(quiet_);
  EXPECT_FALSE(cache_);
}

TEST_F(ParserTest, AddressesHaveCommasBetweenThemOrComeOneByOne) {
  EXPECT_EQ(Parse({"serve", "--peers", "a:1,b:2", "--peers", "c:3"}), "");
  EXPECT_EQ(peers_, (std::vector<std::string>{"a:1", "b:2", "c:3"}));
  for (const char* const wrong : {"a:1,,b:2", "a", "a:", ":1", "a:0", "a:65536", "a:one"}) {
    EXPECT_NE(Parse({"serve", "--peers", wrong}).find("must be HOST:PORT"), std::string::npos)
        << wrong;
    EXPECT_NE(Parse({"serve", "--self", wrong}).find("must be HOST:PORT"), std::string::npos)
        << wrong;
  }
  EXPECT_EQ(Parse({"serve", "--self", "[::1]:7001"}), "");
  EXPECT_EQ(self_, "[::1]:7001");
}

TEST_F(ParserTest, TheCommandLineWinsOverTheEnvironmentAndThatOverTheFile) {
  const std::string path = Write("port: 3\npool_gib: 3\nquiet: true\npin: [x, y]\n");
  SetVariable("GRAFT_PORT", "2");
  SetVariable("GRAFT_POOL_GIB", "2");
  EXPECT_EQ(Parse({"serve", "--port", "1", "--config", path}), "");
  EXPECT_EQ(port_, 1);
  EXPECT_EQ(pool_gib_, 2.0);
  EXPECT_TRUE(quiet_);
  EXPECT_EQ(pins_, (std::vector<std::string>{"x", "y"}));
}

TEST_F(ParserTest, ListsInTheEnvironmentHaveBrackets) {
  SetVariable("GRAFT_PIN", "[a, b]");
  EXPECT_EQ(Parse({"serve"}), "");
  EXPECT_EQ(pins_, (std::vector<std::string>{"a", "b"}));
}

TEST_F(ParserTest, ErrorsNameThePlaceThatTheValueCameFrom) {
  EXPECT_EQ(Parse({"serve", "--port", "99999"}), "--port must be between 0 and 65535, got 99999");
  const std::string path = Write("port: x");
  EXPECT_EQ(Parse({"serve", "--config", path}),
            path + ": 'port' must be a whole number between 0 and 65535, got 'x'");
  SetVariable("GRAFT_PORT", "y");
  EXPECT_EQ(Parse({"serve"}), "GRAFT_PORT must be a whole number between 0 and 65535, got 'y'");
  EXPECT_EQ(runs_, 0);
}

TEST_F(ParserTest, AnEmptyValueIsRefusedWhereverItComesFrom) {
  EXPECT_EQ(Parse({"serve", "--api-keys", ""}),
            "--api-keys is empty; give it a value or leave it out");
  EXPECT_EQ(Parse({"serve", "--api-keys=", "--quiet"}),
            "--api-keys is empty; give it a value or leave it out");
  for (const char* text : {"api-keys: \"\"", "api_keys:", "api-keys: ~"}) {
    const std::string path = Write(text);
    EXPECT_EQ(Parse({"serve", "--config", path}),
              path + ": 'api-keys' is empty; give it a value or leave it out");
  }
  const std::string path = Write("pin: []");
  EXPECT_EQ(Parse({"serve", "--config", path}),
            path + ": 'pin' is an empty list; leave it out instead");
  SetVariable("GRAFT_API_KEYS", "");
  EXPECT_EQ(Parse({"serve"}), "GRAFT_API_KEYS is empty; give it a value or leave it out");
  EXPECT_EQ(runs_, 0);
}

TEST_F(ParserTest, WhatKubernetesSetsForAServiceIsIgnoredAndSaid) {
  SetVariable("GRAFT_PORT", "tcp://10.0.0.1:8131");
  EXPECT_EQ(Parse({"serve"}), "");
  EXPECT_EQ(port_, 8000);
  const std::vector<std::string> said = TakeStartNotes();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("GRAFT_PORT is 'tcp://10.0.0.1:8131'"), std::string::npos) << said[0];
  SetVariable("GRAFT_PORT", "tcp://10.0.0.1");
  EXPECT_NE(Parse({"serve"}), "");
}

// What nothing reads is told where it is near to what something reads, or another program's.
TEST_F(ParserTest, MisspeltVariablesAreTold) {
  SetVariable("GRAFT_POOL_GB", "2");
  SetVariable("GRAFT_BENCH_PROT", "2");
  SetVariable("GRAFT_KV_GI", "2");
  SetVariable("GRAFT_SIZE", "2");
  EXPECT_EQ(Parse({"serve"}), "");
  const std::vector<std::string> said = TakeStartNotes();
  EXPECT_EQ(std::set<std::string>(said.begin(), said.end()),
            (std::set<std::string>{
                "the variable GRAFT_POOL_GB sets nothing: did you mean GRAFT_POOL_GIB?",
                "the variable GRAFT_BENCH_PROT sets nothing: did you mean GRAFT_BENCH_PORT?",
                "the variable GRAFT_SIZE sets nothing: sizes are --pool-gib's"}));
  EXPECT_EQ(pool_gib_, 0.0);
}

TEST_F(ParserTest, VariablesOfOthersAreNotTold) {
  SetVariable("GRAFT_PORT", "2");
  SetVariable("GRAFT_BENCH_PORT", "2");  // another command's
  SetVariable("GRAFT_SERVICE_PORT", "8131");
  SetVariable("GRAFT_PORTS_SERVICE_HOST", "10.0.0.1");
  SetVariable("GRAFT_PORT_8131_TCP", "tcp://10.0.0.1:8131");
  SetVariable("GRAFT_BENCH_PART", "tcp://10.0.0.1:8131");  // but for that near to GRAFT_BENCH_PORT
  SetVariable("GRAFT_BINARY", "x");
  SetVariable("GRAFTS_PORT", "x");
  EXPECT_EQ(Parse({"serve"}), "");
  EXPECT_TRUE(TakeStartNotes().empty());
}

TEST_F(ParserTest, FlagsOfOtherProgramsAreAnsweredByWhatStandsInTheirPlace) {
  for (const char* flag : {"--size", "--size=3"}) {
    EXPECT_EQ(Parse({"serve", flag}),
              "unknown flag --size: sizes are --pool-gib's; see graft serve --help");
  }
  EXPECT_EQ(Parse({"serve", "--max_size", "3"}),
            "unknown flag --max_size: there is none; see graft serve --help");
  const std::string path = Write("max-size: 3");
  EXPECT_EQ(Parse({"serve", "--config", path}),
            path + ": unknown key 'max-size': there is none; see graft serve --help for the flags");
  // Nothing is advised that the command would refuse.
  EXPECT_EQ(Parse({"serve", "--elsewhere"}), "unknown flag --elsewhere; see graft serve --help");
  EXPECT_EQ(Parse({"generate", "folder"}),
            "unexpected 'folder'; a model is named by --model DIR; see graft generate --help");
}

TEST_F(ParserTest, ACommandThatIsNotThereSaysWhyWhateverFollowsIt) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"gone"},
                                                {"gone", "step", "--port", "1", "-x"},
                                                {"gone", "--help"}}) {
    EXPECT_EQ(Parse(words), "gone is elsewhere");
  }
}

TEST_F(ParserTest, WhatWasRemovedTakesItsNeutralValueAndNamesWhatToUse) {
  EXPECT_EQ(
      Parse({"serve", "--old-size", "none", "--config", Write("old_size: none\nold_way: false\n")}),
      "");
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(Parse({"serve", "--old-size=1"}), "--old-size was removed; use --size");
  EXPECT_EQ(Parse({"serve", "--old-way"}), "--old-way was removed; leave it out");
  const std::string path = Write("old_size: 1\n");
  EXPECT_EQ(Parse({"serve", "--config", path}), path + ": 'old-size' was removed; use --size");
  SetVariable("GRAFT_OLD_SIZE", "1");
  EXPECT_EQ(Parse({"serve"}), "GRAFT_OLD_SIZE was removed; use --size");
  SetVariable("GRAFT_OLD_SIZE", "none");
  EXPECT_EQ(Parse({"serve"}), "");
  EXPECT_TRUE(TakeStartNotes().empty());
  EXPECT_EQ(Printed({"serve", "--help"}).find("old-size"), std::string::npos);
  EXPECT_EQ(Parse({"serve", "--old-siz", "1"}).find("old-size"), std::string::npos);
}

TEST_F(ParserTest, TunedKeysAreSetByFlagFileAndEnvironment) {
  EXPECT_EQ(Parse({"serve", "--tune", "turn-ms=5", "--tune=ahead=false"}), "");
  EXPECT_EQ(turn_ms_, 5);
  EXPECT_FALSE(ahead_);
  EXPECT_EQ(Parse({"serve", "--tune", "turn-ms=6,ahead=true"}), "");
  EXPECT_EQ(turn_ms_, 6);
  EXPECT_TRUE(ahead_);
  const std::string path = Write("tune:\n  turn_ms: 7\n  ahead: false\n");
  EXPECT_EQ(Parse({"serve", "--config", path}), "");
  EXPECT_EQ(turn_ms_, 7);
  EXPECT_FALSE(ahead_);
  SetVariable("GRAFT_TUNE", "turn-ms=8,way=slow");
  EXPECT_EQ(Parse({"serve"}), "");
  EXPECT_EQ(turn_ms_, 8);
  EXPECT_EQ(way_, 2);
  SetVariable("GRAFT_TUNE", "[turn-ms=9, way=fast]");
  EXPECT_EQ(Parse({"serve"}), "");
  EXPECT_EQ(turn_ms_, 9);
  EXPECT_EQ(way_, 1);
  EXPECT_TRUE(TakeStartNotes().empty());
}

TEST_F(ParserTest, EachTunedKeyIsOfTheHighestPlaceThatHasIt) {
  const std::string path = Write("tune: {turn-ms: 7, ahead: false, way: slow}\n");
  SetVariable("GRAFT_TUNE", "turn-ms=8,way=fast");
  EXPECT_EQ(Parse({"serve", "--config", path, "--tune", "turn-ms=9"}), "");
  EXPECT_EQ(turn_ms_, 9);
  EXPECT_EQ(way_, 1);
  EXPECT_FALSE(ahead_);
}

TEST_F(ParserTest, TunedValuesAreCheckedAndNamedByTheirPlace) {
  EXPECT_EQ(Parse({"serve", "--tune", "turn-ms=-1"}), "--tune turn-ms must be 0 or more, got -1");
  EXPECT_EQ(Parse({"serve", "--tune", "turn-ms="}),
            "--tune turn-ms is empty; give it a value or leave it out");
  EXPECT_EQ(Parse({"serve", "--tune", "turn-ms"}), "--tune must be KEY=VALUE, got 'turn-ms'");
  EXPECT_EQ(Parse({"serve", "--tune", "turn-ms=1", "--tune", "turn-ms=1"}),
            "--tune turn-ms is there twice; keep one of them");
  std::string path = Write("tune: {turn-ms: x}");
  EXPECT_EQ(Parse({"serve", "--config", path}),
            path + ": 'tune': 'turn-ms' must be a whole number 0 or more, got 'x'");
  path = Write("tune: {turn-ms: }");
  EXPECT_EQ(Parse({"serve", "--config", path}),
            path + ": 'tune': 'turn-ms' is empty; give it a value or leave it out");
  path = Write("tune: {turn-ms: [1]}");
  EXPECT_EQ(Parse({"serve", "--config", path}),
            path + ": 'turn-ms' under 'tune' must be one value");
  for (const char* text : {"tune: 1", "tune: [turn-ms=1]"}) {
    path = Write(text);
    EXPECT_EQ(Parse({"serve", "--config", path}),
              path + ": 'tune' must be a mapping of keys to values");
  }
  SetVariable("GRAFT_TUNE", "turn-ms=y");
  EXPECT_EQ(Parse({"serve"}), "GRAFT_TUNE turn-ms must be a whole number 0 or more, got 'y'");
  SetVariable("GRAFT_TUNE", "");
  EXPECT_EQ(Parse({"serve"}), "GRAFT_TUNE is empty; give it a value or leave it out");
  EXPECT_EQ(runs_, 0);
}

TEST_F(ParserTest, UnknownTunedKeysAreRefusedWithTheNearestAndAll) {
  EXPECT_EQ(Parse({"serve", "--tune", "turn-m=1"}),
            "--tune has no key 'turn-m'; did you mean 'turn-ms'?; its keys are way, turn-ms, "
            "ahead");
  EXPECT_EQ(Parse({"serve", "--tune", "share=1"}),
            "--tune has no key 'share'; its keys are way, turn-ms, ahead");
  const std::string path = Write("tune: {share: 1}");
  EXPECT_EQ(Parse({"serve", "--config", path}),
            path + ": 'tune' has no key 'share'; its keys are way, turn-ms, ahead");
  SetVariable("GRAFT_TUNE", "share=1,turn-ms=3");  // another command's
  EXPECT_EQ(Parse({"serve"}), "");
  EXPECT_EQ(turn_ms_, 3);
  SetVariable("GRAFT_TUNE", "shares=1");
  EXPECT_EQ(Parse({"serve"}), "GRAFT_TUNE has no key 'shares'; its keys are way, turn-ms, ahead");
  EXPECT_EQ(Parse({"inspect", "--tune", "turn-ms=1"}).rfind("unknown flag --tune", 0), 0u);
}

TEST_F(ParserTest, WhatATunedKeyWasBeforeWorksAndIsTold) {
  const auto said = [this](const std::vector<std::string>& args) {
    EXPECT_EQ(Parse(args), "");
    const std::vector<std::string> notes = TakeStartNotes();
    return notes.size() == 1 ? notes[0] : std::to_string(notes.size()) + " notes";
  };
  EXPECT_EQ(said({"serve", "--turn-ms", "5"}), "--turn-ms is now --tune turn-ms=5");
  EXPECT_EQ(turn_ms_, 5);
  const std::string path = Write("turn_ms: 6");
  EXPECT_EQ(said({"serve", "--config", path}),
            path + ": 'turn-ms' is now 'turn-ms: 6' under 'tune'");
  EXPECT_EQ(turn_ms_, 6);
  SetVariable("GRAFT_TURN_MS", "7");
  EXPECT_EQ(said({"serve"}), "GRAFT_TURN_MS is now GRAFT_TUNE=turn-ms=7");
  EXPECT_EQ(turn_ms_, 7);
  // The places' order holds for both spellings.
  EXPECT_EQ(said({"serve", "--tune", "turn-ms=8"}), "GRAFT_TURN_MS is now GRAFT_TUNE=turn-ms=7");
  EXPECT_EQ(turn_ms_, 8);
  EXPECT_EQ(said({"serve", "--turn-ms", "9", "--tune", "turn-ms=9"}),
            "--turn-ms is now --tune turn-ms=9");
  EXPECT_EQ(turn_ms_, 9);
  EXPECT_EQ(Parse({"serve", "--turn-ms", "-1"}), "--turn-ms must be 0 or more, got -1");
}

TEST_F(ParserTest, TwoSpellingsOfOnePlaceMustAgree) {
  EXPECT_EQ(Parse({"serve", "--turn-ms", "1", "--tune", "turn-ms=2"}),
            "--turn-ms is 1 and --tune turn-ms is 2; keep one of them");
  const std::string path = Write("turn-ms: 1\ntune: {turn-ms: 2}");
  EXPECT_EQ(Parse({"serve", "--config", path}),
            path + ": 'turn-ms' is 1 and " + path + ": 'tune': 'turn-ms' is 2; keep one of them");
  SetVariable("GRAFT_TURN_MS", "1");
  SetVariable("GRAFT_TUNE", "turn-ms=2");
  EXPECT_EQ(Parse({"serve"}), "GRAFT_TURN_MS is 1 and GRAFT_TUNE turn-ms is 2; keep one of them");
}

// A key beside a flag of its name: the flag has the words for users, the key all of them.
TEST_F(ParserTest, ATunedKeyMayHaveANamesake) {
  EXPECT_EQ(Parse({"serve", "--way", "fast"}), "");
  EXPECT_EQ(way_, 1);
  EXPECT_EQ(Parse({"serve", "--way", "slow"}), "--way must be plain or fast, got 'slow'");
  EXPECT_EQ(Parse({"serve", "--way", "fast", "--tune", "way=slow"}),
            "--way is fast and --tune way is slow; keep one of them");
  const std::string file_of_key = Write("tune: {way: slow}");
  EXPECT_EQ(Parse({"serve", "--config", file_of_key, "--way", "fast"}), "");
  EXPECT_EQ(way_, 1);
  EXPECT_EQ(Parse({"serve", "--config", Write("way: fast"), "--tune", "way=slow"}), "");
  EXPECT_EQ(way_, 2);
  EXPECT_TRUE(TakeStartNotes().empty());
}

TEST_F(ParserTest, HelpHasTheKeysUnderTheirFlag) {
  const std::string help = Printed({"serve", "--help"});
  EXPECT_NE(help.find("--tune KEY=VALUE"), std::string::npos) << help;
  EXPECT_NE(help.find("turn-ms (0 or more ms) [500]: a turn"), std::string::npos) << help;
  EXPECT_EQ(help.find("--turn-ms"), std::string::npos) << help;
  EXPECT_EQ(Parse({"serve", "--turn-mss", "1"}),
            "unknown flag --turn-mss; did you mean --tune turn-ms=VALUE?; see graft serve --help");
  EXPECT_EQ(Parse({"serve", "--rounds", "1"}),
            "unknown flag --rounds: use --tune turn-ms; see graft serve --help");
  EXPECT_EQ(Parse({"serve", "--lanes", "1"}).find("not-of-serve"), std::string::npos);
}

TEST_F(ParserTest, PagesHaveATableOfKeys) {
  const std::string page = OptionsMarkdown(Program());
  EXPECT_NE(page.find("| `--tune` | `KEY=VALUE` |  | what seldom needs to be set; may be repeated; "
                      "keys: way, turn-ms, ahead |\n"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("### Keys of --tune\n"), std::string::npos) << page;
  EXPECT_NE(page.find("| `turn-ms` | 0 or more | 500 | ms | a turn | `graft serve`, "
                      "`graft bench step` |\n"),
            std::string::npos)
      << page;
  EXPECT_EQ(page.find("`--turn-ms`"), std::string::npos) << page;
}

TEST_F(ParserTest, BenchesHaveVariablesOfTheirOwn) {
  SetVariable("GRAFT_PORT", "2");
  EXPECT_EQ(Parse({"bench", "step"}), "");
  EXPECT_EQ(port_, 8000);
  SetVariable("GRAFT_BENCH_PORT", "3");
  EXPECT_EQ(Parse({"bench", "step"}), "");
  EXPECT_EQ(port_, 3);
}

TEST_F(ParserTest, WhatIsUnknownIsNamedWithWhatIsNear) {
  EXPECT_EQ(Parse({"serv"}),
            "unknown command 'serv'; did you mean 'serve'?; graft takes one of serve, generate, "
            "inspect, bench");
  EXPECT_EQ(Parse({"bench", "stap"}),
            "unknown command 'stap'; did you mean 'step'?; graft bench takes one of step");
  EXPECT_EQ(Parse({"serve", "--prot", "1"}),
            "unknown flag --prot; did you mean --port?; see graft serve --help");
  EXPECT_EQ(Parse({"serve", "word"}), "unexpected 'word'; see graft serve --help");
  EXPECT_EQ(Parse({"bench", "step", "--prots=1"}),
            "unknown flag --prots; did you mean --port?; see graft bench step --help");
  const std::string path = Write("prot: 1");
  EXPECT_EQ(
      Parse({"serve", "--config", path}),
      path + ": unknown key 'prot'; did you mean 'port'?; see graft serve --help for the flags");
  for (const std::vector<std::string>& none : {std::vector<std::string>{}, {"bench"}}) {
    EXPECT_NE(Parse(none).find("which command?"), std::string::npos);
  }
}

TEST_F(ParserTest, KeysThatComeTwiceAreRefused) {
  for (const char* text : {"port: 1\nport: 2", "pool_gib: 1\npool-gib: 1"}) {
    EXPECT_NE(Parse({"serve", "--config", Write(text)}).find("is there twice"), std::string::npos);
  }
  EXPECT_NE(Parse({"serve", "--config", Write("pool-gib: 1\nkv-gib: 1")}).find("under two names"),
            std::string::npos);
  EXPECT_NE(Parse({"serve", "--port", "1", "--port", "2"}).find("--port"), std::string::npos);
}

TEST_F(ParserTest, FilesThatAreNoMappingsAreNamed) {
  EXPECT_EQ(Parse({"serve", "--config", "/nowhere"}), "cannot read the config file /nowhere");
  for (const char* text : {"- 1", "port: [1, 2]", "port: {a: 1}", "port: 'x"}) {
    const std::string path = Write(text);
    EXPECT_EQ(Parse({"serve", "--config", path}).rfind(path + ": ", 0), 0u) << text;
  }
  EXPECT_EQ(Parse({"serve", "--config", Write("")}), "");
}

TEST_F(ParserTest, PositionalWordsAreTheCommandLinesAlone) {
  EXPECT_EQ(Parse({"inspect"}), "which paths? see graft inspect --help");
  EXPECT_EQ(Parse({"inspect", "a", "b"}), "");
  EXPECT_EQ(paths_, (std::vector<std::string>{"a", "b"}));
  EXPECT_NE(Parse({"inspect", "--config", Write("paths: [c]")}).find("unknown key 'paths'"),
            std::string::npos);
}

TEST_F(ParserTest, HelpAndVersionArePrintedAndRunNothing) {
  const std::string help = Printed({"serve", "--help"});
  for (const char* part : {"help of serve", "graft serve", "Group", "--pool-gib,--kv-gib", "NUMBER",
                           "[8000]", "--config"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
  }
  EXPECT_NE(Printed({"--help"}).find("help of serve"), std::string::npos);
  EXPECT_NE(Printed({"bench", "--help"}).find("help of step"), std::string::npos);
  EXPECT_EQ(Printed({"--version"}), "1.2.3\n");
  EXPECT_EQ(runs_, 0);
}

TEST_F(ParserTest, WhereMemoryRunsOutTheCommandEndsWithASentence) {
  Command program = {.name = "graft", .help = "help", .subcommands = {{.name = "serve"}}};
  program.subcommands[0].run = []() -> Status { ThrowOutOfMemory("the CPU has no 7 bytes left"); };
  const char* const args[] = {"graft", "serve"};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunProgram(program, "1.2.3", 2, args), 1);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("graft: memory ran out (the CPU has no 7 bytes left); ask"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace graft
