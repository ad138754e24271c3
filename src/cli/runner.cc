// graft runner: the model and its adapters, for frontends on this or other machines, until a signal
// ends it.
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/server_log.h"
#include "cli/cluster_loader.h"
#include "cli/commands.h"
#include "cli/rpc_options.h"
#include "cli/service_notify.h"
#include "cli/stop_signals.h"
#include "runtime/base_identity.h"
#include "runtime/runtime.h"

namespace graft {
namespace {

struct RunnerOptions {
  RuntimeOptions runtime;
  RunnerServiceOptions service;
  int drain_seconds = 30;
  bool quiet = false;
};

Status RunRunner(RunnerOptions options) {
  StopSignals signals;  // before the log's thread
  ASSIGN_OR_RETURN(const auto log, ServerLog::Begin({.level = options.runtime.log_level}));
  ASSIGN_OR_RETURN(const ClusterLibrary* const library, LoadClusterLibrary());
  // Machines agree on adapters by their content, which is known of those that were read.
  options.runtime.read_at_start_gib = std::numeric_limits<int32_t>::max();
  // An answer must not depend on which runner gave the one before it.
  options.runtime.shares_drawn_pages = false;
  const bool quiet = options.quiet || options.runtime.log_level != "info";
  ASSIGN_OR_RETURN(const auto model, LoadModel(options.runtime, quiet));
  ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(options.runtime.model));
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(options.runtime, *model, /*lora=*/true));
  RETURN_IF_ERROR(runtime->LoadAdapters());
  runtime->RecordGraphs(quiet);
  options.service.base = {model->name, base.text_hash, base.weights_hash};
  options.service.arithmetic_id = runtime->arithmetic_id();
  Engine& engine = runtime->engine();
  ASSIGN_OR_RETURN(const auto served,
                   library->ServeRunner(options.service, engine, runtime->catalog(), [&engine] {
                     const EngineSnapshot now = engine.Snapshot();
                     return RunnerLoad{.requests_waiting = now.requests_waiting,
                                       .requests_running = now.requests_running,
                                       .pages_free = now.pages_free};
                   }));
  engine.SetOnDelivered([&served] { served->OnDelivered(); });
  signals.BeginServing();
  engine.Start();
  LOG_INFO("runner of {} on {}:{}, {} adapters, {}", model->name, options.service.host,
           served->port(), runtime->catalog().List().size(), options.service.arithmetic_id);
  WarnAboutPlainRpc(options.service.tls, options.service.host);
  NotifyService("READY=1");

  const int signal = signals.Wait();
  NotifyService("STOPPING=1");
  LOG_INFO("{}: frontends take their requests elsewhere, or they are finished, {} s at most",
           strsignal(signal), options.drain_seconds);
  served->BeginDrain();
  engine.Drain(std::chrono::seconds(options.drain_seconds));
  engine.Stop();
  LOG_INFO("stopped");
  return OkStatus();
}

}  // namespace

Command RunnerCommand() {
  const auto options = std::make_shared<RunnerOptions>();  // lives as long as the command
  std::vector<OptionGroup> groups = RuntimeOptionGroups(options->runtime);
  OptionGroup group = {"Runner",
                       {{"rpc-host", Text(options->service.host), "address to listen on"},
                        {"rpc-port", Number(options->service.port), "0: any free one"},
                        {"drain-seconds", Number(options->drain_seconds, AtLeast(0)),
                         "after SIGTERM, for requests that nobody can take over"},
                        {"quiet", Switch(options->quiet), "no progress bars"}}};
  for (Option& row : RpcTlsOptionRows(options->service.tls)) group.options.push_back(row);
  groups.push_back(std::move(group));
  return {.name = "runner",
          .help =
              "Serve a model and its adapters to frontends (graft frontend).\n"
              "  graft runner --model demo/base --adapters demo/adapters --rpc-port 7001",
          .groups = std::move(groups),
          .run = [options] { return RunRunner(*options); }};
}

}  // namespace graft
