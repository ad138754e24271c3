// Fleet: what placement knows of the runners: how full each runner is, which requests this owner
// has there, and which adapters its device holds, as far as is known. An index leads from an
// adapter to its holders, so that a choice never looks through all adapters. Runners and adapters
// have small numbers from the owner, which index tables. There is no clock: the owner passes the
// time. Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "placement/cost_model.h"
#include "placement/prefix_index.h"

namespace graft {

inline constexpr int32_t kNoRunner = -1;
inline constexpr int32_t kBaseModel = -1;  // in an adapter's place

// What a runner says of itself. The owner writes it whenever it changes.
struct RunnerState {
  uint64_t id = 0;               // the same for the same runner, whatever its number
  bool is_open = false;          // takes requests
  int32_t batch_max = 0;         // requests in one step; 0: it does not say
  int32_t adapters_max = 0;      // on its device at once; 0: it does not say
  int32_t page_tokens = 0;       // 0: it does not say what pages it has
  bool has_prefix_cache = true;  // false: what is placed there is computed whole each time
  int64_t pages_free = 0;        // neither used nor promised
  int64_t num_pages = 0;         // 0: it does not say
  int64_t pages_used = 0;        // by requests and their adapters
  int64_t num_requests = 0;      // of all owners, waiting ones included
};

// A request, as far as a choice depends on it.
struct PlacedRequest {
  int32_t adapter = kBaseModel;
  uint64_t adapter_id = 0;  // the same for the same adapter, whatever its number and the owner
  int32_t rank = 0;         // the adapter's largest; 0: base, or it is not known
  uint64_t tenant = 0;
  float tenant_weight = 1.0f;  // share of the fleet among tenants, above 0
  int32_t prompt_tokens = 0;   // with what it has drawn so far
  int32_t output_tokens_max = 0;
  std::vector<uint64_t> prefix;  // names of its prompt's leading pages; {}: not looked at
  int32_t cached_tokens = 0;     // of the prompt, that its runner is thought to have cached
};

// Which runners hold an adapter, asked for one after the other, in order of their numbers. All hold
// the base model.
class HolderWalk {
 public:
  HolderWalk(std::span<const int32_t> holders, bool is_base) : rest_(holders), is_base_(is_base) {}
  bool Holds(size_t idx) {
    const auto number = static_cast<int32_t>(idx);
    while (!rest_.empty() && rest_.front() < number) rest_ = rest_.subspan(1);
    return is_base_ || (!rest_.empty() && rest_.front() == number);
  }

 private:
  std::span<const int32_t> rest_;
  bool is_base_;
};

struct RunnerCount {
  int32_t runner = kNoRunner;
  int32_t count = 0;
  bool operator==(const RunnerCount&) const = default;
};

class Fleet {
 public:
  void SetNumRunners(size_t num_runners);
  size_t num_runners() const { return runners_.size(); }
  RunnerState& runner(size_t idx) { return runners_[idx].state; }
  const RunnerState& runner(size_t idx) const { return runners_[idx].state; }
  // The runner has lost all that it had, or its number is another runner's by now.
  void Reset(size_t idx);

  // What the runners' prefix caches have.
  PrefixIndex& prefixes() { return prefixes_; }
  // Tokens of the request's prompt that each runner is thought to have cached; empty: none has any.
  std::vector<int32_t> CachedTokens(const PlacedRequest& request) const;
  int32_t CachedTokensOn(size_t idx, const PlacedRequest& request) const;

  // A new request for the adapter, wherever it goes.
  void Arrive(int32_t adapter, int64_t now_ns);
  // The request is on the runner, which comes to hold its adapter and its prompt.
  void Place(size_t idx, const PlacedRequest& request);
  // It has drawn its first token there: its prompt is computed, its adapter has come. Where that is
  // one more than the runner can hold, the one that was unused for longest is thought to have gone.
  void Draw(size_t idx, const PlacedRequest& request);
  // It is there no longer. `has_drawn`: Draw was called.
  void Leave(size_t idx, const PlacedRequest& request, bool has_drawn);
  // A request has ended well, `seconds` after it came, with so many tokens drawn.
  void End(double seconds, int64_t output_tokens);
  // Replaces what was assumed by what the runner reports that it holds; adapters of requests that
  // are there stay. A list that is not whole only adds. `coming`: adapters on their way to the
  // runner's device, for any owner's requests; a request for one of them needs no load elsewhere.
  void SetHeld(size_t idx, std::span<const int32_t> adapters, bool is_whole,
               std::span<const int32_t> coming = {});

