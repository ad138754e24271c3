// graft frontend: OpenAI's HTTP API over the runners of other processes and machines, until a
// signal ends it.
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "adapters/peft_folder.h"
#include "base/host_port.h"
#include "base/log.h"
#include "base/random.h"
#include "base/server_log.h"
#include "cli/cluster_loader.h"
#include "cli/cluster_options.h"
#include "cli/commands.h"
#include "cli/foreign_flags.h"
#include "cli/http_front.h"
#include "cli/placement_options.h"
#include "cli/source_options.h"
#include "cli/tracing.h"
#include "keys/api_keys.h"
#include "model/config.h"
#include "model/model_folder.h"
#include "runtime/base_identity.h"
#include "runtime/runtime.h"
#include "runtime/runtime_options.h"
#include "tuning/learning_service.h"

namespace graft {
namespace {

struct FrontendOptions {
  std::string model;
  std::string model_name;
  RunnerSetOptions runners = {.limits = {.requests_max = 4096}};
  EtcdFlags etcd;
  ClusterFrontendOptions cluster;
  LearningOptions learning;
  SourceFlags sources;
  std::string placement_costs;
  ServerLogOptions log;
  HttpFrontOptions http;
};

// The cluster's keys and shares, on their way into a server that may not be there yet, or any more.
class KeysOfCluster {
 public:
  void SetServer(HttpServer* server) {
    std::lock_guard lock(mutex_);
    keys_ = server == nullptr ? nullptr : &server->keys();
    if (keys_ != nullptr && !json_.empty()) Apply();
  }
  void SetKeys(const std::string& json) {
    std::lock_guard lock(mutex_);
    json_ = json;
    if (keys_ != nullptr) Apply();
  }
  void SetShares(std::map<std::string, double> shares) {
    std::lock_guard lock(mutex_);
    if (keys_ != nullptr) keys_->SetShares(shares);
  }
  std::map<std::string, int64_t> TakeDemand() {
    std::lock_guard lock(mutex_);
    return keys_ == nullptr ? std::map<std::string, int64_t>() : keys_->TakeDemand();
  }
  std::string json() {
    std::lock_guard lock(mutex_);
    return json_;
  }

 private:
  void Apply() {
    const Status status = keys_->LoadText(json_);
    if (!status.ok()) {
      LOG_ERROR("a key of the cluster that cannot be read is refused: {}", status.message());
    }
  }

