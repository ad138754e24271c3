// graft serve: the model and its adapters over HTTP until a signal ends it.
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/server_log.h"
#include "cli/commands.h"
#include "cli/service_notify.h"
#include "cli/stop_signals.h"
#include "cli/tokenizer_rules.h"
#include "runtime/runtime.h"
#include "server/server.h"

namespace graft {
namespace {

enum class GenerationConfig : uint8_t {
  kAuto,  // the model's file says how to draw where a request does not
  kNone,
};
constexpr OptionWord<GenerationConfig> kGenerationConfigWords[] = {
    {GenerationConfig::kAuto, "auto"}, {GenerationConfig::kNone, "none"}};

constexpr OptionWord<LogFormat> kLogFormatWords[] = {{LogFormat::kText, "text"},
                                                     {LogFormat::kJson, "json"}};

struct ServeOptions {
  RuntimeOptions runtime;
  ServerOptions server;
  int drain_seconds = 30;
  int64_t bodies_mib = 512;
  LogFormat log_format = LogFormat::kText;
  GenerationConfig generation_config = GenerationConfig::kAuto;
  TokenizerRules tokenizer_rules = TokenizerRules::kFile;
  bool special_tokens_in_content = false;
  bool quiet = false;
};

// Who may call. A server that everybody may call is no mistake on a machine of one's own, and one
// everywhere else.
void LogAccess(const ServerOptions& server) {
  if (server.api_keys_file.empty()) {
    LOG_INFO("API keys: off, whoever reaches {} is served (--api-keys FILE); {}", server.host,
             server.admin_key.empty() ? "nobody may load adapters (--admin-key)"
                                      : "the admin key may load adapters");
  } else {
    LOG_INFO("API keys: on, those of {}", server.api_keys_file);
  }
}

void LogStart(const ServeOptions& options, const LoadedModel& model, Runtime& runtime,
              uint16_t port, int64_t begin_ns) {
  const ExecutorLimits& limits = runtime.limits();
  LOG_INFO("{} on {} in {}: {:.0f} MiB of weights, {} threads", model.name,
           DescribeDevice(model.device), DTypeName(model.weights.dtype),
           static_cast<double>(model.weights.bytes()) / (1 << 20), model.threads->num_threads());
  constexpr double kMib = 1 << 20;
  LOG_INFO(
      "{} adapters, {} of them in memory ({:.0f} MiB); page pool of {} x {} tokens ({:.0f} MiB); "
      "context {}",
      runtime.catalog().List().size(), runtime.host_store().num_adapters(),
      static_cast<double>(runtime.host_store().bytes()) / kMib, limits.num_pages,
      limits.page_tokens, static_cast<double>(runtime.pool_bytes()) / kMib,
      runtime.engine().limits().context_tokens_max);
  LogAccess(options.server);
  LOG_INFO("serving on {}://{}:{} after {:.2f} s",
           options.server.tls_cert_file.empty() ? "http" : "https", options.server.host, port,
           NsToSeconds(SteadyClock::Get().NowNs() - begin_ns));
}

// On SIGHUP. A mistake in a file is logged, and what was in force stays.
void Reload(HttpServer& server) {
  NotifyService(ReloadingState());
  const Status status = server.Reload();
  if (status.ok()) {
    LOG_INFO("keys and certificates are read anew");
  } else {
    LOG_ERROR("reading keys and certificates anew: {}; the former ones stay in force",
              status.message());
  }
  NotifyService("READY=1");
}

Status RunServe(const ServeOptions& options) {
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  StopSignals signals;  // before the log's thread
  ASSIGN_OR_RETURN(const auto log, ServerLog::Begin({.level = options.runtime.log_level,
                                                     .format = options.log_format}));
  const bool quiet = options.quiet || options.runtime.log_level != "info";
  ASSIGN_OR_RETURN(const auto model, LoadModel(options.runtime, quiet));
  ASSIGN_OR_RETURN(const auto tokenizer,
                   Tokenizer::Load(options.runtime.model, options.tokenizer_rules));
  const std::string beyond = tokenizer->TokensBeyond(model->config.vocab_size);
  if (!beyond.empty()) LOG_WARN("{}", beyond);
  const Result<std::optional<ChatTemplate>> chat_template =
      ChatTemplate::Load(options.runtime.model);
  if (!chat_template.ok()) {
    LOG_WARN("chat is not served: {}: {}", options.runtime.model, chat_template.status().message());
  }
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(options.runtime, *model, /*lora=*/true));
  RETURN_IF_ERROR(runtime->LoadAdapters());
  runtime->RecordGraphs(quiet);

