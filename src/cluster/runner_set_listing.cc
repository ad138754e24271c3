// Which runners a RunnerSet has: those that etcd lists come, and those that are gone are forgotten.
// And what is counted of them and of their requests.
#include <algorithm>
#include <map>
#include <utility>

#include "base/log.h"
#include "cluster/runner_set.h"

namespace graft {

void RunnerSet::SetRunners(const std::vector<std::string>& runners) {
  std::lock_guard lock(mutex_);
  for (RunnerView& view : views_) view.is_listed = false;
  for (const std::string& address : runners) {
    const size_t idx = PlaceFor(address);
    views_[idx].is_listed = true;
    if (links_[idx] == nullptr && !ending_.contains(idx)) Call(idx);
  }
}

// Its own, or one that another has left.
size_t RunnerSet::PlaceFor(const std::string& address) {
  for (const std::string& wanted : {address, std::string()}) {
    const auto known = std::find_if(views_.begin(), views_.end(),
                                    [&](const RunnerView& view) { return view.address == wanted; });
    if (known == views_.end()) continue;
    known->address = address;
    return static_cast<size_t>(known - views_.begin());
  }
  views_.push_back({.address = address});
  limits_of_.emplace_back();
  why_down_.emplace_back();
  links_.emplace_back();
  return views_.size() - 1;
}

void RunnerSet::Call(size_t runner) {
  const Status added = AddLink(runner);
  if (!added.ok()) LOG_WARN("runner {} is not called: {}", views_[runner].address, added.message());
}

// Links that are not needed any more. The caller ends them outside the lock, since their threads
// may wait for it.
std::vector<std::unique_ptr<RunnerLink>> RunnerSet::TakeDeadLinks() {
  std::vector<std::unique_ptr<RunnerLink>> dead;
  for (size_t i = 0; i < views_.size(); ++i) {
    if (views_[i].is_listed || views_[i].is_up || links_[i] == nullptr) continue;
    dead.push_back(std::move(links_[i]));
    ending_.insert(i);
  }
  return dead;
}

// After the ends of the links that TakeDeadLinks gave. A runner may be listed again by now.
void RunnerSet::Forget() {
  for (const size_t runner : std::exchange(ending_, {})) {
    why_down_[runner] = OkStatus();
    catalog_.SetRunner(runner, {});
    for (auto& [id, one] : in_flight_) {
      std::erase(one->refused, runner);
      std::erase(one->lacking, runner);
    }
    chooser_.Forget(runner);
    metrics_.ForgetRunner(views_[runner].address);
    const RunnerView left = std::exchange(views_[runner], RunnerView());
    views_[runner].is_listed = left.is_listed;
    if (!left.is_listed) continue;
    views_[runner].address = left.address;
    Call(runner);
  }
}

int32_t RunnerSet::NumHolders(const std::string& hash) const {
  std::lock_guard lock(mutex_);
  return chooser_.NumHolders(hash);
}

MissingContent RunnerSet::Missing(const std::string& hash, const std::string& path,
                                  const std::string& pool) const {
  MissingContent missing = {.hash = hash, .path = path};
  std::vector<std::pair<int64_t, std::string>> runners;
  for (const RunnerView& view : views_) {
    if (!IsInPool(view, pool) || view.draining) continue;
    runners.emplace_back(view.load.requests_waiting + view.load.requests_running, view.address);
  }
  std::sort(runners.begin(), runners.end());
  for (auto& [requests, address] : runners) missing.runners.push_back(std::move(address));
  return missing;
}

std::vector<MissingContent> RunnerSet::FindMissing() const {
  std::lock_guard lock(mutex_);
  std::map<std::pair<std::string, std::string>, MissingContent> found;  // by content and pool
  for (const InFlight* const one : waiting_) {
    for (size_t i = 0; i < one->request.adapters.size(); ++i) {
      const std::string& hash = one->request.adapters[i].hash;
      if (!IsMissing(hash, one->pool) || found.contains({hash, one->pool})) continue;
      found[{hash, one->pool}] = Missing(hash, one->adapter_paths[i], one->pool);
    }
  }
  std::vector<MissingContent> list;
  for (auto& [key, missing] : found) list.push_back(std::move(missing));
  return list;
}

std::string RunnerSet::LabelOf(const std::string& hash) const {
  constexpr size_t kDigits = 12;
  if (hash.find('*') != std::string::npos) return "sum";  // see Request::adapter_key
  const auto registered = registry_.adapters.find(hash);
  const std::string name =
      registered != registry_.adapters.end() ? registered->second.name : catalog_.NameOf(hash);
  return name.empty() ? hash.substr(0, kDigits) : name;
}

void RunnerSet::CountPlaced(const InFlight& one) {
  FrontendMetrics::Meets meets = FrontendMetrics::Meets::kBase;
  if (!one.request.adapters.empty()) {
    meets = chooser_.Holds(one.runner, one.placed) ? FrontendMetrics::Meets::kResident
                                                   : FrontendMetrics::Meets::kCold;
  }
  metrics_.Placed(views_[one.runner].address, meets);
}

void RunnerSet::CountToken(InFlight& one) {
  const int64_t now_ns = NowNs();
  one.counters->output_tokens->Increment();
  if (one.request.output_tokens.size() == 1) {
    metrics_.FirstToken(NsToSeconds(now_ns - one.accepted_ns));
  } else if (one.last_token_ns != 0) {
    metrics_.NextToken(NsToSeconds(now_ns - one.last_token_ns));
  }
  one.last_token_ns = now_ns;
}

}  // namespace graft
