// SpanExporter sends spans to a collector by OTLP over HTTP, in batches, on a thread of its own.
// Adding a span never waits for the network: spans that do not fit into the queue, or that the
// collector does not take, are dropped and counted. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "request/request_times.h"
#include "trace/http_post.h"
#include "trace/span.h"

namespace graft {

struct SpanExporterOptions {
  std::string endpoint;  // "http://HOST:4318"; "/v1/traces" is added to it
  TraceResource resource;
  size_t queue_max = 8192;  // spans, or requests' times
  size_t batch_max = 512;   // of them in one message
  std::chrono::milliseconds interval{1000};
  std::chrono::milliseconds timeout{3000};
  // After a failure nothing is sent for so long, twice as long after the next one, and so on.
  std::chrono::milliseconds pause{1000};
  std::chrono::milliseconds pause_max{30'000};
};

class SpanExporter {
 public:
  // kInvalidArgument with what an endpoint must be.
  static Result<std::unique_ptr<SpanExporter>> Start(SpanExporterOptions options, Metrics& metrics);
  ~SpanExporter();  // sends what is there, if the collector answers in time

  void Add(Span span);
  // Its spans are made on the exporter's thread.
  void Add(RequestTimes times);

 private:
  using Entry = std::variant<Span, RequestTimes>;

  SpanExporter(SpanExporterOptions options, HttpTarget target, Metrics& metrics);
  void Push(Entry entry);
  void Loop();
  bool Send(const std::vector<Span>& spans);
  std::vector<Span> SpansOf(std::vector<Entry> entries) const;
  void Failed(const std::string& why);

  const SpanExporterOptions options_;
  const HttpTarget target_;
  prometheus::Counter& sent_;
  prometheus::Counter& dropped_;
  std::chrono::milliseconds pause_{0};  // the thread's; 0: the last batch was taken

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Entry> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace graft
