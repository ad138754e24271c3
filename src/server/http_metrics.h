// The server's own metrics: requests by route and status, times, connections. Thread-safe.
#pragma once

#include <cstdint>

#include "base/metrics.h"
#include "server/routes.h"

namespace graft {

class HttpMetrics {
 public:
  explicit HttpMetrics(Metrics& metrics);

  void ConnectionOpened() { connections_.Increment(); }
  void ConnectionClosed() { connections_.Decrement(); }
  void ConnectionRefused() { connections_refused_.Increment(); }
  void RequestStarted() { in_flight_.Increment(); }
  void RequestEnded(Route route, int status, double seconds);
  // The client went away before its answer was complete.
  void ClientGone() { clients_gone_.Increment(); }
  // From arrival to the first token, of generation requests.
  void FirstToken(Route route, double seconds);

 private:
  Metrics& metrics_;
  prometheus::Gauge& connections_;
  prometheus::Counter& connections_refused_;
  prometheus::Gauge& in_flight_;
  prometheus::Counter& clients_gone_;
};

}  // namespace graft
