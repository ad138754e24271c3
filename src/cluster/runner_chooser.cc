#include "cluster/runner_chooser.h"

#include <algorithm>

#include "base/prefix_hash.h"
#include "base/random.h"

namespace graft {
namespace {

// Adapters of runners that do not say what their devices hold are thought to be there, so many of
// them.
constexpr int32_t kHeldMax = 1024;
// Adapters that one Plan looks at, whether they may be forgotten.
constexpr size_t kForgetLooks = 256;

// The same in every process.
uint64_t IdOf(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return RandomBits(hash, text.size());
}

}  // namespace

RunnerChooser::RunnerChooser(const PlacementOptions& options)
    : policy_(MakePlacementPolicy(options)) {}

int32_t RunnerChooser::NumberOf(const std::string& hash) {
  if (hash.empty()) return kBaseModel;
  const auto [it, is_new] = numbers_.try_emplace(hash, static_cast<int32_t>(hashes_.size()));
  if (!is_new) return it->second;
  if (free_.empty()) {
    hashes_.push_back(hash);
    return it->second;
  }
  it->second = free_.back();
  free_.pop_back();
  hashes_[static_cast<size_t>(it->second)] = hash;
  return it->second;
}

void RunnerChooser::ForgetAdapters(int64_t now_ns) {
  for (size_t i = 0; i < std::min(kForgetLooks, hashes_.size()); ++i) {
    looked_at_ = (looked_at_ + 1) % hashes_.size();
    const auto number = static_cast<int32_t>(looked_at_);
    std::string& hash = hashes_[looked_at_];
    if (hash.empty() || !fleet_.IsForgotten(number, now_ns)) continue;
    numbers_.erase(hash);
    hash.clear();
    free_.push_back(number);
  }
}

// The names of the prompt's pages. Empty if an adapter acts from a later position only: which pages
// it leaves alone, only runners know.
std::vector<uint64_t> RunnerChooser::PrefixOf(const Request& request) const {
  if (page_tokens_ <= 0 || !policy_->reads_prefixes() || request.activation_position > 0) return {};
  std::string tenant = request.tenant;
  if (!request.cache_salt.empty()) tenant += '\0' + request.cache_salt;
  if (request.adds_adapters()) return {};  // runners name them by a content that they alone know
  return PrefixNames(EmptyPrefixName(tenant, request.adapter_hash(), 0, page_tokens_),
                     request.prompt_tokens, page_tokens_, kPrefixPagesMax);
}

PlacedRequest RunnerChooser::Arrive(const Request& request, int32_t rank, int64_t now_ns) {
  const std::string hash = request.adapter_key();
  PlacedRequest placed;
  placed.adapter = NumberOf(hash);
  placed.adapter_id = IdOf(hash);
  placed.rank = rank;
  placed.tenant = IdOf(request.tenant);
  placed.tenant_weight = request.tenant_weight;
  placed.prompt_tokens = static_cast<int32_t>(request.prompt_tokens.size());
  placed.output_tokens_max = request.sampling.tokens_max;
  placed.prefix = PrefixOf(request);
  policy_->OnArrival(placed);
  fleet_.Arrive(placed.adapter, now_ns);
  return placed;
}

void RunnerChooser::SetNumRunners(size_t num_runners) {
  fleet_.SetNumRunners(num_runners);
  addresses_.resize(num_runners);
  told_.resize(num_runners);
}

void RunnerChooser::Look(std::span<const RemoteRunner> runners) {
  if (runners.size() > fleet_.num_runners()) SetNumRunners(runners.size());
  for (size_t i = 0; i < runners.size(); ++i) {
    const RemoteRunner& runner = runners[i];
    RunnerState& state = fleet_.runner(i);
    if (addresses_[i] != runner.address) {
      addresses_[i] = runner.address;
      state.id = IdOf(runner.address);
    }
    state.is_open = runner.IsOpen();
    state.batch_max = runner.facts.batch_max;
    state.adapters_max = runner.facts.adapters_max > 0 ? runner.facts.adapters_max : kHeldMax;
    state.page_tokens = runner.facts.page_tokens;
    state.has_prefix_cache = runner.facts.has_prefix_cache;
    if (runner.facts.page_tokens > 0) page_tokens_ = runner.facts.page_tokens;
    state.pages_free = runner.load.pages_free - runner.pages_sent;
    state.num_requests = runner.is_up ? runner.NumRequests() : 0;
    state.num_pages = runner.facts.num_pages;
    state.pages_used =
        runner.facts.num_pages > 0 ? runner.facts.num_pages - runner.load.pages_free : 0;
  }
}

int32_t RunnerChooser::Pick(std::span<const RemoteRunner> runners, std::span<const uint8_t> allowed,
                            const PlacedRequest& request, int64_t now_ns) {
  Look(runners);
  return policy_->Pick(fleet_, {.request = request, .allowed = allowed, .now_ns = now_ns});
}

void RunnerChooser::KeepWithRoom(std::span<const RemoteRunner> runners,
                                 const PlacedRequest& request, std::vector<uint8_t>* allowed) {
  Look(runners);
  const PlacementQuery query = {.request = request};
  for (size_t i = 0; i < runners.size(); ++i) {
    if (runners[i].is_spare || !HasRoom(fleet_, i, query)) (*allowed)[i] = 0;
  }
}

void RunnerChooser::LeaveSpareOut(std::span<const RemoteRunner> runners,
                                  const PlacedRequest& request, std::vector<uint8_t>* allowed) {
  const bool has_spare = std::any_of(runners.begin(), runners.end(),
                                     [](const RemoteRunner& runner) { return runner.is_spare; });
  if (!has_spare) return;
  std::vector<uint8_t> with_room = *allowed;
  KeepWithRoom(runners, request, &with_room);
  if (std::find(with_room.begin(), with_room.end(), 1) == with_room.end()) return;
  for (size_t i = 0; i < runners.size(); ++i) {
    if (runners[i].is_spare) (*allowed)[i] = 0;
  }
}

int32_t RunnerChooser::NumHolders(const std::string& hash) const {
  const auto number = numbers_.find(hash);
  if (number == numbers_.end()) return 0;
  return static_cast<int32_t>(fleet_.Holders(number->second).size());
}

void RunnerChooser::Forget(size_t runner) {
  if (runner >= fleet_.num_runners()) return;
  fleet_.Reset(runner);
  addresses_[runner].clear();
  told_[runner].clear();
}

void RunnerChooser::SetResident(size_t runner, std::span<const std::string> hashes, bool is_whole,
                                std::span<const std::string> loading) {
  if (runner >= fleet_.num_runners()) SetNumRunners(runner + 1);
  std::vector<std::string> told(hashes.begin(), hashes.end());
  told.emplace_back();
  told.insert(told.end(), loading.begin(), loading.end());
  if (told == told_[runner]) return;
  told_[runner] = std::move(told);
  fleet_.SetHeld(runner, NumbersOf(hashes), is_whole, NumbersOf(loading));
}

std::vector<int32_t> RunnerChooser::NumbersOf(std::span<const std::string> hashes) {
  std::vector<int32_t> numbers;
  for (const std::string& hash : hashes) {
    if (!hash.empty()) numbers.push_back(NumberOf(hash));
  }
  return numbers;
}

void RunnerChooser::SetPrefixes(size_t runner, std::span<const uint64_t> words) {
  if (!policy_->reads_prefixes() || words.size() != kPrefixClassWords) return;
  if (runner >= fleet_.num_runners()) SetNumRunners(runner + 1);
  fleet_.prefixes().Set(runner, words);
}

void RunnerChooser::Plan(std::span<const RemoteRunner> runners, int64_t now_ns) {
  Look(runners);
  policy_->Plan(fleet_);
  ForgetAdapters(now_ns);
}

}  // namespace graft
