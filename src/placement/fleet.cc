#include "placement/fleet.h"

#include <algorithm>
#include <cmath>

namespace graft {
namespace {

// Arrivals count a 2.7th after so long.
constexpr double kRateSeconds = 30.0;
// What one more request counts in a mean of late. The first to end count no more: they are short.
constexpr double kEndedShare = 1.0 / 64;
// A rate below a request in two weeks counts as none.
constexpr double kForgottenRate = 1e-6;

double SecondsBetween(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(std::max<int64_t>(0, to_ns - from_ns)) * 1e-9;
}

}  // namespace

void Fleet::SetNumRunners(size_t num_runners) {
  CHECK_GE(num_runners, runners_.size());
  runners_.resize(num_runners);
  prefixes_.SetNumRunners(num_runners);
}

void Fleet::Reset(size_t idx) {
  Runner& runner = runners_[idx];
  CHECK_EQ(runner.num_own, 0) << "its requests leave it first";
  while (!runner.idle.empty()) LetGo(idx, runner.idle.front());
  runner.state = {};
  prefixes_.Clear(idx);
}

// The last token is computed even where all pages are cached.
int32_t Fleet::CachedTokensOf(size_t idx, const PlacedRequest& request, int32_t num_pages) const {
  const int64_t tokens = int64_t{num_pages} * runners_[idx].state.page_tokens;
  return static_cast<int32_t>(std::clamp<int64_t>(tokens, 0, request.prompt_tokens - 1));
}

std::vector<int32_t> Fleet::CachedTokens(const PlacedRequest& request) const {
  std::vector<int32_t> tokens = prefixes_.Match(request.prefix);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = CachedTokensOf(i, request, tokens[i]);
  return tokens;
}

int32_t Fleet::CachedTokensOn(size_t idx, const PlacedRequest& request) const {
  return CachedTokensOf(idx, request, prefixes_.MatchOn(idx, request.prefix));
}

Fleet::Adapter& Fleet::AdapterAt(int32_t adapter) {
  CHECK_GE(adapter, 0);
  const auto idx = static_cast<size_t>(adapter);
  if (idx >= adapters_.size()) adapters_.resize(std::max(idx + 1, adapters_.size() * 2));
  return adapters_[idx];
}

void Fleet::Arrive(int32_t adapter, int64_t now_ns) {
  if (adapter < 0) return;
  Adapter& one = AdapterAt(adapter);
  one.arrivals *= std::exp(-SecondsBetween(one.arrivals_ns, now_ns) / kRateSeconds);
  one.arrivals += 1.0;
  one.arrivals_ns = now_ns;
}

double Fleet::RateOf(int32_t adapter, int64_t now_ns) const {
  if (adapter < 0 || static_cast<size_t>(adapter) >= adapters_.size()) return 0.0;
  const Adapter& one = adapters_[static_cast<size_t>(adapter)];
  if (one.arrivals <= 0.0) return 0.0;
  return one.arrivals * std::exp(-SecondsBetween(one.arrivals_ns, now_ns) / kRateSeconds) /
         kRateSeconds;
}

bool Fleet::IsForgotten(int32_t adapter, int64_t now_ns) const {
  if (adapter < 0 || static_cast<size_t>(adapter) >= adapters_.size()) return true;
  const Adapter& one = adapters_[static_cast<size_t>(adapter)];
  return one.holders.empty() && one.num_in_flight == 0 && RateOf(adapter, now_ns) < kForgottenRate;
}

double Fleet::LoadOf(int32_t adapter, int64_t now_ns) const {
  if (adapter < 0 || static_cast<size_t>(adapter) >= adapters_.size()) return 0.0;
  const double seen = adapters_[static_cast<size_t>(adapter)].num_in_flight;
  return std::max(seen, RateOf(adapter, now_ns) * mean_seconds_);
}

// Without requests there so far.
void Fleet::Hold(size_t idx, int32_t adapter) {
  Runner& runner = runners_[idx];
  const auto [it, is_new] = runner.held.try_emplace(adapter);
  if (!is_new) return;
  it->second.place = runner.idle.insert(runner.idle.end(), adapter);
  std::vector<int32_t>& holders = AdapterAt(adapter).holders;
  const auto number = static_cast<int32_t>(idx);
  holders.insert(std::lower_bound(holders.begin(), holders.end(), number), number);
}

void Fleet::LetGo(size_t idx, int32_t adapter) {
  Runner& runner = runners_[idx];
  const auto it = runner.held.find(adapter);
  SetComing(idx, it->second, false);
  runner.idle.erase(it->second.place);
  runner.held.erase(it);
  std::vector<int32_t>& holders = AdapterAt(adapter).holders;
  holders.erase(std::lower_bound(holders.begin(), holders.end(), static_cast<int32_t>(idx)));
}

// A request more, or one less.
void Fleet::Use(size_t idx, int32_t adapter, int32_t change) {
  Runner& runner = runners_[idx];
  Held& held = runner.held.at(adapter);
  if (held.num_in_flight == 0) runner.idle.erase(held.place);
  held.num_in_flight += change;
  AdapterAt(adapter).num_in_flight += change;
  if (held.num_in_flight > 0) return;
  held.place = runner.idle.insert(runner.idle.end(), adapter);
  SetComing(idx, held, false);  // no request there asks for it any more
}

void Fleet::SetComing(size_t idx, Held& held, bool is_coming) {
  runners_[idx].num_coming += (is_coming ? 1 : 0) - (held.is_coming ? 1 : 0);
  held.is_coming = is_coming;
}

int64_t Fleet::NumBeyondPlaces(size_t idx) const {
  const Runner& runner = runners_[idx];
  const int32_t held_max = runner.state.adapters_max;
  if (held_max <= 0) return 0;
  return std::max<int64_t>(0, std::ssize(runner.held) - std::ssize(runner.idle) - held_max);
}

void Fleet::LetGoBeyondPlaces(size_t idx) {
  Runner& runner = runners_[idx];
  const int32_t held_max = runner.state.adapters_max;
  while (held_max > 0 && !runner.idle.empty() &&
         std::ssize(runner.held) - runner.num_coming > held_max) {
    LetGo(idx, runner.idle.front());
  }
}

int32_t Fleet::FirstToGo(size_t idx) const {
  const Runner& runner = runners_[idx];
  const int32_t held_max = runner.state.adapters_max;
  const int64_t num_beyond = std::ssize(runner.held) + 1 - held_max;
  if (held_max <= 0 || num_beyond <= 0 || num_beyond > std::ssize(runner.idle)) return kBaseModel;
  return *std::next(runner.idle.begin(), num_beyond - 1);
}

void Fleet::CountTenant(size_t idx, const PlacedRequest& request, int32_t change) {
  Tenant& tenant = tenants_[request.tenant];
  if (tenant.num_in_flight > 0) tenant_weights_ -= tenant.weight;
  tenant.num_in_flight += change;
  if (change > 0) tenant.weight = request.tenant_weight;
  const auto number = static_cast<int32_t>(idx);
  auto at = std::lower_bound(tenant.on.begin(), tenant.on.end(), number,
                             [](const RunnerCount& a, int32_t b) { return a.runner < b; });
  if (at == tenant.on.end() || at->runner != number) at = tenant.on.insert(at, {number, 0});
  at->count += change;
  if (at->count == 0) tenant.on.erase(at);
  if (tenant.num_in_flight > 0) {
    tenant_weights_ += tenant.weight;
  } else {
    tenants_.erase(request.tenant);
    if (tenants_.empty()) tenant_weights_ = 0.0;  // what rounding left
  }
}

void Fleet::Place(size_t idx, const PlacedRequest& request) {
  Runner& runner = runners_[idx];
  const auto at =
      std::lower_bound(runner.ranks.begin(), runner.ranks.end(), std::pair(request.rank, 0));
  if (at != runner.ranks.end() && at->first == request.rank) {
    ++at->second;
  } else {
    runner.ranks.insert(at, {request.rank, 1});
  }
  ++runner.num_own;
  ++num_own_;
  runner.sum_of_ranks += request.rank;
  sum_of_ranks_ += request.rank;
  runner.undrawn_tokens += request.prompt_tokens - request.cached_tokens;
  if (runner.state.has_prefix_cache) prefixes_.Add(idx, request.prefix);
  mean_prompt_tokens_ += kEndedShare * (request.prompt_tokens - mean_prompt_tokens_);
  runner.prompt_tokens += request.prompt_tokens;
  prompt_tokens_ += request.prompt_tokens;
  CountTenant(idx, request, 1);
  if (request.adapter < 0) return;
  if (!runner.held.contains(request.adapter)) {
    Hold(idx, request.adapter);
    SetComing(idx, runner.held.at(request.adapter), true);
  }
  Use(idx, request.adapter, 1);
}

void Fleet::Draw(size_t idx, const PlacedRequest& request) {
  runners_[idx].undrawn_tokens -= request.prompt_tokens - request.cached_tokens;
  if (request.adapter < 0) return;
  SetComing(idx, runners_[idx].held.at(request.adapter), false);
  LetGoBeyondPlaces(idx);
}

void Fleet::Leave(size_t idx, const PlacedRequest& request, bool has_drawn) {
  Runner& runner = runners_[idx];
  const auto at =
      std::lower_bound(runner.ranks.begin(), runner.ranks.end(), std::pair(request.rank, 0));
  CHECK(at != runner.ranks.end() && at->first == request.rank) << "it was never placed there";
  if (--at->second == 0) runner.ranks.erase(at);
  --runner.num_own;
  --num_own_;
  runner.sum_of_ranks -= request.rank;
  sum_of_ranks_ -= request.rank;
  runner.prompt_tokens -= request.prompt_tokens;
  prompt_tokens_ -= request.prompt_tokens;
  if (!has_drawn) runner.undrawn_tokens -= request.prompt_tokens - request.cached_tokens;
  CountTenant(idx, request, -1);
  if (request.adapter < 0) return;
  Use(idx, request.adapter, -1);
  LetGoBeyondPlaces(idx);
}

void Fleet::End(double seconds, int64_t output_tokens) {
  mean_seconds_ += kEndedShare * (seconds - mean_seconds_);
  mean_output_tokens_ += kEndedShare * (static_cast<double>(output_tokens) - mean_output_tokens_);
}

void Fleet::SetHeld(size_t idx, std::span<const int32_t> adapters, bool is_whole,
                    std::span<const int32_t> coming) {
  Runner& runner = runners_[idx];
  if (is_whole) {
    std::vector<int32_t> said(adapters.begin(), adapters.end());
    said.insert(said.end(), coming.begin(), coming.end());
    std::sort(said.begin(), said.end());
    std::vector<int32_t> gone;
    for (const int32_t adapter : runner.idle) {
      if (!std::binary_search(said.begin(), said.end(), adapter)) gone.push_back(adapter);
    }
    for (const int32_t adapter : gone) LetGo(idx, adapter);
  }
  for (const int32_t adapter : adapters) {
    Hold(idx, adapter);
    SetComing(idx, runner.held.at(adapter), false);
  }
  // This owner knows the loads for its own requests; loads for others' are not counted as coming.
  for (const int32_t adapter : coming) Hold(idx, adapter);
}

bool Fleet::Holds(size_t idx, int32_t adapter) const {
  return adapter < 0 || runners_[idx].held.contains(adapter);
}

std::span<const int32_t> Fleet::Holders(int32_t adapter) const {
  if (adapter < 0 || static_cast<size_t>(adapter) >= adapters_.size()) return {};
  return adapters_[static_cast<size_t>(adapter)].holders;
}

BatchRanks Fleet::RanksOf(size_t idx) const {
  const Runner& runner = runners_[idx];
  BatchRanks ranks = {.num_requests = std::max(runner.state.num_requests, runner.num_own),
                      .sum = runner.sum_of_ranks,
                      .largest = runner.ranks.empty() ? 0 : runner.ranks.back().first};
  const int64_t num_others = ranks.num_requests - runner.num_own;
  if (num_others == 0 || num_own_ == 0) return ranks;
  const int64_t mean = sum_of_ranks_ / num_own_;
  ranks.sum += num_others * mean;
  ranks.largest = std::max(ranks.largest, static_cast<int32_t>(mean));
  return ranks;
}

double Fleet::ShareOfOthers(size_t idx) const {
  const Runner& runner = runners_[idx];
  const int64_t num_others = runner.state.num_requests - runner.num_own;
  if (num_others <= 0) return 0.0;
  return static_cast<double>(num_others) / static_cast<double>(runner.state.num_requests);
}

double Fleet::PromptTokensOf(size_t idx) const {
  const Runner& runner = runners_[idx];
  const auto own = static_cast<double>(runner.prompt_tokens);
  const int64_t num_others = runner.state.num_requests - runner.num_own;
  if (num_others <= 0 || num_own_ == 0) return own;
  return own + static_cast<double>(num_others * prompt_tokens_) / static_cast<double>(num_own_);
}

std::span<const RunnerCount> Fleet::TenantRequests(uint64_t tenant) const {
  const auto it = tenants_.find(tenant);
  if (it == tenants_.end()) return {};
  return it->second.on;
}

double Fleet::Pressure(uint64_t tenant, float weight) const {
  const auto it = tenants_.find(tenant);
  if (it == tenants_.end() || tenants_.size() < 2) return 1.0;
  const double others = tenant_weights_ - it->second.weight;
  const double share = weight / (others + weight);
  return std::max(
      1.0, static_cast<double>(it->second.num_in_flight) / (share * static_cast<double>(num_own_)));
}

}  // namespace graft
