// graft serve: the model and its adapters over HTTP until a signal ends it.
#include <cstring>
#include <memory>
#include <optional>

#include "base/file.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/stop_signals.h"
#include "options/config_file.h"
#include "runtime/runtime.h"
#include "server/server.h"

namespace graft {
namespace {

struct ServeOptions {
  RuntimeOptions runtime;
  ServerOptions server;
  int drain_seconds = 30;
  std::string generation_config = "auto";  // or none
  bool quiet = false;
};

void LogStart(const ServeOptions& options, const LoadedModel& model, Runtime& runtime,
              uint16_t port, int64_t begin_ns) {
  const ExecutorLimits& limits = runtime.limits();
  LOG_INFO("{} on {} in {}: {:.0f} MiB of weights, {} threads", model.name,
           DescribeDevice(model.device), DTypeName(model.weights.dtype),
           static_cast<double>(model.weights.bytes()) / (1 << 20), model.threads->num_threads());
  if (options.runtime.context_tokens_max > model.config.context_tokens_max) {
    LOG_WARN("--context-tokens-max {} is more than the model's own {}, which is served",
             options.runtime.context_tokens_max, model.config.context_tokens_max);
  }
  constexpr double kMib = 1 << 20;
  LOG_INFO(
      "{} adapters, {} of them in memory ({:.0f} MiB); page pool of {} x {} tokens ({:.0f} MiB); "
      "context {}",
      runtime.catalog().List().size(), runtime.host_store().num_adapters(),
      static_cast<double>(runtime.host_store().bytes()) / kMib, limits.num_pages,
      limits.page_tokens, static_cast<double>(runtime.pool_bytes()) / kMib,
      runtime.engine().limits().context_tokens_max);
  LOG_INFO("serving on {}://{}:{} after {:.2f} s",
           options.server.tls_cert_file.empty() ? "http" : "https", options.server.host, port,
           NsToSeconds(SteadyClock::Get().NowNs() - begin_ns));
}

Status RunServe(const ServeOptions& options) {
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  if (options.drain_seconds < 0) {
    return InvalidArgumentError("--drain-seconds must be 0 or more");
  }
  if (options.server.connections_max < 1) {
    return InvalidArgumentError("--connections-max must be 1 or more");
  }
  if (options.generation_config != "auto" && options.generation_config != "none") {
    return InvalidArgumentError("unknown --generation-config '" + options.generation_config +
                                "'; use auto or none");
  }
  RETURN_IF_ERROR(InitLog(options.runtime.log_level));
  StopSignals signals;
  const bool quiet = options.quiet || options.runtime.log_level != "info";
  ASSIGN_OR_RETURN(const auto model, LoadModel(options.runtime, quiet));
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(options.runtime.model));
  const Result<std::optional<ChatTemplate>> chat_template =
      ChatTemplate::Load(options.runtime.model);
  if (!chat_template.ok()) {
    LOG_WARN("chat is not served: {}", chat_template.status().message());
  }
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(options.runtime, *model, /*lora=*/true));
  RETURN_IF_ERROR(runtime->LoadAdapters());
  runtime->RecordGraphs(quiet);

  GenerationDefaults defaults;
  if (options.generation_config == "auto") {
    ASSIGN_OR_RETURN(defaults, LoadGenerationDefaults(options.runtime.model));
  }
  const Result<std::string> adapters_dir = ResolveInside(options.runtime.adapters, ".");
  const bool has_template = chat_template.ok() && chat_template->has_value();
  HttpServer server({.generator = runtime->engine(),
                     .catalog = runtime->catalog(),
                     .tokenizer = *tokenizer,
                     .chat_template = has_template ? &**chat_template : nullptr,
                     .metrics = runtime->metrics(),
                     .clock = SteadyClock::Get(),
                     .base_model = model->name,
                     .adapters_dir = adapters_dir.ok() ? *adapters_dir : "",
                     .defaults = std::move(defaults),
                     .ready = {}},
                    options.server);
  signals.BeginServing();
  runtime->engine().Start();
  RETURN_IF_ERROR(server.Start());
  LogStart(options, *model, *runtime, server.port(), begin_ns);

  const int signal = signals.Wait();
  LOG_INFO("{}: finishing what is in flight, {} s at most", strsignal(signal),
           options.drain_seconds);
  server.Shutdown(std::chrono::seconds(options.drain_seconds));
  runtime->engine().Stop();
  LOG_INFO("stopped");
  return OkStatus();
}

void AddServerOptions(CLI::App& command, ServeOptions& options) {
  ServerOptions& server = options.server;
  command.add_option("--host", server.host, "address to listen on")->capture_default_str();
  command.add_option("--port", server.port, "0: any free one")->capture_default_str();
  command.add_option("--http-threads", server.threads_max, "threads for sockets")
      ->capture_default_str();
  command.add_option("--api-keys", server.api_keys_file,
                     "JSON file of keys: tenant, adapters, rates (docs/http-api.md)");
  command.add_option("--admin-key", server.admin_key, "key that may load and unload adapters");
  command.add_option("--tls-cert", server.tls_cert_file, "PEM certificate chain");
  command.add_option("--tls-key", server.tls_key_file, "PEM private key");
  command.add_option("--cors-allow-origin", server.cors_allow_origin,
                     "* or one origin whose pages may call");
  command.add_option("--connections-max", server.connections_max, "open connections")
      ->capture_default_str();
  command.add_flag("--metrics-need-admin", server.metrics_need_admin,
                   "/metrics asks for the admin key");
  command
      .add_option("--generation-config", options.generation_config,
                  "auto: the model's generation_config.json says how to draw where a request does "
                  "not; none: OpenAI's defaults")
      ->capture_default_str();
  command
      .add_option("--drain-seconds", options.drain_seconds, "after SIGTERM, for requests in flight")
      ->capture_default_str();
  command.add_flag("--quiet", options.quiet, "no progress bars");
}

}  // namespace

void AddServeCommand(CLI::App& app, CommandRun& run) {
  CLI::App* command = app.add_subcommand(
      "serve",
      "Serve a model and its adapters over OpenAI's HTTP API.\n"
      "  graft serve --model demo/base --adapters demo/adapters\n"
      "  curl localhost:8000/v1/completions -H 'Content-Type: application/json' \\\n"
      "       -d '{\"model\": \"austen\", \"prompt\": \"It was\", \"max_tokens\": 20}'");
  auto options = std::make_shared<ServeOptions>();  // lives as long as the parser and `run`
  AddRuntimeOptions(*command, options->runtime);
  AddServerOptions(*command, *options);
  AddConfigOptions(*command);
  command->callback([options, &run] { run = [options] { return RunServe(*options); }; });
}

}  // namespace graft
