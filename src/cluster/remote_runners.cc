#include "cluster/remote_runners.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace graft {

RemoteRunners::RemoteRunners(const std::vector<std::string>& addresses)
    : runners_(addresses.size()) {
  for (size_t i = 0; i < addresses.size(); ++i) runners_[i].address = addresses[i];
}

size_t RemoteRunners::PlaceFor(const std::string& address) {
  for (const std::string& wanted : {address, std::string()}) {
    const auto known = std::find_if(runners_.begin(), runners_.end(),
                                    [&](const auto& runner) { return runner.address == wanted; });
    if (known == runners_.end()) continue;
    known->address = address;
    return static_cast<size_t>(known - runners_.begin());
  }
  runners_.emplace_back().address = address;
  return runners_.size() - 1;
}

void RemoteRunners::Unlist() {
  for (RemoteRunner& runner : runners_) runner.is_listed = false;
}

void RemoteRunners::MarkSpare(const std::vector<std::string>& addresses) {
  for (RemoteRunner& runner : runners_) {
    const bool is_spare =
        std::find(addresses.begin(), addresses.end(), runner.address) != addresses.end();
    if (is_spare != runner.is_spare) {
      LOG_INFO("runner {} {}", runner.address,
               is_spare ? "is to be emptied: fewer runners are wanted" : "is wanted again");
    }
    runner.is_spare = is_spare;
  }
}

std::vector<std::unique_ptr<RunnerLink>> RemoteRunners::TakeAllLinks() {
  std::vector<std::unique_ptr<RunnerLink>> links;
  for (RemoteRunner& runner : runners_) {
    links.push_back(std::move(runner.link));
    runner.is_up = false;
    runner.is_ending = true;
  }
  return links;
}

std::vector<std::unique_ptr<RunnerLink>> RemoteRunners::TakeDeadLinks() {
  std::vector<std::unique_ptr<RunnerLink>> dead;
  for (RemoteRunner& runner : runners_) {
    if (runner.is_listed || runner.is_up || runner.link == nullptr) continue;
    dead.push_back(std::move(runner.link));
    runner.is_ending = true;
  }
  return dead;
}

void RemoteRunners::Forget(size_t idx) {
  const RemoteRunner left = std::exchange(runners_[idx], RemoteRunner());
  runners_[idx].is_listed = left.is_listed;
  if (left.is_listed) runners_[idx].address = left.address;
}

Status RemoteRunners::WhyNoneIsUp() const {
  std::string why = "no runner is up; start one with graft runner";
  for (const RemoteRunner& runner : runners_) {
    if (runner.is_up) return OkStatus();
    if (runner.why_down.ok()) continue;
    why += "; " + runner.address + ": " + runner.why_down.message();
  }
  return UnavailableError(why);
}

GeneratorLimits RemoteRunners::LimitsOfAll(GeneratorLimits own) const {
  for (const RemoteRunner& runner : runners_) {
    if (!runner.is_up) continue;
    own.context_tokens_max =
        std::min(own.context_tokens_max, runner.facts.limits.context_tokens_max);
    own.vocab_size = std::min(own.vocab_size, runner.facts.limits.vocab_size);
  }
  return own;
}

int32_t RemoteRunners::NumKnown() const {
  return static_cast<int32_t>(
      std::count_if(runners_.begin(), runners_.end(),
                    [](const auto& runner) { return !runner.address.empty(); }));
}

bool RemoteRunners::AnyHas(const std::string& pool, std::span<const AdapterUse> adapters) const {
  return std::any_of(runners_.begin(), runners_.end(), [&](const RemoteRunner& runner) {
    return runner.IsInPool(pool) && runner.HasAdapters(adapters);
  });
}

std::vector<std::string> RemoteRunners::IdlestFirst(const std::string& pool) const {
  std::vector<std::pair<int64_t, std::string>> found;
  for (const RemoteRunner& runner : runners_) {
    if (!runner.IsInPool(pool) || runner.draining) continue;
    found.emplace_back(runner.load.requests_waiting + runner.load.requests_running, runner.address);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> addresses;
  for (auto& [requests, address] : found) addresses.push_back(std::move(address));
  return addresses;
}

Status RemoteRunners::CheckIntegrity(std::span<const int64_t> num_in_flight) const {
  for (size_t i = 0; i < runners_.size(); ++i) {
    const RemoteRunner& runner = runners_[i];
    const auto wrong = [&](const std::string& what) {
      return InternalError("runner " + std::to_string(i) + " (" + runner.address + ") " + what);
    };
    if (runner.num_in_flight != num_in_flight[i]) {
      return wrong("counts " + std::to_string(runner.num_in_flight) +
                   " requests in flight and has " + std::to_string(num_in_flight[i]));
    }
    if (!runner.is_up && num_in_flight[i] > 0) return wrong("is down with requests");
    if (runner.is_up && runner.link == nullptr) return wrong("is up without a link");
    if (runner.address.empty() && (runner.is_listed || runner.link != nullptr)) {
      return wrong("is free and has a link, or is listed");
    }
  }
  return OkStatus();
}

void RemoteRunner::ComeUp(RunnerFacts said) {
  is_up = true;
  why_down = OkStatus();
  facts = std::move(said);
  draining = false;
  load = {};
  has_told = false;
  undrawn_in_step.clear();
  num_sent = pages_sent = num_in_flight = 0;
}

bool RemoteRunner::Hear(const RunnerLoad& said, bool drains) {
  load = said;
  // These are the chooser's.
  load.prefixes = {};
  load.held.reset();
  has_told = true;
  num_sent = pages_sent = 0;
  const bool begins_to_drain = drains && !draining;
  draining |= drains;
  return begins_to_drain;
}

void RemoteRunner::Enter(int64_t tokens_max) {
  ++num_sent;
  ++num_in_flight;
  pages_sent += PagesFor(tokens_max);
}

int64_t RemoteRunner::NumRequests() const {
  return std::max(load.requests_waiting + load.requests_running + num_sent, num_in_flight);
}

bool RemoteRunner::HasAdapters(std::span<const AdapterUse> uses) const {
  return std::all_of(uses.begin(), uses.end(),
                     [this](const AdapterUse& use) { return adapters.contains(use.hash); });
}

bool RemoteRunner::IsInPool(const std::string& pool) const {
  return is_up && (pool.empty() || facts.arithmetic_id == pool);
}

int64_t RemoteRunner::PagesFor(int64_t tokens) const {
  if (facts.page_tokens <= 0) return 0;
  return (tokens + facts.page_tokens - 1) / facts.page_tokens;
}

bool RemoteRunner::HasPagesFor(int64_t tokens) const {
  const int64_t pages = PagesFor(tokens);
  return pages > 0 && load.requests_waiting == 0 && load.pages_free - pages_sent >= pages;
}

bool CanTake(const RemoteRunner& runner, size_t idx, const PlacementNeeds& needs) {
  return runner.IsOpen() && runner.IsInPool(needs.pool) && runner.HasAdapters(needs.adapters) &&
         std::find(needs.refused.begin(), needs.refused.end(), idx) == needs.refused.end();
}

std::vector<uint8_t> WhichCanTake(std::span<const RemoteRunner> runners,
                                  const PlacementNeeds& needs) {
  std::vector<uint8_t> can(runners.size());
  for (size_t i = 0; i < runners.size(); ++i) can[i] = CanTake(runners[i], i, needs) ? 1 : 0;
  return can;
}

bool AnyCan(std::span<const uint8_t> can) {
  return std::find(can.begin(), can.end(), 1) != can.end();
}

}  // namespace graft
