#include "cluster/remote_runner.h"

#include <algorithm>

namespace graft {

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
