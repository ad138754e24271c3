#include "trace/span_exporter.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "trace/span.h"

namespace graft {
namespace {

int64_t UnixOffsetNs() {
  const int64_t unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                              std::chrono::system_clock::now().time_since_epoch())
                              .count();
  return unix_ns - SteadyClock::Get().NowNs();
}

prometheus::Counter& SpansCounter(Metrics& metrics, const char* outcome) {
  return metrics.Counter("graft_otlp_spans_total",
                         "Spans that the collector took, and those dropped because it did not or "
                         "the queue was full",
                         {{"outcome", outcome}});
}

}  // namespace

Result<std::unique_ptr<SpanExporter>> SpanExporter::Start(SpanExporterOptions options,
                                                          Metrics& metrics) {
  if (options.endpoint.starts_with("https://")) {
    return InvalidArgumentError(
        "--otlp-endpoint: spans are sent over http alone; run a collector on this machine or in "
        "its "
        "network, and let it send them on over https");
  }
  Result<HttpTarget> target = ParseHttpTarget(options.endpoint);
  if (!target.ok()) return target.status().WithContext("--otlp-endpoint");
  while (target->path.ends_with('/')) target->path.pop_back();
  target->path += "/v1/traces";
  return std::unique_ptr<SpanExporter>(
      new SpanExporter(std::move(options), std::move(*target), metrics));
}

SpanExporter::SpanExporter(SpanExporterOptions options, HttpTarget target, Metrics& metrics)
    : options_(std::move(options)),
      target_(std::move(target)),
      sent_(SpansCounter(metrics, "sent")),
      dropped_(SpansCounter(metrics, "dropped")) {
  queue_.reserve(options_.queue_max);
  thread_ = std::thread([this] { Loop(); });
}

SpanExporter::~SpanExporter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void SpanExporter::Add(Span span) { Push(std::move(span)); }
void SpanExporter::Add(RequestTimes times) { Push(std::move(times)); }

void SpanExporter::Push(Entry entry) {
  {
    std::lock_guard lock(mutex_);
    if (queue_.size() < options_.queue_max) {
      queue_.push_back(std::move(entry));
      if (queue_.size() != options_.batch_max) return;
    } else {
      dropped_.Increment();
      return;
    }
  }
  wake_.notify_one();
}

void SpanExporter::Loop() {
  NameThread("spans");
  std::unique_lock lock(mutex_);
  while (true) {
    const auto wait = std::max(options_.interval, pause_);
    wake_.wait_for(lock, wait, [this] {
      return stopping_ || (pause_.count() == 0 && queue_.size() >= options_.batch_max);
    });
    const bool is_last = stopping_;
    std::vector<Entry> entries;
    entries.reserve(options_.queue_max);
    entries.swap(queue_);
    lock.unlock();
    bool is_there = true;
    for (size_t begin = 0; begin < entries.size(); begin += options_.batch_max) {
      const size_t end = std::min(begin + options_.batch_max, entries.size());
      const std::vector<Span> spans =
          SpansOf({std::make_move_iterator(entries.begin() + static_cast<ptrdiff_t>(begin)),
                   std::make_move_iterator(entries.begin() + static_cast<ptrdiff_t>(end))});
      // If the collector is away, one batch is enough to wait for.
      is_there = is_there && Send(spans);
      (is_there ? sent_ : dropped_).Increment(static_cast<double>(spans.size()));
    }
    if (is_last) return;
    lock.lock();
  }
}

std::vector<Span> SpanExporter::SpansOf(std::vector<Entry> entries) const {
  std::vector<Span> spans;
  for (Entry& entry : entries) {
    if (auto* const span = std::get_if<Span>(&entry)) {
      spans.push_back(std::move(*span));
      continue;
    }
    for (Span& span : graft::SpansOf(std::get<RequestTimes>(entry))) {
      spans.push_back(std::move(span));
    }
  }
  return spans;
}

bool SpanExporter::Send(const std::vector<Span>& spans) {
  if (spans.empty()) return true;
  const Result<int> status =
      PostJson(target_, OtlpJson(options_.resource, spans, UnixOffsetNs()), options_.timeout);
  if (!status.ok() || *status / 100 != 2) {
    Failed(status.ok() ? "it answers " + std::to_string(*status) : status.status().message());
    return false;
  }
  if (pause_.count() > 0) LOG_INFO("the collector at {} takes spans again", options_.endpoint);
  pause_ = std::chrono::milliseconds(0);
  return true;
}

void SpanExporter::Failed(const std::string& why) {
  if (pause_.count() == 0) {
    LOG_WARN("spans are dropped: the collector at {}: {}", options_.endpoint, why);
  }
  pause_ = pause_.count() == 0 ? options_.pause : std::min(2 * pause_, options_.pause_max);
}

}  // namespace graft
