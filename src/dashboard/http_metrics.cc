#include "dashboard/http_metrics.h"

#include <string>
#include <vector>

namespace graft {
namespace {

const std::vector<double>& SecondsBounds() {
  static const std::vector<double> bounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                             0.5,   1,      2.5,   5,    10,    30,   60,  300};
  return bounds;
}

}  // namespace

HttpMetrics::HttpMetrics(Metrics& metrics)
    : metrics_(metrics),
      connections_(metrics.Gauge("graft_http_connections", "Open connections.")),
      connections_refused_(metrics.Counter("graft_http_connections_refused_total",
                                           "Connections refused because there were too many.")),
      idle_closed_(metrics.Counter("graft_http_idle_closed_total",
                                   "Waiting connections closed to make room for new ones.")),
      in_flight_(metrics.Gauge("graft_http_requests_in_flight",
                               "Requests being read, worked on or answered.")),
      clients_gone_(metrics.Counter("graft_http_clients_gone_total",
                                    "Requests whose client left before the answer's end.")),
      write_timeouts_(metrics.Counter("graft_http_write_timeouts_total",
                                      "Connections cut because the client did not read.")),
      prompt_tokens_(metrics.Counter("graft_http_prompt_tokens_total",
                                     "Tokens of the prompts of requests that have ended.")),
      output_tokens_(metrics.Counter("graft_http_output_tokens_total",
                                     "Tokens of the answers of requests that have ended.")),
      body_bytes_(metrics.Gauge("graft_http_body_bytes",
                                "Bytes of requests and answers over 64 KiB that are held.")),
      log_lines_dropped_(metrics.Counter("graft_log_lines_dropped_total",
                                         "Lines of the log that nobody read in time.")),
      tenants_(metrics) {}

void HttpMetrics::Sample(int64_t body_bytes, int64_t log_lines_dropped) {
  std::lock_guard lock(sample_mutex_);
  body_bytes_.Set(static_cast<double>(body_bytes));
  const double more = static_cast<double>(log_lines_dropped) - log_lines_dropped_.Value();
  if (more > 0) log_lines_dropped_.Increment(more);
}

void HttpMetrics::SampleFleet(const FleetFigures& fleet) {
  metrics_.Gauge("graft_runners", "Runners that take requests.").Set(fleet.runners);
  metrics_.Gauge("graft_runners_wanted", "Runners that there should be, for autoscalers.")
      .Set(fleet.runners_wanted);
  metrics_.Gauge("graft_runners_spare", "Runners that may be taken away.").Set(fleet.runners_spare);
  metrics_
      .Gauge("graft_runner_startup_seconds",
             "From a runner's order until it serves, as graft_runners_wanted counts with it.")
      .Set(fleet.startup_seconds);
}

void HttpMetrics::AddTokens(int64_t prompt_tokens, int64_t output_tokens) {
  prompt_tokens_.Increment(static_cast<double>(prompt_tokens));
  output_tokens_.Increment(static_cast<double>(output_tokens));
}

void HttpMetrics::RequestEnded(const char* route, int status, double seconds) {
  in_flight_.Decrement();
  metrics_
      .Counter("graft_http_requests_total", "Requests answered, by route and status.",
               {{"route", route}, {"status", std::to_string(status)}})
      .Increment();
  metrics_
      .Histogram("graft_http_request_seconds", "From a request's head to its answer's end.",
                 SecondsBounds(), {{"route", route}})
      .Observe(seconds);
}

void HttpMetrics::FirstToken(const char* route, double seconds) {
  metrics_
      .Histogram("graft_http_first_token_seconds",
                 "From a request's submission to its first token.", SecondsBounds(),
                 {{"route", route}})
      .Observe(seconds);
}

}  // namespace graft
