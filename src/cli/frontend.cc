// graft frontend: OpenAI's HTTP API over the runners of other processes and machines, until a
// signal ends it.
#include <filesystem>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/server_log.h"
#include "cli/cluster_loader.h"
#include "cli/commands.h"
#include "cli/http_front.h"
#include "cli/rpc_options.h"
#include "model/config.h"
#include "runtime/base_identity.h"

namespace graft {
namespace {

struct FrontendOptions {
  std::string model;
  std::string model_name;
  std::string runners;  // host:port,host:port
  TlsFiles tls;
  int requests_max = 4096;
  std::string log_level = "info";
  HttpFrontOptions http;
};

std::vector<std::string> SplitAddresses(const std::string& text) {
  std::vector<std::string> addresses;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (!word.empty()) addresses.push_back(word);
  }
  return addresses;
}

Status RunFrontend(const FrontendOptions& options) {
  StopSignals signals;  // before the log's thread
  ASSIGN_OR_RETURN(const auto log, ServerLog::Begin({.level = options.log_level,
                                                     .format = options.http.log_format}));
  if (options.model.empty()) {
    return InvalidArgumentError(
        "which model? --model DIR, the runners' HF folder (its weights are not needed here)");
  }
  ASSIGN_OR_RETURN(const ClusterLibrary* const library, LoadClusterLibrary());
  ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(options.model));
  ASSIGN_OR_RETURN(const ModelText text,
                   LoadModelText(options.model, config.vocab_size, options.http));
  ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(options.model));
  std::string name = options.model_name;
  if (name.empty()) name = std::filesystem::weakly_canonical(options.model).filename().string();
  Metrics metrics;
  ASSIGN_OR_RETURN(
      const auto runners,
      library->ReachRunners({.addresses = SplitAddresses(options.runners),
                             .tls = options.tls,
                             .base = {name, base.text_hash, base.weights_hash},
                             .limits = {.context_tokens_max = config.context_tokens_max,
                                        .vocab_size = config.vocab_size,
                                        .requests_max = options.requests_max}}));
  signals.BeginServing();
  RETURN_IF_ERROR(ServeHttp(options.http, signals,
                            {.generator = runners->generator(),
                             .catalog = runners->catalog(),
                             .text = text,
                             .metrics = metrics,
                             .base_model = name,
                             .adapters_dir = "",
                             .ready = [&runners] { return runners->ready(); },
                             .on_started =
                                 [&](uint16_t port) {
                                   LogAccess(options.http.server);
                                   LOG_INFO("frontend of {}: {}", name,
                                            DescribeServing(options.http.server, port));
                                 }}));
  LOG_INFO("stopped");
  return OkStatus();
}

}  // namespace

Command FrontendCommand() {
  const auto options = std::make_shared<FrontendOptions>();  // lives as long as the command
  OptionGroup group = {
      "Frontend",
      {{"model", Text(options->model), "HF folder of the runners' model; weights are not needed"},
       {"model-name", Text(options->model_name), "the base model's name for clients",
        "the folder's name"},
       {"runners", Text(options->runners), "where they listen: HOST:PORT,HOST:PORT"},
       {"requests-max", Number(options->requests_max, AtLeast(1)),
        "requests in flight, waiting ones included"},
       {"log-level", Text(options->log_level), "debug, info, warn, error, off"}}};
  for (Option& row : RpcTlsOptionRows(options->tls)) group.options.push_back(row);
  return {.name = "frontend",
          .help =
              "Serve OpenAI's HTTP API over runners (graft runner).\n"
              "  graft frontend --model demo/base --runners localhost:7001,localhost:7002",
          .groups = {std::move(group), HttpFrontOptionGroup(options->http)},
          .run = [options] { return RunFrontend(*options); }};
}

}  // namespace graft
