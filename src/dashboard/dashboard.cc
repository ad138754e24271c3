#include "dashboard/dashboard.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/thread_name.h"

namespace graft {
namespace {

constexpr std::chrono::milliseconds kPointInterval(2000);
constexpr size_t kHistoryPoints = 3'600'000 / 2000;  // an hour
// Several pages that look at once share a snapshot.
constexpr int64_t kFreshMs = 500;
constexpr int64_t kCountIntervalMs = 10'000;
// Between two counts of the adapters the server waits so many times as long as the last one took.
constexpr int64_t kCountShare = 500;
constexpr size_t kAdaptersShown = 50;
constexpr size_t kPieceAdapters = 512;

// Families that the page shows, as FindFamily takes them.
constexpr std::string_view kShownFamilies[] = {"adapters",
                                               "adapters_resident",
                                               "adapter_events_total",
                                               "draining",
                                               "learning_jobs",
                                               "migrations_total",
                                               "output_tokens_total",
                                               "pages",
                                               "placements_total",
                                               "preemptions_total",
                                               "prompt_tokens_total",
                                               "requests_in_flight",
                                               "requests_running",
                                               "requests_unplaced",
                                               "requests_waiting",
                                               "snapshot_number",
                                               "step_adapters",
                                               "step_rows",
                                               "step_sequences",
                                               "steps_total",
                                               "up",
                                               "cold_starts_total",
                                               "requests_finished_total"};

int64_t UnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void AppendNumber(double number, std::string* out) {
  if (!std::isfinite(number)) {
    *out += "null";
    return;
  }
  char text[40];
  out->append(text, static_cast<size_t>(std::snprintf(text, sizeof(text), "%.12g", number)));
}

// "name":[[{labels},value],...]
void AppendFamily(const prometheus::MetricFamily& family, std::string* out) {
  *out += JsonString(family.name) + ":[";
  const char* comma = "";
  for (const prometheus::ClientMetric& series : family.metric) {
    *out += std::exchange(comma, ",");
    *out += "[{";
    const char* between = "";
    for (const auto& label : series.label) {
      *out += std::exchange(between, ",");
      *out += JsonString(label.name) + ":" + JsonString(label.value);
    }
    *out += "},";
    const bool is_gauge = family.type == prometheus::MetricType::Gauge;
    AppendNumber(is_gauge ? series.gauge.value : series.counter.value, out);
    *out += ']';
  }
  *out += ']';
}

void AppendQuantiles(const BucketCounts& buckets, std::string* out) {
  *out += "{\"count\":";
  AppendNumber(buckets.total(), out);
  for (const auto& [key, share] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}}) {
    *out += std::string(",\"") + key + "\":";
    AppendNumber(Quantile(buckets, share).value_or(NAN), out);
  }
  *out += '}';
}

struct Popular {
  std::string name;
  double requests = 0.0;
  double output_tokens = 0.0;
};

// By the label "adapter" of a family.
std::map<std::string, double> ByAdapter(const Metrics::Families& families, std::string_view name) {
  std::map<std::string, double> values;
  const prometheus::MetricFamily* const family = FindFamily(families, name);
  if (family == nullptr) return values;
  for (const prometheus::ClientMetric& series : family->metric) {
    for (const auto& label : series.label) {
      if (label.name == "adapter") values[label.value] += series.counter.value;
    }
  }
  return values;
}

std::vector<Popular> MostPopular(const Metrics::Families& families) {
  std::map<std::string, double> tokens = ByAdapter(families, "adapter_output_tokens_total");
  std::vector<Popular> adapters;
  for (const auto& [name, requests] : ByAdapter(families, "adapter_requests_total")) {
    adapters.push_back({name, requests, tokens[name]});
  }
  const size_t num_shown = std::min(kAdaptersShown, adapters.size());
  std::partial_sort(adapters.begin(), adapters.begin() + static_cast<ptrdiff_t>(num_shown),
                    adapters.end(), [](const Popular& left, const Popular& right) {
                      return left.requests != right.requests ? left.requests > right.requests
                                                             : left.name < right.name;
                    });
  adapters.resize(num_shown);
  return adapters;
}

}  // namespace

Dashboard::Dashboard(DashboardParts parts)
    : parts_(std::move(parts)),
      start_ms_(UnixMs()),
      number_(parts_.metrics.Gauge("graft_snapshot_number",
                                   "Which snapshot of the series this is; the dashboard has it")),
      jobs_(parts_.learning, parts_.metrics),
      history_(kHistoryPoints) {
  for (const char* const word : kAdapterStateNames) {
    adapters_.push_back(&parts_.metrics.Gauge(
        "graft_adapters", "Listed adapters by where the nearest copy is", {{"state", word}}));
  }
}

Dashboard::~Dashboard() { Stop(); }

void Dashboard::Start(std::function<void()> sample) {
  sample_ = std::move(sample);
  thread_ = std::thread([this] { Loop(); });
}

void Dashboard::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Dashboard::Loop() {
  NameThread("dashboard");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    AddPoint(UnixMs());
    lock.lock();
    wake_.wait_for(lock, kPointInterval, [this] { return stopping_; });
  }
}

void Dashboard::AddPoint(int64_t unix_ms) {
  if (unix_ms >= count_again_ms_) CountAdapters(unix_ms);
  jobs_.Read();
  const auto snapshot = Take(unix_ms);
  std::lock_guard lock(history_mutex_);
  history_.Add(snapshot->families, unix_ms);
}

