// One request on a connection, and what is known about its answer. Internal to the connection's
// files; belongs to its strand.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "dashboard/models_in_flight.h"
#include "keys/shared_places.h"
#include "server/connection.h"
#include "server/request_log.h"
#include "server/request_trace.h"

namespace graft {

struct Connection::Exchange {
  HttpRequest* request = nullptr;
  RouteMatch match;
  std::shared_ptr<ApiKey> key;                  // null: the endpoint needs none
  MeterLease place;                             // among the key's requests
  std::optional<PlacesLease> connection_place;  // among the connections that answer
  std::optional<PlacesLease> memory;            // of its body, what is made of it, and its answer
  int64_t num_bytes = 0;                        // that `memory` holds
  RequestRecord record;                         // for the log
  std::optional<RequestTrace> trace;
  int64_t start_ns = 0;
  bool keep_alive = false;
  bool head_sent = false;
  std::optional<ModelsInFlight::Ticket> ticket;  // of a request for text
};

}  // namespace graft
