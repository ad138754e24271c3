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

Status CheckSameBase(const BaseModelId& frontend, const BaseModelId& runner) {
  const auto differs = [](const std::string& one, const std::string& other) {
    return !one.empty() && !other.empty() && one != other;
  };
  const bool text = differs(frontend.text_hash, runner.text_hash);
  if (!text && !differs(frontend.weights_hash, runner.weights_hash)) return OkStatus();
  return FailedPreconditionError(
      "the runner serves another base model ('" + runner.name + "') than the frontend ('" +
      frontend.name + "'): " + (text ? "config or tokenizer differ" : "the weights differ") +
      "; start the runner with the frontend's model folder (graft runner --model DIR), or a "
      "frontend of its own for that model");
}

}  // namespace graft
