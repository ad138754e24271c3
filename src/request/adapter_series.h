// AdapterSeries: the Prometheus series of each adapter, by the name that it is served under.
// Thousands of adapters must not become thousands of series, so only the names used last have
// series, and an adapter that is no longer held has none. A series that comes back begins at 0, as
// after a restart. Thread-safe; it takes locks, so it is not for use within a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "base/metrics.h"

namespace graft {

// The counters of one name's requests. A counter may be used as long as this struct is held.
struct AdapterCounters {
  prometheus::Counter* requests = nullptr;
  prometheus::Counter* prompt_tokens = nullptr;
  prometheus::Counter* output_tokens = nullptr;
};

class AdapterSeries {
 public:
  // `label` names an adapter's key; empty: the key's first 12 digits. `metrics` is borrowed.
  AdapterSeries(Metrics& metrics, std::function<std::string(const std::string& key)> label,
                size_t names_max = 100);

  // Returns the counters of a content that the caller holds and that goes by `key` (-1 and "": the
  // base model). The requests in flight share them, and counters that a request uses are not
  // removed. If names_max names all have requests in flight, a further name gets the counters of
  // "other".
  std::shared_ptr<const AdapterCounters> Of(const std::string& key, int32_t content);
  // The content is no longer held.
  void Forget(int32_t content);

 private:
  struct Name {
    std::shared_ptr<const AdapterCounters> counters;
    std::set<int32_t> contents;  // served under it
    uint64_t used_at = 0;        // by the count of all uses
  };
  using Names = std::map<std::string, Name>;

  std::shared_ptr<const AdapterCounters> Make(const std::string& name);
  bool RemoveOldest();
  void Remove(Names::iterator name);
  static bool IsInUse(const Name& name) { return name.counters.use_count() > 1; }

  Metrics& metrics_;
  const std::function<std::string(const std::string&)> label_;
  const size_t names_max_;
  const std::shared_ptr<const AdapterCounters> base_;
  std::mutex mutex_;  // the rest
  std::shared_ptr<const AdapterCounters> other_;
  Names names_;
  std::unordered_map<int32_t, std::string> name_of_content_;  // of the contents in names_
  uint64_t num_uses_ = 0;
};

}  // namespace graft
