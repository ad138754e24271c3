// A frontend's end of its stream to one runner: connects, and connects anew whenever it was lost.
// An interface, for a simulation has links of its own. Thread-safe; the owner calls Tick.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "request/generator.h"
#include "rpc/adapter_proto.h"
#include "rpc/protocol.h"
#include "rpc/runner_load.h"
#include "rpc/tls_files.h"

namespace graft {

struct RunnerFacts {
  uint32_t protocol = 0;
  BaseModelId base;
  std::string arithmetic_id;
  GeneratorLimits limits;
  int32_t page_tokens = 0;   // 0, here and in the next four: it does not say
  int32_t batch_max = 0;     // requests in one step
  int32_t adapters_max = 0;  // on its device
  int64_t num_pages = 0;     // of its pool
  int64_t startup_ms = 0;    // that it took until it served
  uint64_t instance = 0;     // drawn at the process's start; 0: it does not say
  bool has_prefix_cache = true;
  std::vector<ListedAdapter> adapters;
};

// Called on a thread of the link's, in the order in which the runner spoke: OnUp, then the
// others, then OnDown. Where OnUp refuses, OnDown follows with its reason.
class RunnerListener {
 public:
  virtual ~RunnerListener() = default;
  virtual Status OnUp(size_t runner, RunnerFacts facts) = 0;
  virtual void OnEvents(size_t runner, uint64_t number, std::vector<TokenEvent> events) = 0;
  virtual void OnState(size_t runner, const RunnerLoad& load, bool draining) = 0;
  // It has other adapters than it said before.
  virtual void OnAdapters(size_t /*runner*/, std::vector<ListedAdapter> /*adapters*/) {}
  // The runner's step has these of its requests, and they have drawn nothing there.
  virtual void OnStep(size_t /*runner*/, std::vector<uint64_t> /*undrawn*/) {}
  // It has put the request back in its line, for older ones need the pages.
  virtual void OnEvicted(size_t /*runner*/, uint64_t /*number*/) {}
  // What was asked for and has had no last event will have none. Also after a connection that never
  // came up.
  virtual void OnDown(size_t runner, const Status& why) = 0;
};

struct RunnerLinkOptions {
  std::string address;  // host:port
  TlsFiles tls;
  BaseModelId base;
  uint64_t frontend = 0;
  int64_t silence_ns = kRunnerSilenceNs;
  uint32_t protocol = kProtocolVersion;  // another for tests
};

class RunnerLink {
 public:
  virtual ~RunnerLink() = default;  // without a last OnDown
  // Between OnUp and OnDown; else they are dropped.
  virtual void Submit(const Request& request) = 0;
  virtual void Cancel(uint64_t number) = 0;
  // Called every 100 ms or more often: a runner that was silent for too long is dead. `forgives`:
  // the caller was suspended meanwhile, so silence says nothing.
  virtual void Tick(int64_t now_ns, bool forgives) = 0;
};

// `runner` is what the link calls itself to the listener, which outlives it.
using StartLink = std::function<Result<std::unique_ptr<RunnerLink>>(
    const RunnerLinkOptions& options, size_t runner, RunnerListener& listener)>;

// Over gRPC; a thread of its own reads, one writes.
Result<std::unique_ptr<RunnerLink>> StartGrpcLink(const RunnerLinkOptions& options, size_t runner,
                                                  RunnerListener& listener);

}  // namespace graft