std::shared_ptr<const Dashboard::Snapshot> Dashboard::Take(int64_t unix_ms) {
  std::lock_guard lock(take_mutex_);
  if (sample_) sample_();
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->number = ++num_taken_;
  snapshot->unix_ms = unix_ms;
  number_.Set(static_cast<double>(snapshot->number));
  snapshot->families = parts_.metrics.Collect();
  last_ = snapshot;
  return snapshot;
}

std::shared_ptr<const Dashboard::Snapshot> Dashboard::Fresh(int64_t unix_ms) {
  {
    std::lock_guard lock(take_mutex_);
    if (last_ != nullptr && std::abs(unix_ms - last_->unix_ms) < kFreshMs) return last_;
  }
  return Take(unix_ms);
}

Metrics::Families Dashboard::Scrape() { return Take(UnixMs())->families; }

// A frontend knows of its runners' devices by what it placed there.
AdapterState Dashboard::StateOf(const AdapterInfo& adapter) const {
  const AdapterState state = parts_.catalog.StateOf(adapter);
  if (!parts_.num_holders) return state;
  if (parts_.num_holders(adapter.hash) > 0) return AdapterState::kResident;
  return std::min(state, AdapterState::kHost);
}

void Dashboard::CountAdapters(int64_t unix_ms) {
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  std::vector<int64_t> counts(adapters_.size());
  std::vector<AdapterInfo> piece;
  std::string last;
  do {
    piece = parts_.catalog.ListAfter(last, kPieceAdapters);
    for (const AdapterInfo& adapter : piece) ++counts[static_cast<size_t>(StateOf(adapter))];
    if (!piece.empty()) last = piece.back().name;
  } while (piece.size() == kPieceAdapters);
  for (size_t i = 0; i < counts.size(); ++i) adapters_[i]->Set(static_cast<double>(counts[i]));
  // A frontend that begins knows of no runner yet.
  if (last.empty()) return;
  const int64_t took_ms = (SteadyClock::Get().NowNs() - begin_ns) / 1'000'000;
  count_again_ms_ = unix_ms + std::max(kCountIntervalMs, took_ms * kCountShare);
}

// {"first_token":{"all":{...},"recent":{...}},...}
void Dashboard::AppendLatencies(const Snapshot& snapshot, std::string* out) {
  const char* comma = "";
  *out += '{';
  for (size_t i = 0; i < kLatencyRows.size(); ++i) {
    *out += std::exchange(comma, ",");
    *out += JsonString(kLatencyRows[i].key) + ":{\"all\":";
    AppendQuantiles(BucketsOf(snapshot.families, kLatencyRows[i].family), out);
    *out += ",\"recent\":";
    AppendQuantiles(history_.Recent(snapshot.families, i), out);
    *out += '}';
  }
  *out += '}';
}

void Dashboard::AppendAdapters(const Snapshot& snapshot, std::string* out) const {
  const char* comma = "";
  *out += '[';
  for (const Popular& popular : MostPopular(snapshot.families)) {
    *out += std::exchange(comma, ",");
    *out += "{\"name\":" + JsonString(popular.name) + ",\"requests\":";
    AppendNumber(popular.requests, out);
    *out += ",\"output_tokens\":";
    AppendNumber(popular.output_tokens, out);
    const Result<AdapterInfo> adapter = parts_.catalog.Find(popular.name);
    if (adapter.ok()) {
      *out += ",\"state\":" + JsonString(AdapterStateName(StateOf(*adapter))) +
              ",\"rank\":" + std::to_string(adapter->rank_max) +
              ",\"virtual_tokens\":" + std::to_string(adapter->num_virtual_tokens) +
              ",\"bytes\":" + std::to_string(adapter->bytes);
      if (parts_.num_holders) {
        *out += ",\"holders\":" + std::to_string(parts_.num_holders(adapter->hash));
      }
    }
    *out += '}';
  }
  *out += ']';
}

std::string Dashboard::DataJson(uint64_t since) {
  const int64_t unix_ms = UnixMs();
  const auto snapshot = Fresh(unix_ms);
  std::string out = "{\"snapshot\":" + std::to_string(snapshot->number) +
                    ",\"unix_ms\":" + std::to_string(snapshot->unix_ms) +
                    ",\"uptime_ms\":" + std::to_string(unix_ms - start_ms_) +
                    ",\"model\":" + JsonString(parts_.base_model) +
                    ",\"version\":\"" GRAFT_VERSION "\",\"is_frontend\":" +
                    (parts_.num_holders ? "true" : "false") + ",\"series\":{";
  const char* comma = "";
  for (const std::string_view name : kShownFamilies) {
    const prometheus::MetricFamily* const family = FindFamily(snapshot->families, name);
    if (family == nullptr) continue;
    out += std::exchange(comma, ",");
    AppendFamily(*family, &out);
  }
  out += "},\"adapters\":";
  AppendAdapters(*snapshot, &out);
  const std::string jobs = jobs_.ListJson();
  if (!jobs.empty()) out += ",\"jobs\":" + jobs;
  std::lock_guard lock(history_mutex_);
  out += ",\"latencies\":";
  AppendLatencies(*snapshot, &out);
  out += ",\"history\":";
  history_.AppendJson(since, &out);
  return out + "}";
}

}  // namespace graft
