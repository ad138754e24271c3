// The handshake of a frontend and a runner: versions, base models. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace graft {

// Raised with every change that the version before it would misread. Versions that differ by one
// talk to each other, so that machines are exchanged one by one while they serve.
inline constexpr uint32_t kProtocolVersion = 2;
// From here on a runner says which requests its step holds.
inline constexpr uint32_t kProtocolWithSteps = 2;

// How often both sides send a heartbeat, and after how long a silence a side counts as dead. A
// runner waits longer than a frontend: a frontend that was stopped costs a runner work, but no
// client waits for the runner's decision.
inline constexpr int64_t kHeartbeatNs = 100'000'000;
inline constexpr int64_t kRunnerSilenceNs = 700'000'000;
inline constexpr int64_t kFrontendSilenceNs = 3'000'000'000;

// Which base model a machine serves, or expects. Hashes are "" where it does not know.
struct BaseModelId {
  std::string name;       // for people
  std::string text_hash;  // of config and tokenizer
  std::string weights_hash;
};

// What both speak, or kFailedPrecondition with what to upgrade.
Result<uint32_t> AgreeOnProtocol(uint32_t own, uint32_t others);

// In what that both know; "": in nothing.
std::string HowBasesDiffer(const BaseModelId& left, const BaseModelId& right);

// kFailedPrecondition, with what to start instead, where a runner serves another model than the
// frontend's.
Status CheckSameBase(const BaseModelId& frontend, const BaseModelId& runner);

}  // namespace graft
