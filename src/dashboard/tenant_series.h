// TenantSeries: the Prometheus series of each tenant: requests for text, their tokens, and requests
// that a limit refused. If there are many tenants, only those that asked last have series, which
// bounds the labels. A series that comes back begins at 0, as after a restart. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/metrics.h"

namespace graft {

class TenantSeries {
 public:
  // `metrics` is borrowed.
  explicit TenantSeries(Metrics& metrics, size_t tenants_max = 100)
      : metrics_(metrics), tenants_max_(tenants_max) {}

  // A request of the tenant's ended with this HTTP status. "" has no series: there are no keys.
  void RequestEnded(const std::string& tenant, int status, int64_t prompt_tokens,
                    int64_t output_tokens);

 private:
  struct Counters {
    prometheus::Counter* requests = nullptr;
    prometheus::Counter* limited = nullptr;
    prometheus::Counter* prompt_tokens = nullptr;
    prometheus::Counter* output_tokens = nullptr;
    uint64_t used_at = 0;  // by the count of all uses
  };

  Counters Make(const std::string& tenant);
  void RemoveOldest();

  Metrics& metrics_;
  const size_t tenants_max_;
  std::mutex mutex_;  // the rest
  std::unordered_map<std::string, Counters> tenants_;
  uint64_t num_uses_ = 0;
};

}  // namespace graft
