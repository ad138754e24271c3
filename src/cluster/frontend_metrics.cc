#include "cluster/frontend_metrics.h"

#include <utility>
#include <vector>

namespace graft {
namespace {

const std::vector<double>& TokenSecondsBounds() {
  static const std::vector<double> bounds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                             0.25,   0.5,   1,      2.5,   5,    10,    30,   60};
  return bounds;
}

// A series of one runner: its name without "graft_runner_", and a label besides the runner's.
struct SeriesRow {
  const char* name;
  const char* help;
  const char* label = nullptr;
  const char* value = nullptr;
};

constexpr const char* kPagesHelp = "Pages of a runner's pool by state";
constexpr const char* kRowsHelp = "Token rows in the batch of a runner's last step";

constexpr SeriesRow kGaugeRows[] = {
    {"up", "Whether the runner is connected"},
    {"draining", "Whether it takes no more requests"},
    {"requests_in_flight", "This frontend's requests on the runner"},
    {"requests_waiting", "Requests in the runner's queue, all frontends'"},
    {"requests_running", "Requests in the runner's batch, all frontends'"},
    {"pages", kPagesHelp, "state", "free"},
    {"pages", kPagesHelp, "state", "cached"},
    {"pages", kPagesHelp, "state", "referenced"},
    {"pages", kPagesHelp, "state", "adapters"},
    {"adapters_resident", "Adapters on the runner's device"},
    {"adapters_max", "Adapters that the runner's device holds at once"},
    {"step_sequences", "Sequences in the batch of the runner's last step"},
    {"step_adapters", "Distinct adapters in the batch of the runner's last step"},
    {"step_rows", kRowsHelp, "kind", "prompt"},
    {"step_rows", kRowsHelp, "kind", "decode"}};

// In the order of kGaugeRows.
std::vector<int64_t> GaugesOf(const RemoteRunner& runner) {
  const RunnerLoad& load = runner.load;
  const RunnerFigures& figures = load.figures;
  if (!runner.is_up) return std::vector<int64_t>(std::size(kGaugeRows));
  return {1,
          runner.draining ? 1 : 0,
          runner.num_in_flight,
          load.requests_waiting,
          load.requests_running,
          figures.pages_free,
          figures.pages_cached,
          figures.pages_referenced,
          figures.pages_adapters,
          figures.adapters_resident,
          runner.facts.adapters_max,
          figures.step_sequences,
          figures.step_adapters,
          figures.step_prompt_rows,
          figures.step_decode_rows};
}

constexpr const char* kEventsHelp = "Adapters copied to the runner's device, and evicted from it";

constexpr SeriesRow kCounterRows[] = {
    {"steps_total", "Steps that the runner has run"},
    {"prompt_tokens_total", "Prompt tokens that the runner has accepted"},
    {"output_tokens_total", "Tokens that the runner has generated"},
    {"preemptions_total", "Sequences that the runner sent back to its queue for want of pages"},
    {"adapter_events_total", kEventsHelp, "event", "copy"},
    {"adapter_events_total", kEventsHelp, "event", "evict"}};

// In the order of kCounterRows.
std::vector<int64_t> CountsOf(const RunnerFigures& figures) {
  return {figures.steps,       figures.prompt_tokens,  figures.output_tokens,
          figures.preemptions, figures.adapter_copies, figures.adapter_evictions};
}

constexpr const char* kMeetsWords[] = {"base", "resident", "cold"};
constexpr const char* kMoveWords[] = {"died", "drained", "refused", "evicted", "spare"};

// So many runners that have gone keep series under their addresses. The others' are summed under a
// word that is no address, since it has no port.
constexpr size_t kGoneMax = 256;
constexpr const char* kGone = "gone";

constexpr const char* kPlacements = "graft_placements_total";
std::string RunnerName(const SeriesRow& row) { return std::string("graft_runner_") + row.name; }

}  // namespace

class FrontendMetrics::RunnerSeries {
 public:
  RunnerSeries(Metrics& metrics, const std::string& address)
      : metrics_(metrics), address_(address) {
    for (const SeriesRow& row : kCounterRows) {
      counters_.push_back(&metrics.Counter(RunnerName(row), row.help, LabelsOf(row)));
    }
    for (const char* const word : kMeetsWords) {
      placements_.push_back(&metrics.Counter(
          kPlacements, "Requests placed on the runner, by whether its device held their adapter",
          {{"runner", address}, {"adapter", word}}));
    }
  }
  ~RunnerSeries() {
    RemoveGauges();
    for (size_t i = 0; i < counters_.size(); ++i) {
      metrics_.RemoveCounter(RunnerName(kCounterRows[i]), *counters_[i]);
    }
    for (prometheus::Counter* const counter : placements_) {
      metrics_.RemoveCounter(kPlacements, *counter);
    }
  }
  RunnerSeries(const RunnerSeries&) = delete;
  RunnerSeries& operator=(const RunnerSeries&) = delete;

