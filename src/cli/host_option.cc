#include "cli/host_option.h"

#include <vector>

#include "base/host_port.h"

namespace graft {

OptionTarget HostTarget(std::string& host) {
  OptionTarget target = Text(host);
  target.set = [&host](const std::vector<std::string>& texts) {
    host = WithoutBrackets(texts.front());
    return OkStatus();
  };
  return target;
}

}  // namespace graft
