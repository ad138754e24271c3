// What a RunnerSet is started with, and what its cluster tells it and asks of it, without gRPC's
// headers. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/metrics.h"
#include "placement/policy.h"
#include "placement/scale_hint.h"
#include "request/generator.h"
#include "rpc/protocol.h"
#include "rpc/tls_files.h"

namespace graft {

struct RunnerSetOptions {
  std::vector<std::string> addresses;  // host:port of each
  bool addresses_come_later = false;   // by SetRunners; else there must be one
  TlsFiles tls;
  BaseModelId base;
  GeneratorLimits limits;  // until a runner is up; its requests_max is the frontend's own
  PlacementOptions placement;
  // startup_seconds 0: as long as the slowest runner took.
  ScaleOptions scale = {.startup_seconds = 0.0};
  // Runners beyond the number wanted are emptied; where they come later SetSpare says which.
  bool consolidates = false;
  Metrics* metrics = nullptr;  // null: a private one
  // So many runners may die in steps that hold a request which has drawn nothing there; after that
  // it runs alone in its steps, and is given up if that kills a runner, too.
  int32_t deaths_max = 3;
  // How long a request waits for a runner that can take it, or go on with it. For room at one it
  // waits without a limit.
  int64_t runner_wait_ns = 30'000'000'000;
};

// What a cluster's registry says, as far as requests ask for it.
struct RegisteredContent {
  std::string path;  // where it lies
  std::string name;
};
struct RegistryFacts {
  std::unordered_map<std::string, RegisteredContent> adapters;  // by content hash
  std::map<std::string, float> tenant_weights;                  // of others 1
};

// A content that requests began with, no name leads to, and no runner has that could go on.
struct MissingContent {
  std::string hash;
  std::string path;                  // where it lay
  std::vector<std::string> runners;  // addresses of those that could take it; the idlest first
};

}  // namespace graft