  bool Holds(size_t idx, int32_t adapter) const;
  // In order of their numbers; empty for the base model, which all have.
  std::span<const int32_t> Holders(int32_t adapter) const;
  HolderWalk WalkHolders(int32_t adapter) const { return {Holders(adapter), adapter < 0}; }
  size_t NumHeld(size_t idx) const { return runners_[idx].held.size(); }
  // The adapter that would go if the runner had to take one more, after those that are coming;
  // kBaseModel: none has to, or none can.
  int32_t FirstToGo(size_t idx) const;
  // Adapters of requests there that have drawn no token since they came to the runner: they are
  // being loaded, or wait for that.
  int32_t NumComing(size_t idx) const { return runners_[idx].num_coming; }
  // Adapters of requests there beyond the number that its device holds at once.
  int64_t NumBeyondPlaces(size_t idx) const;

  // Ranks of all requests there. Those of other owners count as the mean of this one's.
  BatchRanks RanksOf(size_t idx) const;
  // The part of the requests there that is of other owners.
  double ShareOfOthers(size_t idx) const;
  // Tokens that the runner has to compute before all requests there have drawn.
  int64_t UndrawnPromptTokens(size_t idx) const { return runners_[idx].undrawn_tokens; }
  // Prompt tokens of all requests there. Those of other owners count as the mean of this one's.
  double PromptTokensOf(size_t idx) const;

  // Requests a second for the adapter, of late.
  double RateOf(int32_t adapter, int64_t now_ns) const;
  // Requests that are in flight for it at once, expected from its rate, or seen.
  double LoadOf(int32_t adapter, int64_t now_ns) const;
  // No runner holds it, and no request is in flight or came of late: its number may be given away.
  bool IsForgotten(int32_t adapter, int64_t now_ns) const;
  double MeanOutputTokens() const { return mean_output_tokens_; }
  // The mean over requests that were placed of late.
  double MeanPromptTokens() const { return mean_prompt_tokens_; }

  // The tenant's requests among this owner's, by runner that has any, in order of their numbers.
  std::span<const RunnerCount> TenantRequests(uint64_t tenant) const;
  // By how many times the tenant has more in flight than its share; 1 at least.
  double Pressure(uint64_t tenant, float weight) const;

 private:
  struct Held {
    int32_t num_in_flight = 0;
    bool is_coming = false;
    std::list<int32_t>::iterator place;  // in idle, while no request there uses it
  };
  struct Runner {
    RunnerState state;
    std::vector<std::pair<int32_t, int32_t>> ranks;  // rank and how many requests, rising
    int64_t num_own = 0;
    int64_t sum_of_ranks = 0;
    int64_t undrawn_tokens = 0;
    int64_t prompt_tokens = 0;
    int32_t num_coming = 0;  // of held
    std::unordered_map<int32_t, Held> held;
    std::list<int32_t> idle;  // of held, without requests there; the one unused for longest first
  };
  struct Adapter {
    std::vector<int32_t> holders;  // rising
    int32_t num_in_flight = 0;
    double arrivals = 0.0;  // older ones counting less, as of arrivals_ns
    int64_t arrivals_ns = 0;
  };
  struct Tenant {
    int64_t num_in_flight = 0;
    float weight = 1.0f;
    std::vector<RunnerCount> on;  // runners that have any, rising
  };

  Adapter& AdapterAt(int32_t adapter);
  void Hold(size_t idx, int32_t adapter);
  void LetGo(size_t idx, int32_t adapter);
  void Use(size_t idx, int32_t adapter, int32_t change);
  void SetComing(size_t idx, Held& held, bool is_coming);
  void LetGoBeyondPlaces(size_t idx);
  void CountTenant(size_t idx, const PlacedRequest& request, int32_t change);

  int32_t CachedTokensOf(size_t idx, const PlacedRequest& request, int32_t num_pages) const;

  std::vector<Runner> runners_;
  PrefixIndex prefixes_;
  std::vector<Adapter> adapters_;
  std::unordered_map<uint64_t, Tenant> tenants_;  // with requests in flight
  double tenant_weights_ = 0.0;                   // theirs together
  int64_t num_own_ = 0;                           // requests placed
  int64_t sum_of_ranks_ = 0;
  int64_t prompt_tokens_ = 0;
  double mean_seconds_ = 1.0;
  double mean_output_tokens_ = 128.0;
  double mean_prompt_tokens_ = 128.0;
};

}  // namespace graft
