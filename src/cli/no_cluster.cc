// graft runner, frontend and cluster where they are left out (GRAFT_CLUSTER=OFF): `make demo`
// compiles what it runs, no more.
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace graft {
namespace {

Command LeftOut(const std::string& name, const std::string& help) {
  const auto words = std::make_shared<std::vector<std::string>>();  // lives as long as the command
  return {.name = name,
          .help = help + " (left out of this program; make build adds it).",
          .groups = {{"Options",
                      {{.name = "what",
                        .target = Texts(*words),
                        .help = "its options",
                        .is_positional = true}}}},
          .run = [words, name]() -> Status {
            return UnimplementedError("this program was built without graft " + name +
                                      "; make build builds it with");
          },
          .environment_prefix = ""};
}

}  // namespace

Command RunnerCommand() { return LeftOut("runner", "Serve a model to frontends"); }
Command FrontendCommand() { return LeftOut("frontend", "Serve runners over HTTP"); }
Command ClusterCommand() { return LeftOut("cluster", "Start and change a cluster"); }

}  // namespace graft