  std::mutex mutex_;
  std::string json_;
  ApiKeys* keys_ = nullptr;
};

// Runners reach it by --advertise's host, where one is given.
Status AddStore(const TlsFiles& tls, ClusterFrontendOptions* cluster) {
  RETURN_IF_ERROR(CheckReachable(cluster->place, cluster->contents.host));
  WarnAboutPlainRpc(tls, cluster->contents.host, "read the cluster's adapters");
  const std::string& address = cluster->place.address;
  cluster->contents_advertised_host = address.substr(0, address.rfind(':'));
  cluster->contents.hash_folder = HashOfFolder;
  return OkStatus();
}

Result<std::unique_ptr<RunnersInReach>> Reach(const FrontendOptions& options,
                                              const RunnerSetOptions& runners,
                                              KeysOfCluster& keys) {
  ASSIGN_OR_RETURN(const ClusterLibrary* const library, LoadClusterLibrary());
  if (options.etcd.options.endpoints.empty()) {
    if (!options.cluster.contents.store.empty()) {
      return InvalidArgumentError(
          "--adapter-store keeps what the cluster's registry names: --etcd");
    }
    if (!options.sources.sources.empty()) {
      return InvalidArgumentError(
          "--source: what one runner fetches is told to the others by etcd: --etcd");
    }
    if (!options.learning.folder.empty()) {
      return InvalidArgumentError(
          "--learn-dir: files and fine-tuning jobs of a cluster are in etcd: --etcd");
    }
    return library->ReachRunners(runners);
  }
  if (!runners.addresses.empty()) {
    return InvalidArgumentError("--runners and --etcd: etcd knows the runners, leave one out");
  }
  if (!options.http.server.api_keys_file.empty()) {
    return InvalidArgumentError(
        "a cluster's keys are in etcd (graft cluster keys), not --api-keys");
  }
  ClusterFrontendOptions cluster = options.cluster;
  ASSIGN_OR_RETURN(cluster.place.etcd, ReadEtcdFlags(options.etcd));
  if (!cluster.contents.store.empty()) RETURN_IF_ERROR(AddStore(runners.tls, &cluster));
  cluster.learn_dir = options.learning.folder;
  if (cluster.place.address.empty()) {
    const ServerOptions& server = options.http.server;
    RETURN_IF_ERROR(CheckReachable(cluster.place, server.host));
    if (server.port == 0) {
      return InvalidArgumentError("which port? --port, or --advertise HOST:PORT");
    }
    cluster.place.address = HostAndPort(server.host, server.port);
  }
  cluster.on_keys = [&keys](const std::string& json) { keys.SetKeys(json); };
  cluster.take_demand = [&keys] { return keys.TakeDemand(); };
  cluster.on_shares = [&keys](std::map<std::string, double> shares) {
    keys.SetShares(std::move(shares));
  };
  return library->ReachCluster(runners, cluster);
}

// Null, with a sentence for clients, where this frontend has no files and no jobs.
std::unique_ptr<LearningJobs> JobsOf(const FrontendOptions& options, const std::string& base_model,
                                     RunnersInReach& runners) {
  if (runners.learning() == nullptr) return nullptr;
  LearningSetup setup = LearningSetupOf(options.learning, base_model);
  setup.is_own = false;
  setup.trains = [&runners] { return runners.learns(); };
  setup.remove_adapter = [&runners](const LearningJob& job) {
    const Status unloaded = runners.catalog().Unload(job.adapter, job.tenant);
    return unloaded.code() == StatusCode::kNotFound ? OkStatus() : unloaded;
  };
  return std::make_unique<LearningJobs>(*runners.learning(), std::move(setup));
}

std::string LearningRefusal(const FrontendOptions& options) {
  if (!options.etcd.options.endpoints.empty()) {
    return "This frontend has no files and no fine-tuning jobs: start it with --learn-dir DIR, the "
           "folder that it shares with runners that learn (graft runner --learn-dir DIR "
           "--learn-share 0.3).";
  }
  return "A frontend has files and fine-tuning jobs in a cluster with etcd: start it and its "
         "runners with --etcd and --learn-dir DIR, and runners that learn with --learn-share, too.";
}

FleetFigures FiguresOf(const ScaleHint& hint) {
  return {.runners = hint.runners,
          .runners_wanted = hint.runners_wanted,
          .runners_spare = static_cast<int32_t>(hint.spare.size()),
          .startup_seconds = hint.startup_seconds};
}

Status RunFrontend(const FrontendOptions& options) {
  StopSignals signals;  // before the log's thread
  ASSIGN_OR_RETURN(const auto log, ServerLog::Begin(options.log));
  if (options.model.empty()) {
    return InvalidArgumentError(
        "which model? --model DIR, the runners' HF folder (its weights are not needed here)");
  }
  // Before the model's files are read.
  RETURN_IF_ERROR(LoadClusterLibrary().status());
  RETURN_IF_ERROR(CheckAddress(options.http.server.host, options.http.server.port));
  RETURN_IF_ERROR(CheckFiles(options.http.server));
  ASSIGN_OR_RETURN(PreparedSources sources, PreparedSources::Read(options.sources));
  ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(options.model));
  WarnOfIgnored(options.model, config);
  RunnerSetOptions reached = options.runners;
  reached.placement.seed = RandomSeed();
  if (!options.placement_costs.empty()) {
    ASSIGN_OR_RETURN(reached.placement.costs, ReadCostModel(options.placement_costs));
  }
  ASSIGN_OR_RETURN(const ModelText text,
                   LoadModelText(options.model, config.vocab_size, options.http));
  ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(options.model));
  std::string name = options.model_name;
  if (name.empty()) name = ModelNameOf(options.model);
  Metrics metrics;
  ASSIGN_OR_RETURN(const auto spans, StartTracing(options.http.otlp_endpoint, "frontend", metrics));
  KeysOfCluster keys;
  reached.base = {name, base.text_hash, base.weights_hash};
  reached.limits.context_tokens_max = config.context_tokens_max;
  reached.limits.vocab_size = config.vocab_size;
  reached.metrics = &metrics;
  ASSIGN_OR_RETURN(const auto runners, Reach(options, reached, keys));
  const std::unique_ptr<LearningJobs> learning = JobsOf(options, name, *runners);
  HttpFrontOptions http = options.http;
  http.server.api_keys_json = keys.json();
  signals.BeginServing();
  ApiContext context =
      ApiContextOf(options.http, text, runners->generator(), runners->catalog(), metrics, name);
  context.ready = [&runners] { return runners->ready(); };
  context.fleet = [&runners] { return FiguresOf(runners->hint()); };
  context.num_holders = [&runners](const std::string& hash) { return runners->NumHolders(hash); };
  context.spans = spans.get();
  std::unique_ptr<AdapterSupply> supply = sources.Start(runners->catalog(), runners->sources());
  context.sources = supply.get();
  context.learning = learning.get();
  context.learning_refusal = LearningRefusal(options);
  return ServeHttp(http, signals, std::move(context),
                   {.on_server = [&keys](HttpServer* server) { keys.SetServer(server); },
                    .on_started =
                        [&](uint16_t port) {
                          LogAccess(options.http.server);
                          LOG_INFO("frontend of {}: {}", name,
                                   DescribeServing(options.http.server, port));
                        },
                    // The connections that wait for it are there until this returns.
                    .on_stopped = [&] { supply.reset(); }});
}

}  // namespace

