// graft runner: the model and its adapters, for frontends on this or other machines, until a signal
// ends it.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "adapters/peft_folder.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/host_port.h"
#include "base/log.h"
#include "base/server_log.h"
#include "cli/cluster_loader.h"
#include "cli/cluster_options.h"
#include "cli/commands.h"
#include "cli/foreign_flags.h"
#include "cli/service_notify.h"
#include "cli/source_options.h"
#include "cli/start_checks.h"
#include "cli/stop_signals.h"
#include "cli/tracing.h"
#include "runtime/base_identity.h"
#include "runtime/named_model.h"
#include "runtime/runtime.h"
#include "server/server.h"
#include "tuning/learning_service.h"

namespace graft {
namespace {

struct RunnerOptions {
  RuntimeOptions runtime;
  RunnerServiceOptions service;
  EtcdFlags etcd;
  ClusterRunnerOptions cluster;
  LearningOptions learning;
  SourceFlags sources;
  int drain_seconds = 30;
  std::string otlp_endpoint;
  bool quiet = false;
};

Status CheckPlace(const RunnerOptions& options) {
  if (options.etcd.options.endpoints.empty()) {
    if (!options.learning.folder.empty() || options.learning.share > 0.0) {
      return InvalidArgumentError(
          "--learn-dir and --learn-share are for runners of a cluster, whose fine-tuning jobs are "
          "in etcd: --etcd; one server alone learns by graft serve");
    }
    if (!options.sources.sources.empty()) {
      return InvalidArgumentError(
          "--source is for runners of a cluster, whose frontends ask for what they look up: "
          "--etcd; "
          "one server alone has sources by graft serve");
    }
    if (options.cluster.store.empty()) return OkStatus();
    return InvalidArgumentError("--adapter-store is for runners that find each other: --etcd");
  }
  if (!options.runtime.registry.empty()) {
    return InvalidArgumentError(
        "--registry and --etcd: the cluster's adapters are in etcd, leave --registry out");
  }
  return CheckReachable(options.cluster.place, options.service.host);
}

// Content that was fetched may be loaded, and is not of the runner's own folder.
Status AllowStore(RunnerOptions& options) {
  const std::string& store = options.cluster.store;
  if (store.empty()) return OkStatus();
  std::error_code error;
  const std::filesystem::path root = std::filesystem::absolute(store, error);
  for (const char* part : {"contents", "none"}) {
    std::filesystem::create_directories(root / part, error);
    if (error) return SystemError(error.value(), "cannot make the folder " + store);
  }
  options.runtime.adapters_roots.push_back((root / "contents").string());
  if (options.runtime.adapters.empty()) options.runtime.adapters = (root / "none").string();
  return OkStatus();
}

RunnerLoad LoadOf(const Engine& engine) {
  const EngineSnapshot now = engine.Snapshot();
  return {.requests_waiting = now.requests_waiting,
          .requests_running = now.requests_running,
          .pages_free = now.pages_free + now.pages_cached + now.pages_adapters_idle,
          .figures = {.pages_free = now.pages_free,
                      .pages_cached = now.pages_cached,
                      .pages_referenced = now.pages_referenced,
                      .pages_adapters = now.pages_adapters,
                      .adapters_resident = now.adapters_resident,
                      .step_sequences = now.step_sequences,
                      .step_adapters = now.step_adapters,
                      .step_prompt_rows = now.step_prompt_rows,
                      .step_decode_rows = now.step_decode_rows,
                      .steps = now.steps,
                      .prompt_tokens = now.prompt_tokens,
                      .output_tokens = now.output_tokens,
                      .preemptions = now.preemptions,
                      .adapter_copies = now.adapter_copies,
                      .adapter_evictions = now.adapter_evictions},
          .prefixes = engine.ReadPrefixes()};
}

Result<std::unique_ptr<ServedRunner>> ServeRunner(const RunnerOptions& options, Runtime& runtime,
                                                  const std::function<RunnerLoad()>& load) {
  ASSIGN_OR_RETURN(const ClusterLibrary* const library, LoadClusterLibrary());
  if (options.etcd.options.endpoints.empty()) {
    return library->ServeRunner(options.service, runtime.engine(), runtime.catalog(), load);
  }
  ClusterRunnerOptions cluster = options.cluster;
  ASSIGN_OR_RETURN(cluster.place.etcd, ReadEtcdFlags(options.etcd));
  cluster.hash_folder = HashOfFolder;
  cluster.on_leave = [] { kill(getpid(), SIGTERM); };
  cluster.adapter_roots = options.runtime.adapters_roots;
  for (const std::string& folder : {options.runtime.adapters, options.cluster.learn_dir}) {
    if (!folder.empty()) cluster.adapter_roots.push_back(folder);
  }
  for (const std::string& folder : options.runtime.fetched) cluster.adapter_roots.push_back(folder);
  const Result<std::string> adapters_dir = ResolveInside(options.runtime.adapters, ".");
  if (adapters_dir.ok()) cluster.adapters_dir = *adapters_dir;
  return library->ServeClusterRunner(options.service, cluster, runtime.engine(), runtime.catalog(),
                                     load);
}

// Before the model is read. Null: this runner has no folder of learning.
Result<std::unique_ptr<LearningService>> PrepareLearning(RunnerOptions& options) {
  ASSIGN_OR_RETURN(auto learning, LearningService::Create(options.learning, &options.runtime,
                                                          /*shared=*/true));
  if (learning == nullptr) return learning;
  std::error_code error;
  options.cluster.learn_dir = std::filesystem::canonical(options.learning.folder, error).string();
  if (error) return SystemError(error.value(), "--learn-dir " + options.learning.folder);
  return learning;
}

// What this runner fetches for frontends; null: nothing.
Result<std::unique_ptr<LocalSources>> PrepareSources(RunnerOptions& options) {
  ASSIGN_OR_RETURN(PreparedSources prepared, PreparedSources::Read(options.sources));
  options.runtime.fetched = prepared.roots();
  std::unique_ptr<LocalSources> sources = prepared.ForOthers();
  options.cluster.sources = sources.get();
  return sources;
}

void SetIsServed(const AdapterCatalog& catalog, LocalSources& sources) {
  sources.SetIsServed([&catalog](const std::string& path) {
    const std::vector<AdapterInfo> infos = catalog.List();
    return std::any_of(infos.begin(), infos.end(),
                       [&](const AdapterInfo& info) { return info.path == path; });
  });
}

// Whether the model can be trained where it is is known once it is read.
void SetTrained(LearningService& learning, LoadedModel& model, RunnerOptions& options) {
  learning.SetModel(model);
  const Status trains = learning.CheckTrains();
  options.cluster.learns = trains.ok();
  if (!trains.ok() && options.learning.share > 0.0) {
    LOG_WARN("this runner takes no fine-tuning jobs: {}", trains.message());
  }
}

// What a large model would be fetched and loaded in vain for comes before it.
Status FindModel(RunnerOptions& options, std::unique_ptr<LocalSources>* sources) {
  RETURN_IF_ERROR(CheckPlace(options));
  RETURN_IF_ERROR(AllowStore(options));
  ASSIGN_OR_RETURN(*sources, PrepareSources(options));
  if (options.service.port != 0) {
    RETURN_IF_ERROR(CheckAddress(options.service.host, options.service.port));
  }
  return FindNamedModel(options.quiet, &options.runtime);
}

// The same of what begins threads, or needs the model's folder.
Status CheckBeforeLoading(const RunnerOptions& options) {
  ASSIGN_OR_RETURN(const ClusterLibrary* const library, LoadClusterLibrary());
  RETURN_IF_ERROR(CheckFolders(options.runtime).status());
  if (options.etcd.options.endpoints.empty()) return OkStatus();
  return CheckEtcd(*library, options.etcd, options.cluster.place);
}

Status RunRunner(RunnerOptions options) {
  const int64_t began_ns = SteadyClock::Get().NowNs();
  std::unique_ptr<LocalSources> sources;
  RETURN_IF_ERROR(InLogsForm(options.runtime.log, FindModel(options, &sources)));
  ASSIGN_OR_RETURN(const auto ranks, RankProcesses::Start(options.runtime));  // before any thread
  StopSignals signals;  // before the log's thread
  ASSIGN_OR_RETURN(const auto log, ServerLog::Begin(options.runtime.log));
  RETURN_IF_ERROR(CheckBeforeLoading(options));
  // Machines agree on adapters by their content, which is known of those that were read.
  options.runtime.read_at_start_gib = std::numeric_limits<int32_t>::max();
  // An answer must not depend on which runner gave the one before it.
  options.runtime.engine.scheduler.shares_drawn_pages = false;
  const bool quiet = options.quiet || options.runtime.log.level != "info";
  ASSIGN_OR_RETURN(const auto learning, PrepareLearning(options));
  ASSIGN_OR_RETURN(const auto model, LoadModel(options.runtime, quiet, {}, ranks.get()));
  if (learning != nullptr) SetTrained(*learning, *model, options);
  std::unique_ptr<Tokenizer> tokenizer;  // of documents
  if (options.cluster.learns) {
    ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(options.runtime.model));
  }
  ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(options.runtime.model));
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(options.runtime, *model, /*lora=*/true));
  RETURN_IF_ERROR(runtime->LoadAdapters());
  runtime->RecordGraphs(quiet);
  if (sources != nullptr) SetIsServed(runtime->catalog(), *sources);
  options.service.base = {model->name, base.text_hash, base.weights_hash};
  options.service.arithmetic_id = runtime->arithmetic_id();
  options.service.page_tokens = runtime->limits().page_tokens;
  options.service.batch_max = runtime->limits().sequences_max;
  options.service.adapters_max = runtime->limits().adapters_max;
  options.service.prefix_cache = options.runtime.engine.scheduler.prefix_cache;
  options.service.num_pages = runtime->limits().num_pages;
  options.service.startup_ms = (SteadyClock::Get().NowNs() - began_ns) / 1'000'000;
  Engine& engine = runtime->engine();
  // The engine's thread, which ends with the runtime, is the last one to use it.
  ASSIGN_OR_RETURN(const std::shared_ptr<SpanExporter> spans,
                   StartTracing(options.otlp_endpoint, "runner", runtime->metrics()));
  if (spans != nullptr) {
    engine.SetOnTimes([spans](RequestTimes times) { spans->Add(std::move(times)); });
  }
  ASSIGN_OR_RETURN(const auto served,
                   ServeRunner(options, *runtime, [&engine] { return LoadOf(engine); }));
  engine.SetOnDelivered([&served] { served->OnDelivered(); });
  engine.SetOnStep([&served](const StepNews& news) { served->OnStep(news); });
  if (ranks != nullptr) ranks->BeginServing();
  signals.BeginServing();
  engine.Start();
  LOG_INFO("runner of {} on {}, {} adapters, {}", model->name,
           HostAndPort(options.service.host, served->port()), runtime->catalog().List().size(),
           options.service.arithmetic_id);
  WarnAboutPlainRpc(options.service.tls, options.service.host, "ask this runner for anything");
  if (LearningStore* const jobs = served->learning(); jobs != nullptr) {
    RETURN_IF_ERROR(learning->StartShared(*runtime, *tokenizer, *jobs));
  }
  NotifyService("READY=1");

  const int signal = signals.Wait();
  NotifyService("STOPPING=1");
  LOG_INFO("{}: frontends take their requests elsewhere, or they are finished, {} s at most",
           strsignal(signal), options.drain_seconds);
  served->BeginDrain();
  // Requests go on meanwhile; the job is another runner's from here on.
  if (learning != nullptr) learning->Stop();
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
                       {{"rpc-host", Host(options->service.host), "address to listen on"},
                        {"rpc-port", Number(options->service.port), "0: any free one"},
                        {"drain-seconds", Number(options->drain_seconds, AtLeast(0)),
                         "after SIGTERM, for requests that nobody can take over"},
                        {"request-log", Boolean(options->service.logs_requests),
                         "a line of the log for each request"},
                        OtlpEndpointRow(options->otlp_endpoint),
                        LogFormatOptionRow(options->runtime.log.format),
                        {"quiet", Switch(options->quiet), "no progress bars"}}};
  for (Option& row : RpcTlsOptionRows(options->service.tls)) group.options.push_back(row);
  for (Option& row : ClusterPlaceRows(options->etcd, options->cluster.place)) {
    group.options.push_back(row);
  }
  group.options.push_back({"adapter-store", Text(options->cluster.store),
                           "folder of adapters by content hash, those fetched from others too; "
                           "all of a machine share it"});
  groups.push_back(std::move(group));
  groups.push_back({"Sources of adapters", RunnerSourceRows(options->sources)});
  groups.push_back({"Learning", LearningRunnerRows(options->learning)});
  return {.name = "runner",
          .help =
              "Serve a model and its adapters to frontends (graft frontend).\n"
              "  graft runner --model demo/base --adapters demo/adapters --rpc-port 7001",
          .groups = std::move(groups),
          .run = [options] { return RunRunner(*options); },
          .foreign_flags = VllmFlags()};
}

}  // namespace graft
