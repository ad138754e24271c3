// graft serve: the model and its adapters over HTTP until a signal ends it.
#include <memory>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/server_log.h"
#include "cli/commands.h"
#include "cli/foreign_flags.h"
#include "cli/http_front.h"
#include "cli/source_options.h"
#include "cli/start_checks.h"
#include "cli/tracing.h"
#include "runtime/named_model.h"
#include "runtime/runtime.h"
#include "runtime/weights_kept.h"
#include "tuning/learning_service.h"

namespace graft {
namespace {

struct ServeOptions {
  RuntimeOptions runtime;
  HttpFrontOptions http;
  LearningOptions learning;
  SourceFlags sources;
};

void LogStart(const ServeOptions& options, const LoadedModel& model, Runtime& runtime,
              uint16_t port, int64_t begin_ns) {
  const ExecutorLimits& limits = runtime.limits();
  const int num_threads = model.threads->num_threads();
  LOG_INFO("{} on {} in {}: {:.0f} MiB of weights, {} thread{}", model.name,
           DescribeDevice(model.device), ServedWeightsText(model.config, model.weights.types),
           static_cast<double>(model.weights.bytes()) / (1 << 20), num_threads,
           num_threads == 1 ? "" : "s");
  constexpr double kMib = 1 << 20;
  LOG_INFO(
      "{} adapters, {} of them in memory ({:.0f} MiB); page pool of {} x {} tokens ({:.0f} MiB); "
      "context {}",
      runtime.catalog().List().size(), runtime.host_store().num_adapters(),
      static_cast<double>(runtime.host_store().bytes()) / kMib, limits.num_pages,
      limits.page_tokens, static_cast<double>(runtime.pool_bytes()) / kMib,
      runtime.engine().limits().context_tokens_max);
  LogAccess(options.http.server);
  LOG_INFO("{} after {:.2f} s", DescribeServing(options.http.server, port),
           NsToSeconds(SteadyClock::Get().NowNs() - begin_ns));
}

// What a large model would be fetched and loaded in vain for comes before it.
Status FindModel(ServeOptions& options, PreparedSources* sources) {
  ASSIGN_OR_RETURN(*sources, PreparedSources::Read(options.sources));
  RETURN_IF_ERROR(CheckAddress(options.http.server.host, options.http.server.port));
  RETURN_IF_ERROR(CheckFiles(options.http.server));
  RETURN_IF_ERROR(FindNamedModel(options.http.quiet, &options.runtime));
  options.runtime.fetched = sources->roots();
  return OkStatus();
}

Status RunServe(ServeOptions& options) {
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  PreparedSources sources;
  RETURN_IF_ERROR(InLogsForm(options.runtime.log, FindModel(options, &sources)));
  ASSIGN_OR_RETURN(const auto ranks, RankProcesses::Start(options.runtime));  // before any thread
  StopSignals signals;  // before the log's thread
  ASSIGN_OR_RETURN(const auto log, ServerLog::Begin(options.runtime.log));
  const bool quiet = options.http.quiet || options.runtime.log.level != "info";
  RuntimeOptions served = options.runtime;
  ASSIGN_OR_RETURN(const ModelConfig config, CheckFolders(served));
  ASSIGN_OR_RETURN(const ModelText text,
                   LoadModelText(served.model, config.vocab_size, options.http));
  ASSIGN_OR_RETURN(const auto learning, LearningService::Create(options.learning, &served));
  ASSIGN_OR_RETURN(const auto model, LoadModel(served, quiet, {}, ranks.get()));
  if (learning != nullptr) learning->SetModel(*model);
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(served, *model, /*lora=*/true));
  RETURN_IF_ERROR(runtime->LoadAdapters());
  runtime->RecordGraphs(quiet);
  const Result<std::string> adapters_dir = ResolveInside(options.runtime.adapters, ".");
  // The engine's thread, which ends with the runtime, is the last one to use it.
  ASSIGN_OR_RETURN(const std::shared_ptr<SpanExporter> spans,
                   StartTracing(options.http.otlp_endpoint, "server", runtime->metrics()));
  if (spans != nullptr) {
    runtime->engine().SetOnTimes([spans](RequestTimes times) { spans->Add(std::move(times)); });
  }
  if (ranks != nullptr) ranks->BeginServing();
  signals.BeginServing();
  runtime->engine().Start();
  if (learning != nullptr) RETURN_IF_ERROR(learning->Start(*runtime, *text.tokenizer));
  ApiContext context = ApiContextOf(options.http, text, runtime->engine(), runtime->catalog(),
                                    runtime->metrics(), model->name);
  if (adapters_dir.ok()) context.adapters_dir = *adapters_dir;
  context.base_revision = served.model_revision;
  context.adapters_max = runtime->limits().adapters_max;
  std::unique_ptr<AdapterSupply> supply = sources.Start(runtime->catalog());
  context.sources = supply.get();
  context.spans = spans.get();
  if (learning != nullptr) context.learning = &learning->jobs();
  const Status status = ServeHttp(
      options.http, signals, std::move(context),
      {.on_server = {},
       .on_started = [&](uint16_t port) { LogStart(options, *model, *runtime, port, begin_ns); },
       .on_stopped =
           [&] {
             supply.reset();  // the connections that wait for it are there until this returns
             if (learning != nullptr) learning->Stop();
             runtime->engine().Stop();
           }});
  // The thread that learns uses the engine and the catalog, which go first. (Where serving never
  // began, they have not been stopped.)
  if (learning != nullptr) learning->Stop();
  runtime->engine().Stop();
  return status;
}

}  // namespace

Command ServeCommand() {
  const auto options = std::make_shared<ServeOptions>();  // lives as long as the command
  std::vector<OptionGroup> groups = RuntimeOptionGroups(options->runtime);
  groups.push_back(HttpFrontOptionGroup(options->http, options->runtime.log.format));
  groups.push_back(SourceOptionGroup(options->sources));
  groups.push_back(LearningOptionGroup(options->learning));
  return {.name = "serve",
          .help =
              "Serve a model and its adapters over OpenAI's HTTP API.\n"
              "  graft serve --model demo/base --adapters demo/adapters\n"
              "  curl localhost:8000/v1/completions -H 'Content-Type: application/json' \\\n"
              "       -d '{\"model\": \"austen\", \"prompt\": \"It was\", \"max_tokens\": 20}'",
          .groups = std::move(groups),
          .run = [options] { return RunServe(*options); },
          .foreign_flags = VllmFlags()};
}

}  // namespace graft
