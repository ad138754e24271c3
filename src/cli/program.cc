// graft: its subcommands together.
#include "cli/commands.h"
#include "doctor/doctor.h"
#include "options/help.h"
#include "profile/profile.h"
#include "runtime/worker_command.h"

namespace graft {
namespace {

// It was a part of this program.
Command FormerBenchCommand() {
  return {.name = "bench",
          .is_hidden = true,
          .refusal = InvalidArgumentError(
              "graft bench is a program of its own: write graft-bench instead; make build-bench "
              "builds it, build/release/graft-bench")};
}

}  // namespace

Command GraftProgram() {
  return {
      .name = "graft",
      .help =
          "Graft serves one base model and thousands of LoRA adapters of it from one batch.\n"
          "\n"
          "  graft serve --model DIR --adapters DIR           serve over HTTP, OpenAI's API\n"
          "  graft runner --model DIR --rpc-port PORT         serve to frontends\n"
          "  graft frontend --model DIR --runners HOST:PORT   serve over HTTP, by runners\n"
          "  graft cluster up --model DIR --adapters DIR      several of both on this machine, and "
          "etcd\n"
          "  graft generate --model DIR --prompt TEXT         print a completion\n"
          "  graft learn FILE --model DIR --name NAME         make an adapter of a document\n"
          "  graft adapters inspect --model DIR ADAPTER_DIR   what is in an adapter\n"
          "  graft fetch ORG/NAME                             a model or an adapter of a hub\n"
          "  graft doctor                                     whether this machine computes "
          "rightly\n"
          "  graft simulate --runners 60                      a cluster by a virtual clock, per "
          "placement\n"
          "\n"
          "Every flag may also stand in a YAML or JSON file (--config) or in the environment\n"
          "(--step-tokens-max is GRAFT_STEP_TOKENS_MAX).",
      .subcommands = {ServeCommand(), RunnerCommand(), FrontendCommand(), ClusterCommand(),
                      GenerateCommand(), LearnCommand(), AdaptersCommand(), FetchCommand(),
                      QuantizeCommand(), FormerBenchCommand(), ProfileCommand(), DoctorCommand(),
                      SimulateCommand(), WorkerCommand(),
                      HelpCommand(GraftProgram, "graft help serve")}};
}

}  // namespace graft
