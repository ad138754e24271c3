#include "options/left_out.h"

namespace graft {

Command LeftOutCommand(const std::string& name, const std::string& help) {
  return {.name = name,
          .help = help + " (left out of this program; make build adds it).",
          .refusal = UnimplementedError("this program was built without graft " + name +
                                        "; make build builds it with")};
}

}  // namespace graft
