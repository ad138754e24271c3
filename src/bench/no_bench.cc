// graft bench and graft profile where they are left out (GRAFT_BENCH=OFF): `make demo` compiles
// what it runs, no more.
#include <memory>

#include "bench/bench.h"

namespace graft {

namespace {

Command LeftOut(const std::string& name, const std::string& help) {
  const auto words = std::make_shared<std::vector<std::string>>();  // lives as long as the command
  return {.name = name,
          .help = help + " (left out of this program; make build adds it).",
          .groups = {{"Options",
                      {{.name = "what",
                        .target = Texts(*words),
                        .help = "what to measure",
                        .is_positional = true}}}},
          .run = [words, name]() -> Status {
            return UnimplementedError("this program was built without graft " + name +
                                      "; make build builds it with");
          },
          .environment_prefix = ""};
}

}  // namespace

Command BenchCommand() { return LeftOut("bench", "Measure kernels and serving"); }
Command ProfileCommand() { return LeftOut("profile", "Measure what steps take"); }

}  // namespace graft
