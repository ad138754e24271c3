#include "options/left_out.h"

#include <memory>
#include <vector>

namespace graft {

Command LeftOutCommand(const std::string& name, const std::string& help) {
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

}  // namespace graft
