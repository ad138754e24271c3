// The server's own metrics: requests by route and status, times, connections. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/metrics.h"
#include "dashboard/tenant_series.h"
#include "request/fleet_figures.h"

namespace graft {

class HttpMetrics {
 public:
  explicit HttpMetrics(Metrics& metrics);

  void ConnectionOpened() { connections_.Increment(); }
  void ConnectionClosed() { connections_.Decrement(); }
  void ConnectionRefused() { connections_refused_.Increment(); }
  void IdleConnectionClosed() { idle_closed_.Increment(); }
  // A client that did not read its answer was cut off.
  void WriteTimedOut() { write_timeouts_.Increment(); }
  void RequestStarted() { in_flight_.Increment(); }
  // `route` is a name of few: its series stays.
  void RequestEnded(const char* route, int status, double seconds);
  // The client went away before its answer was complete.
  void ClientGone() { clients_gone_.Increment(); }
  // Counts the tokens of a request for text that has ended.
  void AddTokens(int64_t prompt_tokens, int64_t output_tokens);
  // Sets the figures that are read only when the metrics are asked for.
  void Sample(int64_t body_bytes, int64_t log_lines_dropped);
  void SampleFleet(const FleetFigures& fleet);
  TenantSeries& tenants() { return tenants_; }
  // From arrival to the first token, of generation requests.
  void FirstToken(const char* route, double seconds);

 private:
  Metrics& metrics_;
  prometheus::Gauge& connections_;
  prometheus::Counter& connections_refused_;
  prometheus::Counter& idle_closed_;
  prometheus::Gauge& in_flight_;
  prometheus::Counter& clients_gone_;
  prometheus::Counter& write_timeouts_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& output_tokens_;
  prometheus::Gauge& body_bytes_;
  std::mutex sample_mutex_;
  prometheus::Counter& log_lines_dropped_;
  TenantSeries tenants_;
};

}  // namespace graft
