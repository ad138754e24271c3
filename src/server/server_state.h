// What all connections of one server share. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dashboard/dashboard.h"
#include "dashboard/http_metrics.h"
#include "dashboard/models_in_flight.h"
#include "http/idle_connections.h"
#include "keys/api_keys.h"
#include "keys/shared_places.h"
#include "openai/api_context.h"
#include "openai/responses/response_store.h"
#include "request/request.h"
#include "server/server_options.h"

namespace graft {

// Counts the work going on, for a thread that waits until there is none.
class InFlightCounter {
 public:
  // One of them, while it lives.
  class Held {
   public:
    explicit Held(InFlightCounter& counter) : counter_(counter) { counter_.Add(); }
    ~Held() { counter_.Remove(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    InFlightCounter& counter_;
  };

  void Add() {
    std::lock_guard lock(mutex_);
    ++count_;
  }
  void Remove() {
    std::lock_guard lock(mutex_);
    if (--count_ == 0) none_left_.notify_all();
  }
  int64_t count() const {
    std::lock_guard lock(mutex_);
    return count_;
  }
  // Whether the count came to zero in time.
  bool WaitForNone(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return none_left_.wait_for(lock, timeout, [&] { return count_ == 0; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable none_left_;
  int64_t count_ = 0;
};

struct ServerState {
  ServerState(ApiContext api_context, ServerOptions server_options)
      : context(std::move(api_context)),
        options(std::move(server_options)),
        keys(context.clock),
        memory(options.body_bytes_total_max, context.clock),
        busy_connections(options.connections_max, context.clock),
        responses(context.clock, options.responses),
        metrics(context.metrics),
        dashboard(std::make_unique<Dashboard>(DashboardParts{.metrics = context.metrics,
                                                             .catalog = context.catalog,
                                                             .base_model = context.base_model,
                                                             .num_holders = context.num_holders,
                                                             .learning = context.learning})),
        start_time(UnixTimeSeconds()) {}

  const ApiContext context;
  const ServerOptions options;
  ApiKeys keys;
  std::vector<std::string> served_hosts;  // see ServedHosts; set before the threads start
  SharedPlaces memory;            // bytes of requests' bodies, of their trees, and of answers
  SharedPlaces busy_connections;  // that answer a request, and make room for no newcomer
  ResponseStore responses;
  HttpMetrics metrics;
  const std::unique_ptr<Dashboard> dashboard;
  const int64_t start_time;  // Unix seconds; the base model's `created`
  // These run work that may take long on another thread. run_on_worker: a long body's work, in
  // turns with other clients' by its bytes (WorkQueue::Run). run_on_loader: loads and unloads of
  // adapters, which take turns. Reading a folder may take long, and no request for text should wait
  // for that.
  using Runner = std::function<void(std::function<void()>)>;
  using WorkRunner = std::function<void(uint64_t owner, int64_t bytes, std::function<void()>)>;
  WorkRunner run_on_worker;
  Runner run_on_loader;
  std::atomic<bool> draining{false};
  std::atomic<uint64_t> next_request_id{1};
  IdleConnections idle;
  InFlightCounter requests;
  ModelsInFlight models_in_flight;  // of the requests for text
  InFlightCounter connections;
};

}  // namespace graft