Command FrontendCommand() {
  const auto options = std::make_shared<FrontendOptions>();  // lives as long as the command
  RunnerSetOptions& runners = options->runners;
  ClusterFrontendOptions& cluster = options->cluster;
  OptionGroup group = {
      "Frontend",
      {{"model", ModelFolder(options->model),
        "HF folder of the runners' model; weights are not needed"},
       {"model-name", Text(options->model_name), "the base model's name for clients",
        "the folder's name"},
       {"runners", Addresses(runners.addresses), "where they listen"},
       {"requests-max", Number(runners.limits.requests_max, AtLeast(1)),
        "requests in flight, waiting ones included"},
       {"placement", OnePlacement(runners.placement.kind), "how requests are given to runners"},
       {"placement-costs", Text(options->placement_costs),
        "what graft profile wrote on a runner's machine, for caraserve and auto",
        "Llama-2-7B on an H200"},
       {"placement-slo-ms", Number(runners.placement.slo_ms, AtLeast(0)),
        "a token's time that caraserve keeps to; 0: 1.5 times that of a row of rank 64 alone"},
       {"consolidate", Boolean(runners.consolidates),
        "runners beyond the number wanted are emptied by moving their requests to others"},
       BatchShareOptionRow(runners.scale.batch_share),
       {"runner-startup-seconds", Number(runners.scale.startup_seconds, AtLeast(0)),
        "from a runner's order until it serves; 0: as long as the slowest runner took to load"},
       {"runner-wait-seconds", NumberIn(kSecondInNs, runners.runner_wait_ns, AtLeast(1)),
        "how long a request waits for a runner that can take it or go on with it"},
       {"log-level", Text(options->log.level), "debug, info, warn, error, off"}}};
  for (Option& row : RpcTlsOptionRows(runners.tls)) group.options.push_back(row);
  for (Option& row : ClusterPlaceRows(options->etcd, cluster.place)) group.options.push_back(row);
  const std::vector<Option> store_rows = {
      {"adapter-store", Text(cluster.contents.store),
       "folder of the cluster's adapters by content hash, for runners that lack one"},
      {"rpc-host", Host(cluster.contents.host), "address on which runners are given them"},
      {"rpc-port", Number(cluster.contents.port), "0: any free one"}};
  group.options.insert(group.options.end(), store_rows.begin(), store_rows.end());
  OptionGroup source_group = SourceOptionGroup(options->sources);
  return {.name = "frontend",
          .help =
              "Serve OpenAI's HTTP API over runners (graft runner).\n"
              "  graft frontend --model demo/base --runners localhost:7001,localhost:7002",
          .groups = {std::move(group), HttpFrontOptionGroup(options->http, options->log.format),
                     std::move(source_group),
                     OptionGroup{"Learning", LearningFrontendRows(options->learning)}},
          .run = [options] { return RunFrontend(*options); },
          .foreign_flags = VllmFlags()};
}

}  // namespace graft
