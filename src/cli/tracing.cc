#include "cli/tracing.h"

#include <unistd.h>

#include <utility>

#include "base/log.h"

namespace graft {
namespace {

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace

Option OtlpEndpointRow(std::string& endpoint) {
  return {"otlp-endpoint", Text(endpoint),
          "http://HOST:PORT of an OpenTelemetry collector that is sent traces of requests",
          "requests are not traced"};
}

Result<std::unique_ptr<SpanExporter>> StartTracing(const std::string& endpoint,
                                                   const std::string& role, Metrics& metrics) {
  if (endpoint.empty()) return std::unique_ptr<SpanExporter>();
  const std::string host = HostName();
  const std::string pid = std::to_string(::getpid());
  SpanExporterOptions options;
  options.endpoint = endpoint;
  options.resource = {{"service.name", "graft"},
                      {"service.version", GRAFT_VERSION},
                      {"service.instance.id", host + ":" + pid},
                      {"host.name", host},
                      {"graft.role", role}};
  ASSIGN_OR_RETURN(auto exporter, SpanExporter::Start(std::move(options), metrics));
  LOG_INFO("requests are traced: spans go to {}", endpoint);
  return exporter;
}

}  // namespace graft
