#include <cstdio>

#include "bench/bench.h"
#include "cli/commands.h"
#include "options/config_file.h"

namespace graft {
namespace {

constexpr char kDescription[] =
    "Graft serves one base model and thousands of LoRA adapters of it from one batch.\n"
    "\n"
    "  graft serve --model DIR --adapters DIR     serve over HTTP, OpenAI's API\n"
    "  graft generate --model DIR --prompt TEXT   print a completion\n"
    "  graft adapters inspect DIR                 what is in an adapter, and whether it is served\n"
    "  graft bench ops                            each kernel against this machine's peaks\n"
    "\n"
    "Every flag may also stand in a YAML or JSON file (--config) or in the environment\n"
    "(--step-tokens-max is GRAFT_STEP_TOKENS_MAX).";

// The subcommand that the words of the command line pick, or `app` itself.
CLI::App* PickedCommand(CLI::App& app, int argc, char** argv) {
  CLI::App* picked = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const auto named =
        picked->get_subcommands([&](CLI::App* command) { return command->get_name() == argv[i]; });
    if (named.empty()) break;
    picked = named.front();
  }
  return picked;
}

constexpr int kWrongUse = 2;

int Fail(const Status& status) {
  std::fprintf(stderr, "graft: %s\n", status.message().c_str());
  const bool is_wrong_use =
      status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kNotFound;
  return is_wrong_use ? kWrongUse : 1;
}

int Main(int argc, char** argv) {
  CLI::App app(kDescription, "graft");
  app.set_version_flag("--version", GRAFT_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(36);
  CommandRun run;
  AddServeCommand(app, run);
  AddGenerateCommand(app, run);
  AddAdaptersCommand(app, run);
  AddBenchCommand(app, run);
  AddAssistWorkerCommand(app, run);
  CLI::App* picked = PickedCommand(app, argc, argv);
  if (picked != &app) {
    const Status status = ApplyConfigFile(*picked, argc, argv);
    if (!status.ok()) return Fail(status);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUse;  // 0: help, or the version
  }
  const Status status = run();
  return status.ok() ? 0 : Fail(status);
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) { return graft::Main(argc, argv); }
