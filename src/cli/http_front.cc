#include "cli/http_front.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/host_port.h"
#include "base/log.h"
#include "base/server_log.h"
#include "cli/service_notify.h"
#include "cli/tracing.h"
#include "runtime/runtime_options.h"

namespace graft {
namespace {

constexpr OptionWord<GenerationConfig> kGenerationConfigWords[] = {
    {GenerationConfig::kAuto, "auto"}, {GenerationConfig::kNone, "none"}};

constexpr OptionWord<Pooling> kPoolingWords[] = {{Pooling::kLast, "last"},
                                                 {Pooling::kMean, "mean"}};

using OptionalToolFormat = std::optional<ToolFormat>;
using OptionalReasoningFormat = std::optional<ReasoningFormat>;

constexpr OptionWord<OptionalToolFormat> kToolFormatWords[] = {
    {std::nullopt, "auto"},
    {ToolFormat::kNone, "none"},
    {ToolFormat::kHermes, "hermes"},
    {ToolFormat::kLlama, "llama3_json"},
    {ToolFormat::kMistral, "mistral"},
    {ToolFormat::kDeepSeek, "deepseek"},
    {ToolFormat::kPythonic, "pythonic"},
    {ToolFormat::kGemma, "gemma"},
    {ToolFormat::kQwenCoder, "qwen3_coder"},
    {ToolFormat::kGlm, "glm45"}};

constexpr OptionWord<OptionalReasoningFormat> kReasoningFormatWords[] = {
    {std::nullopt, "auto"},
    {ReasoningFormat::kNone, "none"},
    {ReasoningFormat::kThink, "think"},
    {ReasoningFormat::kMistral, "mistral"}};

// How the model writes calls and reasoning: as the options say, else as its template shows.
void ChooseFormats(const HttpFrontOptions& options, ModelText* text) {
  const std::string shown =
      text->chat_template.has_value() ? text->chat_template->tool_source() : "";
  text->tool_format = options.tool_format.value_or(DetectToolFormat(shown));
  text->reasoning_format = options.reasoning_format.value_or(DetectReasoningFormat(shown));
  LOG_INFO("calls of tools are read as {}, reasoning as {} (--tool-parser, --reasoning-parser)",
           WordOf(OptionalToolFormat(text->tool_format), kToolFormatWords),
           WordOf(OptionalReasoningFormat(text->reasoning_format), kReasoningFormatWords));
}

// On SIGHUP. A mistake in a file is said, and what was in force stays so.
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

// Threads still do unwanted work with objects that are destroyed next. So the process ends without
// waiting for them, once the log is written.
[[noreturn]] void LeaveAtOnce() {
  constexpr std::chrono::seconds kLogTime{1};
  ServerLog::Flush(kLogTime);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

// A server that is open to all callers is no mistake on one's own machine, but is one elsewhere.
void LogAccess(const ServerOptions& server) {
  if (server.api_keys_file.empty()) {
    LOG_INFO("API keys: off, whoever reaches {} is served (--api-keys FILE); {}", server.host,
             server.admin_key.empty() ? "nobody may load adapters (--admin-key)"
                                      : "the admin key may load adapters");
  } else {
    LOG_INFO("API keys: on, those of {}", server.api_keys_file);
  }
}

std::string DescribeServing(const ServerOptions& server, uint16_t port) {
  return std::string("serving on ") + (server.tls_cert_file.empty() ? "http" : "https") + "://" +
         HostAndPort(server.host, port);
}

Result<ModelText> LoadModelText(const std::string& folder, int32_t vocab_size,
                                const HttpFrontOptions& options) {
  ModelText text;
  ASSIGN_OR_RETURN(text.tokenizer, Tokenizer::Load(folder, options.tokenizer_rules));
  const std::string beyond = text.tokenizer->TokensBeyond(vocab_size);
  if (!beyond.empty()) LOG_WARN("{}", beyond);
  Result<std::optional<ChatTemplate>> chat_template = ChatTemplate::Load(folder);
  if (chat_template.ok()) {
    text.chat_template = std::move(*chat_template);
  } else {
    text.chat_template_error = chat_template.status().message();
    LOG_WARN("chat is not served: {}: {}", folder, text.chat_template_error);
  }
  ChooseFormats(options, &text);
  if (options.generation_config == GenerationConfig::kAuto) {
    ASSIGN_OR_RETURN(text.defaults, LoadGenerationDefaults(folder));
    for (const std::string& ignored : text.defaults.ignored) {
      LOG_WARN("{}/generation_config.json: {}; it is ignored", folder, ignored);
    }
  }
  return text;
}

ApiContext ApiContextOf(const HttpFrontOptions& options, const ModelText& text,
                        Generator& generator, AdapterCatalog& catalog, Metrics& metrics,
                        const std::string& base_model) {
  return {.generator = generator,
          .catalog = catalog,
          .tokenizer = *text.tokenizer,
          .chat_template = text.chat_template.has_value() ? &*text.chat_template : nullptr,
          .chat_template_error = text.chat_template_error,
          .special_tokens_in_content = options.special_tokens_in_content,
          .tool_format = text.tool_format,
          .reasoning_format = text.reasoning_format,
          .adapter_templates =
              std::make_shared<AdapterTemplates>(options.tool_format, options.reasoning_format),
          .metrics = metrics,
          .clock = SteadyClock::Get(),
          .base_model = base_model,
          .defaults = text.defaults};
}

Status ServeHttp(const HttpFrontOptions& options, StopSignals& signals, ApiContext context,
                 const HttpFrontCalls& calls) {
  HttpServer server(std::move(context), options.server);
  RETURN_IF_ERROR(server.Start());
  calls.on_started(server.port());
  if (calls.on_server) calls.on_server(&server);
  signals.OnReload([&server] { Reload(server); });
  NotifyService("READY=1");

  const int signal = signals.Wait();
  signals.OnReload({});
  if (calls.on_server) calls.on_server(nullptr);
  NotifyService("STOPPING=1");
  LOG_INFO("{}: finishing what is in flight, {} s at most", strsignal(signal),
           options.drain_seconds);
  const bool all_ended = server.Shutdown(std::chrono::seconds(options.drain_seconds));
  if (calls.on_stopped) calls.on_stopped();
  LOG_INFO("stopped");
  if (!all_ended) LeaveAtOnce();
  return OkStatus();
}

OptionGroup HttpFrontOptionGroup(HttpFrontOptions& options, LogFormat& log_format) {
  ServerOptions& server = options.server;
  return {
      "Server",
      {{"host", Host(server.host), "address to listen on"},
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
       {"bodies-mib", NumberIn(kMibInBytes, server.body_bytes_total_max, Between(16, 1 << 20)),
        "MiB of all requests' bodies and of answers that wait to be read"},
       {"pooling", OneOf(server.pooling, kPoolingWords),
        "what /v1/embeddings make of a text's hidden states: last: those of its last token; mean: "
        "their mean"},
       {"responses-stored-max", Number(server.responses.tenant_responses_max, AtLeast(0)),
        "responses of /v1/responses that a tenant may read again and go on from; 0: none"},
       {"responses-mib", NumberIn(kMibInBytes, server.responses.bytes_max, Between(64, 1 << 20)),
        "MiB of all stored responses together"},
       {"responses-hours",
        NumberIn(kHourInSeconds, server.responses.age_seconds_max, Between(1, 24 * 365)),
        "how long a response is stored since it was last used"},
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
       {"tool-parser", OneOf(options.tool_format, kToolFormatWords),
        "how the model writes calls of tools; auto: as its chat template shows"},
       {"reasoning-parser", OneOf(options.reasoning_format, kReasoningFormatWords),
        "how the model writes its reasoning; auto: as its chat template shows"},
       {"drain-seconds", Number(options.drain_seconds, AtLeast(0)),
        "after SIGTERM, for requests in flight"},
       LogFormatOptionRow(log_format),
       {"request-log", Boolean(server.logs_requests), "a line of the log for each request"},
       OtlpEndpointRow(options.otlp_endpoint),
       {"quiet", Switch(options.quiet), "no progress bars"}}};
}

}  // namespace graft