  GenerationDefaults defaults;
  if (options.generation_config == GenerationConfig::kAuto) {
    ASSIGN_OR_RETURN(defaults, LoadGenerationDefaults(options.runtime.model));
  }
  const Result<std::string> adapters_dir = ResolveInside(options.runtime.adapters, ".");
  const bool has_template = chat_template.ok() && chat_template->has_value();
  ServerOptions server_options = options.server;
  server_options.body_bytes_total_max = options.bodies_mib << 20;
  HttpServer server({.generator = runtime->engine(),
                     .catalog = runtime->catalog(),
                     .tokenizer = *tokenizer,
                     .chat_template = has_template ? &**chat_template : nullptr,
                     .chat_template_error = chat_template.status().message(),
                     .special_tokens_in_content = options.special_tokens_in_content,
                     .metrics = runtime->metrics(),
                     .clock = SteadyClock::Get(),
                     .base_model = model->name,
                     .adapters_dir = adapters_dir.ok() ? *adapters_dir : "",
                     .defaults = std::move(defaults),
                     .ready = {}},
                    std::move(server_options));
  signals.BeginServing();
  runtime->engine().Start();
  RETURN_IF_ERROR(server.Start());
  LogStart(options, *model, *runtime, server.port(), begin_ns);
  signals.OnReload([&server] { Reload(server); });
  NotifyService("READY=1");

  const int signal = signals.Wait();
  signals.OnReload({});
  NotifyService("STOPPING=1");
  LOG_INFO("{}: finishing what is in flight, {} s at most", strsignal(signal),
           options.drain_seconds);
  server.Shutdown(std::chrono::seconds(options.drain_seconds));
  runtime->engine().Stop();
  LOG_INFO("stopped");
  return OkStatus();
}

OptionGroup ServerOptionGroup(ServeOptions& options) {
  ServerOptions& server = options.server;
  return {
      "Server",
      {{"host", Text(server.host), "address to listen on"},
       {"port", Number(server.port), "0: any free one"},
       {"http-threads", Number(server.threads_max, Between(1, 256)),
        "threads for sockets, and as many for long bodies",
        "an eighth of the machine's threads, 2 to 8"},
       {"api-keys", Text(server.api_keys_file),
        "JSON file of keys: tenant, adapters, rates (docs/http-api.md)"},
       {"admin-key", Text(server.admin_key), "key that may load and unload adapters"},
       {"tls-cert", Text(server.tls_cert_file), "PEM certificate chain"},
       {"tls-key", Text(server.tls_key_file), "PEM private key"},
       {"cors-allow-origin", Text(server.cors_allow_origin),
        "* or one origin whose pages may call"},
       {"allowed-hosts", Texts(server.allowed_hosts),
        "a name that a Host header may have, * for any; may be repeated",
        "any; this machine's own names if it alone reaches the server and no key is needed"},
       {"bodies-mib", Number(options.bodies_mib, Between(16, 1 << 20)),
        "MiB of all requests' bodies together"},
       {"connections-max", Number(server.connections_max, AtLeast(1)), "open connections"},
       {"metrics-need-admin", Switch(server.metrics_need_admin), "/metrics asks for the admin key"},
       {"generation-config", OneOf(options.generation_config, kGenerationConfigWords),
        "auto: the model's generation_config.json says how to draw where a request does not; none: "
        "OpenAI's defaults"},
       {"tokenizer-rules", OneOf(options.tokenizer_rules, kTokenizerRulesWords),
        kTokenizerRulesHelp},
       {"special-tokens-in-content", Switch(options.special_tokens_in_content),
        "special tokens that messages spell out are special tokens, with which they can forge "
        "turns"},
       {"drain-seconds", Number(options.drain_seconds, AtLeast(0)),
        "after SIGTERM, for requests in flight"},
       {"log-format", OneOf(options.log_format, kLogFormatWords), "of the lines on stderr"},
       {"request-log", Boolean(server.logs_requests), "a line of the log for each request"},
       {"quiet", Switch(options.quiet), "no progress bars"}}};
}

}  // namespace

Command ServeCommand() {
  const auto options = std::make_shared<ServeOptions>();  // lives as long as the command
  std::vector<OptionGroup> groups = RuntimeOptionGroups(options->runtime);
  groups.push_back(ServerOptionGroup(*options));
  return {.name = "serve",
          .help =
              "Serve a model and its adapters over OpenAI's HTTP API.\n"
              "  graft serve --model demo/base --adapters demo/adapters\n"
              "  curl localhost:8000/v1/completions -H 'Content-Type: application/json' \\\n"
              "       -d '{\"model\": \"austen\", \"prompt\": \"It was\", \"max_tokens\": 20}'",
          .groups = std::move(groups),
          .run = [options] { return RunServe(*options); }};
}

}  // namespace graft
