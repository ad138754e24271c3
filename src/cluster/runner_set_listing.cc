// Which runners a RunnerSet has: those that etcd lists come, and those that are gone are forgotten.
// And which contents of adapters are known.
#include <map>
#include <utility>

#include "base/log.h"
#include "cluster/runner_set.h"

namespace graft {

void RunnerSet::SetRunners(const std::vector<std::string>& runners) {
  std::lock_guard lock(mutex_);
  runners_.Unlist();
  for (const std::string& address : runners) {
    const size_t idx = runners_.PlaceFor(address);
    runners_[idx].is_listed = true;
    if (runners_[idx].link == nullptr && !runners_[idx].is_ending) Call(idx);
  }
}

Status RunnerSet::AddLink(size_t runner) {
  ASSIGN_OR_RETURN(runners_[runner].link, world_.start_link({.address = runners_[runner].address,
                                                             .tls = options_.tls,
                                                             .base = options_.base,
                                                             .frontend = world_.frontend},
                                                            runner, *this));
  return OkStatus();
}

void RunnerSet::Call(size_t runner) {
  const Status added = AddLink(runner);
  if (added.ok()) return;
  LOG_WARN("runner {} is not called: {}", runners_[runner].address, added.message());
}

// Runners that are ending, after their links' ends. One of them may be listed again by now.
void RunnerSet::Forget() {
  for (size_t i = 0; i < runners_.size(); ++i) {
    if (!runners_[i].is_ending) continue;
    catalog_.SetRunner(i, {});
    requests_.ForgetRefusals(i);
    chooser_.Forget(i);
    metrics_.ForgetRunner(runners_[i].address);
    runners_.Forget(i);
    if (runners_[i].is_listed) Call(i);
  }
}

size_t RunnerSet::num_known() const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(runners_.NumKnown());
}

void RunnerSet::SetRegistry(RegistryFacts registry) {
  std::lock_guard lock(mutex_);
  registry_ = std::move(registry);
}

bool RunnerSet::IsMissing(const std::string& hash, const std::string& pool) const {
  const AdapterUse use = {.hash = hash};
  return !registry_.adapters.contains(hash) && !runners_.AnyHas(pool, {&use, 1});
}

std::vector<MissingContent> RunnerSet::FindMissing() const {
  std::lock_guard lock(mutex_);
  std::map<std::pair<std::string, std::string>, MissingContent> found;  // by content and pool
  for (const InFlight* const one : requests_.waiting()) {
    for (size_t i = 0; i < one->request.adapters.size(); ++i) {
      const std::string& hash = one->request.adapters[i].hash;
      if (!IsMissing(hash, one->pool) || found.contains({hash, one->pool})) continue;
      found[{hash, one->pool}] = {
          .hash = hash, .path = one->adapter_paths[i], .runners = runners_.IdlestFirst(one->pool)};
    }
  }
  std::vector<MissingContent> list;
  for (auto& [key, missing] : found) list.push_back(std::move(missing));
  return list;
}

// What metrics call the content.
std::string RunnerSet::LabelOf(const std::string& hash) const {
  constexpr size_t kDigits = 12;
  if (hash.find('*') != std::string::npos) return "sum";  // see Request::adapter_key
  const auto registered = registry_.adapters.find(hash);
  const std::string name =
      registered != registry_.adapters.end() ? registered->second.name : catalog_.NameOf(hash);
  return name.empty() ? hash.substr(0, kDigits) : name;
}

}  // namespace graft
