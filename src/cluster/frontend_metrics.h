// The metrics of a frontend: what each runner reports of itself, where requests are placed and why
// they move, and times of tokens as they arrive. The owner locks; the series themselves are
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "cluster/remote_runners.h"
#include "request/adapter_series.h"

namespace graft {

class FrontendMetrics {
 public:
  // How a request meets its adapter where it is placed.
  enum class Meets : uint8_t { kBase, kResident, kCold };
  // Why a request goes on elsewhere.
  enum class Move : uint8_t { kDied, kDrained, kRefused, kEvicted, kSpare };

  // See AdapterSeries for `adapter_label`.
  FrontendMetrics(Metrics& metrics, std::function<std::string(const std::string&)> adapter_label);
  ~FrontendMetrics();

  std::shared_ptr<const AdapterCounters> CountersFor(const std::string& hash, int32_t number) {
    return adapters_.Of(hash, number);
  }
  void SetRunner(const RemoteRunner& runner);
  // Removes the runner's gauges. Its counters stay, because sums over all runners must never
  // decrease, and they go on if the runner comes back. Once very many runners are gone, the counts
  // of those gone longest move to runner "gone".
  void ForgetRunner(const std::string& address);
  void Placed(const std::string& address, Meets meets);
  void Moved(Move move);
  // Requests that no runner has.
  void SetUnplaced(size_t num_requests);
  // From a request's acceptance to its first token, and from token to token.
  void FirstToken(double seconds) { first_token_seconds_.Observe(seconds); }
  void NextToken(double seconds) { next_token_seconds_.Observe(seconds); }

 private:
  class RunnerSeries;

  RunnerSeries& SeriesOf(const std::string& address);
  void DropFirstGone();
  prometheus::Counter& CounterOf(Move move);

  Metrics& metrics_;
  AdapterSeries adapters_;
  prometheus::Gauge& unplaced_;
  prometheus::Histogram& first_token_seconds_;
  prometheus::Histogram& next_token_seconds_;
  std::map<std::string, std::unique_ptr<RunnerSeries>> runners_;  // by address, the gone included
  std::list<std::string> gone_;                                   // of them; the first one first
};

}  // namespace graft
