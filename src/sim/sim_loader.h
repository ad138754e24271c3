// SimLoader: loads of adapters by the virtual clock. A load from a folder into the host's memory
// takes a random time, with as few readers as the real loader has. Copies to the device run one
// after the other, by a line of the cost model. The host's memory holds the adapters used last. One
// thread.
#pragma once

#include <charconv>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "placement/cost_model.h"
#include "step/adapter_loader.h"
#include "step/executor.h"

namespace graft {

// The adapters of a simulation: a rank each, by number. Plain data.
struct SimAdapters {
  std::vector<int32_t> ranks;  // by number

  // What stands for a content hash.
  static std::string HashOf(int32_t adapter) { return std::to_string(adapter); }
  static int32_t NumberOf(const std::string& hash) {
    int32_t adapter = 0;
    std::from_chars(hash.data(), hash.data() + hash.size(), adapter);
    return adapter;
  }
  int32_t RankOf(int32_t adapter) const { return ranks[static_cast<size_t>(adapter)]; }
};

struct SimLoaderOptions {
  int64_t bytes_per_rank = int64_t{5} << 20;  // of an adapter in the device's pages
  int32_t num_layers = 32;
  int32_t host_adapters = 0;  // that the host's memory holds; 0: all, from the start
};

class SimLoader : public AdapterLoader {
 public:
  // Borrows clock and adapters. `fetch_ns`: of the next fetch; needed where host_adapters is not 0.
  SimLoader(const Clock& clock, const SimAdapters& adapters, const CostModel& costs,
            const SimLoaderOptions& options, std::function<int64_t()> fetch_ns = {});

  void Fetch(FetchOrder order) override;
  bool Copy(CopyOrder order) override;
  std::optional<AdapterFacts> FindInHost(const std::string& hash) const override;
  void Drop(int32_t content) override { held_.erase(content); }
  void Free(AdapterSlot slot) override;
  std::vector<LoadEvent> TakeEvents() override;
  // A simulation waits only at a runner's end: all that is under way ends at once.
  void WaitForEvent() override { is_ending_ = true; }
  void SetWaker(std::function<void()> /*waker*/) override {}

  // When the next event is there; kNever: nothing is under way.
  int64_t next_event_ns() const {
    return pending_.empty() ? kNever : pending_.begin()->first.first;
  }
  int32_t RankOf(AdapterSlot slot) const;
  // When the slot's last layer is there.
  int64_t ArrivalOf(AdapterSlot slot) const;
  int32_t num_layers() const { return options_.num_layers; }
  // Adapters on the device or on their way there, by slot.
  std::vector<int32_t> OnDevice() const;
  // Adapters that requests want and that have not got there: fetched, or about to be.
  std::vector<int32_t> Coming() const;

 private:
  struct Pending {
    LoadEvent::Kind kind = LoadEvent::Kind::kFetched;
    bool had_reader = false;  // of a fetch: until its end, since it never counted as slow
    int32_t content = -1;
    int32_t adapter = -1;
    int64_t took_ns = 0;
  };
  struct Slot {
    int32_t adapter = -1;  // -1: free
    int64_t arrival_ns = 0;
  };
  AdapterFacts FactsOf(int32_t adapter) const;
  bool IsInHost(int32_t adapter) const {
    return options_.host_adapters == 0 || in_host_.contains(adapter);
  }
  void Keep(int32_t adapter);
  void Finish(int64_t ns, Pending pending);
  // The readers that are free begin with the next fetches.
  void Read(int64_t now_ns);
  LoadEvent Book(int64_t ns, const Pending& pending);

  const Clock& clock_;
  const SimAdapters& adapters_;
  const CostModel costs_;
  const SimLoaderOptions options_;
  const std::function<int64_t()> fetch_ns_;
  std::list<int32_t> by_use_;  // in the host's memory, the one used last at the end
  std::unordered_map<int32_t, std::list<int32_t>::iterator> in_host_;
  std::map<int32_t, int32_t> held_;  // contents fetched and neither copied nor dropped: adapters
  std::map<std::pair<int64_t, int64_t>, Pending> pending_;  // by end
  std::deque<FetchOrder> to_read_;
  int32_t num_reading_ = 0;
  int32_t num_slow_ = 0;
  bool is_ending_ = false;
  int64_t num_orders_ = 0;
  int64_t bus_free_ns_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace graft
