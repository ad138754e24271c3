// graft bench where it is left out (GRAFT_BENCH=OFF): `make demo` compiles what it runs, no more.
#include <memory>

#include "bench/bench.h"

namespace graft {

Command BenchCommand() {
  const auto words = std::make_shared<std::vector<std::string>>();  // lives as long as the command
  return {.name = "bench",
          .help = "Measure kernels and serving (left out of this program; make build adds it).",
          .groups = {{"Options",
                      {{.name = "what",
                        .target = Texts(*words),
                        .help = "what to measure",
                        .is_positional = true}}}},
          .run = [words]() -> Status {
            return UnimplementedError(
                "this program was built without graft bench; make build builds it with");
          },
          .environment_prefix = ""};
}

}  // namespace graft