  void Set(const RemoteRunner& runner) {
    AddGauges();
    const std::vector<int64_t> gauges = GaugesOf(runner);
    for (size_t i = 0; i < gauges.size(); ++i) gauges_[i]->Set(static_cast<double>(gauges[i]));
    // Until the runner has spoken its figures are zeros of no process: they are not counted.
    if (runner.is_up && runner.has_told) Count(runner);
  }
  void Placed(Meets meets) { placements_[static_cast<size_t>(meets)]->Increment(); }

  void RemoveGauges() {
    for (size_t i = 0; i < gauges_.size(); ++i) {
      metrics_.RemoveGauge(RunnerName(kGaugeRows[i]), *gauges_[i]);
    }
    gauges_.clear();
  }
  void AddTo(RunnerSeries* other) const {
    for (size_t i = 0; i < counters_.size(); ++i) {
      other->counters_[i]->Increment(counters_[i]->Value());
    }
    for (size_t i = 0; i < placements_.size(); ++i) {
      other->placements_[i]->Increment(placements_[i]->Value());
    }
  }

 private:
  Metrics::Labels LabelsOf(const SeriesRow& row) const {
    Metrics::Labels labels = {{"runner", address_}};
    if (row.label != nullptr) labels[row.label] = row.value;
    return labels;
  }

  void AddGauges() {
    if (!gauges_.empty()) return;
    for (const SeriesRow& row : kGaugeRows) {
      gauges_.push_back(&metrics_.Gauge(RunnerName(row), row.help, LabelsOf(row)));
    }
  }

  // Adds what the runner has counted since it was last heard. Another process at its address counts
  // from 0, and may be ahead of the former one. A process that does not tell its instance is taken
  // for another one if it has counted less.
  void Count(const RemoteRunner& runner) {
    const std::vector<int64_t> counts = CountsOf(runner.load.figures);
    const bool is_another =
        std::exchange(instance_, runner.facts.instance) != runner.facts.instance;
    if (is_another || told_.empty()) told_.assign(counts.size(), 0);
    for (size_t i = 0; i < counts.size(); ++i) {
      if (runner.facts.instance == 0 && counts[i] < told_[i]) told_[i] = 0;
      if (counts[i] <= told_[i]) continue;
      counters_[i]->Increment(static_cast<double>(counts[i] - told_[i]));
      told_[i] = counts[i];
    }
  }

  Metrics& metrics_;
  const std::string address_;
  std::vector<prometheus::Gauge*> gauges_;  // none: it is gone
  std::vector<prometheus::Counter*> counters_;
  std::vector<prometheus::Counter*> placements_;
  uint64_t instance_ = 0;  // of the process that told_ is of
  std::vector<int64_t> told_;
};

FrontendMetrics::FrontendMetrics(Metrics& metrics,
                                 std::function<std::string(const std::string&)> adapter_label)
    : metrics_(metrics),
      adapters_(metrics, std::move(adapter_label)),
      unplaced_(metrics.Gauge("graft_requests_unplaced", "Requests that no runner has")),
      first_token_seconds_(metrics.Histogram("graft_time_to_first_token_seconds",
                                             "Seconds from a request's arrival to its first token",
                                             TokenSecondsBounds())),
      next_token_seconds_(metrics.Histogram("graft_inter_token_seconds",
                                            "Seconds between tokens of a request",
                                            TokenSecondsBounds())) {
  for (const Move move :
       {Move::kDied, Move::kDrained, Move::kRefused, Move::kEvicted, Move::kSpare}) {
    CounterOf(move);
  }
}

FrontendMetrics::~FrontendMetrics() = default;

FrontendMetrics::RunnerSeries& FrontendMetrics::SeriesOf(const std::string& address) {
  std::unique_ptr<RunnerSeries>& series = runners_[address];
  if (series == nullptr) series = std::make_unique<RunnerSeries>(metrics_, address);
  gone_.remove(address);
  return *series;
}

prometheus::Counter& FrontendMetrics::CounterOf(Move move) {
  return metrics_.Counter("graft_migrations_total",
                          "Requests that went on elsewhere, by why: their runner died, drained, "
                          "refused them, had no pages for them or is spare",
                          {{"reason", kMoveWords[static_cast<size_t>(move)]}});
}

void FrontendMetrics::SetRunner(const RemoteRunner& runner) {
  SeriesOf(runner.address).Set(runner);
}

void FrontendMetrics::ForgetRunner(const std::string& address) {
  const auto series = runners_.find(address);
  if (series == runners_.end()) return;
  series->second->RemoveGauges();
  gone_.remove(address);
  gone_.push_back(address);
  if (gone_.size() > kGoneMax) DropFirstGone();
}

void FrontendMetrics::DropFirstGone() {
  const std::string first = gone_.front();
  RunnerSeries& all = SeriesOf(kGone);
  runners_.at(first)->AddTo(&all);
  runners_.erase(first);
  gone_.pop_front();
}

void FrontendMetrics::Placed(const std::string& address, Meets meets) {
  SeriesOf(address).Placed(meets);
}

void FrontendMetrics::Moved(Move move) { CounterOf(move).Increment(); }

void FrontendMetrics::SetUnplaced(size_t num_requests) {
  unplaced_.Set(static_cast<double>(num_requests));
}

}  // namespace graft
