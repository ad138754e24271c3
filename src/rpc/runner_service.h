// RunnerService: a Generator and its adapters, served to frontends over gRPC. Each frontend has one
// stream, and one message has all tokens that a step drew for it. A frontend that reads too slowly,
// or is silent, loses its requests; the engine does not wait for it. Thread-safe: per frontend, a
// thread of gRPC's reads and a thread of this class writes.
#pragma once

#include <functional>
#include <memory>

#include "request/adapter_catalog.h"
#include "request/generator.h"
#include "request/step_news.h"
#include "rpc/adapter_service.h"
#include "rpc/protocol.h"
#include "rpc/runner_load.h"
#include "rpc/tls_files.h"

namespace graft {

class RunnerService {
 public:
  // Everything referred to must outlive it. `load` is called on threads of the service. `adapters`
  // is served on the same port.
  static Result<std::unique_ptr<RunnerService>> Start(const RunnerServiceOptions& options,
                                                      Generator& generator, AdapterCatalog& catalog,
                                                      std::function<RunnerLoad()> load,
                                                      AdapterService* adapters = nullptr);
  virtual ~RunnerService() = default;  // ends all streams and cancels what they asked for

  virtual int port() const = 0;
  // The engine's thread: a step's events have all been pushed. They leave together.
  virtual void OnDelivered() = 0;
  // The engine's thread, see Engine::SetOnStep. Waits until newcomers are told, 2 ms at most.
  virtual void OnStep(const StepNews& news) = 0;
  // Frontends are told to take their requests elsewhere, and health checks fail. Waits until they
  // are told, 1 s at most.
  virtual void BeginDrain() = 0;
  // Frontends are told what the catalog has now.
  virtual void OnAdaptersChanged() = 0;
};

}  // namespace graft
