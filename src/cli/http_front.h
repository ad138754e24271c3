// What serve and frontend share: a model's tokenizer, template and settings, and OpenAI's API over
// whatever generates, until a signal ends it. Main thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log_format.h"
#include "cli/stop_signals.h"
#include "cli/tokenizer_rules.h"
#include "options/command.h"
#include "server/server.h"
#include "text/chat/chat_template.h"
#include "text/output/output_format.h"
#include "text/tokenizer.h"

namespace graft {

enum class GenerationConfig : uint8_t {
  kAuto,  // the model's file says how to draw where a request does not
  kNone,
};

struct HttpFrontOptions {
  ServerOptions server;
  int drain_seconds = 30;
  GenerationConfig generation_config = GenerationConfig::kAuto;
  TokenizerRules tokenizer_rules = TokenizerRules::kFile;
  bool special_tokens_in_content = false;
  // Empty: what the model's chat template shows.
  std::optional<ToolFormat> tool_format;
  std::optional<ReasoningFormat> reasoning_format;
  bool quiet = false;
  std::string otlp_endpoint;  // "": requests are not traced
};

OptionGroup HttpFrontOptionGroup(HttpFrontOptions& options, LogFormat& log_format);

// What turns a model's text into tokens and back.
struct ModelText {
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;
  std::string chat_template_error;  // "": the model has none, or it can be used
  ToolFormat tool_format = ToolFormat::kNone;
  ReasoningFormat reasoning_format = ReasoningFormat::kNone;
  GenerationDefaults defaults;
};
// Loads the text parts of an HF folder. The log says what is wrong with them.
Result<ModelText> LoadModelText(const std::string& folder, int32_t vocab_size,
                                const HttpFrontOptions& options);

// What the API serves by; the caller adds what its program alone has. Borrows all but the options.
ApiContext ApiContextOf(const HttpFrontOptions& options, const ModelText& text,
                        Generator& generator, AdapterCatalog& catalog, Metrics& metrics,
                        const std::string& base_model);

// What the caller does meanwhile. All but on_started may be empty.
struct HttpFrontCalls {
  // Once the port is open, and null before the server ends.
  std::function<void(HttpServer* server)> on_server;
  // Once the port is open: what the log says of the rest.
  std::function<void(uint16_t port)> on_started;
  // Once all requests have ended: what the process ends besides. Where work of a request goes on,
  // the process leaves when this returns.
  std::function<void()> on_stopped = {};
};

// Serves until a signal, then finishes what is in flight. Does not return where work of a request
// cannot be ended.
Status ServeHttp(const HttpFrontOptions& options, StopSignals& signals, ApiContext context,
                 const HttpFrontCalls& calls);

// "serving on http://...".
std::string DescribeServing(const ServerOptions& server, uint16_t port);
// Logs which callers are served.
void LogAccess(const ServerOptions& server);

}  // namespace graft
