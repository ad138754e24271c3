#include "server/http_metrics.h"

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
      in_flight_(metrics.Gauge("graft_http_requests_in_flight",
                               "Requests being read, worked on or answered.")),
      clients_gone_(metrics.Counter("graft_http_clients_gone_total",
                                    "Requests whose client left before the answer's end.")) {}

void HttpMetrics::RequestEnded(Route route, int status, double seconds) {
  in_flight_.Decrement();
  metrics_
      .Counter("graft_http_requests_total", "Requests answered, by route and status.",
               {{"route", RouteName(route)}, {"status", std::to_string(status)}})
      .Increment();
  metrics_
      .Histogram("graft_http_request_seconds", "From a request's head to its answer's end.",
                 SecondsBounds(), {{"route", RouteName(route)}})
      .Observe(seconds);
}

void HttpMetrics::FirstToken(Route route, double seconds) {
  metrics_
      .Histogram("graft_http_first_token_seconds",
                 "From a request's submission to its first token.", SecondsBounds(),
                 {{"route", RouteName(route)}})
      .Observe(seconds);
}

}  // namespace graft
