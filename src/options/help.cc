#include "options/help.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "options/markdown.h"
#include "options/parser.h"

namespace graft {
namespace {

struct HelpOptions {
  std::vector<std::string> words;
  bool markdown = false;
};

Status RunHelp(const HelpOptions& options, const Command& program) {
  if (options.markdown) {
    std::fputs(OptionsMarkdown(program).c_str(), stdout);
    return OkStatus();
  }
  std::vector<std::string> args = options.words;
  args.emplace_back("--help");
  ASSIGN_OR_RETURN(const CommandRun print, ParseCommandLine(program, GRAFT_VERSION, args));
  return print();
}

}  // namespace

Command HelpCommand(Command (*make_program)(), const std::string& example) {
  const auto options = std::make_shared<HelpOptions>();  // lives as long as the command
  return {.name = "help",
          .help = "What a command takes.\n  " + example,
          .groups = {{"Options",
                      {{.name = "command",
                        .target = Texts(options->words),
                        .help = "a command's words",
                        .is_positional = true},
                       {"markdown", Switch(options->markdown),
                        "all commands' flags, as a page's tables"}}}},
          .run = [options, make_program] { return RunHelp(*options, make_program()); },
          .environment_prefix = ""};
}

}  // namespace graft
