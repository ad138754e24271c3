#include "rpc/protocol.h"

#include <algorithm>

namespace graft {

Result<uint32_t> AgreeOnProtocol(uint32_t own, uint32_t others) {
  const uint32_t older = std::min(own, others);
  if (older > 0 && std::max(own, others) - older <= 1) return older;
  return FailedPreconditionError(
      "the frontend and the runner speak versions " + std::to_string(own) + " and " +
      std::to_string(others) +
      " of the protocol, which may differ by one; upgrade the older machine one version at a time");
}

std::string HowBasesDiffer(const BaseModelId& left, const BaseModelId& right) {
  const auto differs = [](const std::string& one, const std::string& other) {
    return !one.empty() && !other.empty() && one != other;
  };
  if (differs(left.text_hash, right.text_hash)) return "config or tokenizer differ";
  return differs(left.weights_hash, right.weights_hash) ? "the weights differ" : "";
}

Status CheckSameBase(const BaseModelId& frontend, const BaseModelId& runner) {
  const std::string how = HowBasesDiffer(frontend, runner);
  if (how.empty()) return OkStatus();
  return FailedPreconditionError(
      "the runner serves another base model ('" + runner.name + "') than the frontend ('" +
      frontend.name + "'): " + how +
      "; start the runner with the frontend's model folder (graft runner --model DIR), or a "
      "frontend of its own for that model");
}

}  // namespace graft
