#include "cluster/source_runners.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/sha256.h"
#include "rpc/adapter_client.h"

namespace graft {
namespace {

// Another machine may have what this one lacks: room, a pattern, a free place.
bool IsTheMachines(const Status& status) {
  return status.code() == StatusCode::kFailedPrecondition ||
         status.code() == StatusCode::kResourceExhausted || status.code() == StatusCode::kCancelled;
}

}  // namespace

std::vector<std::string> RunnersToFetch(const ClusterView& view, const std::string& source,
                                        const std::string& name) {
  std::vector<std::pair<std::string, std::string>> found;  // digest, address
  for (const auto& [id, runner] : view.runners) {
    const auto& has = runner.sources;
    if (runner.draining || std::find(has.begin(), has.end(), source) == has.end()) continue;
    found.emplace_back(Sha256Of(id + "\n" + source + "\n" + name), runner.address);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> addresses;
  for (auto& [digest, address] : found) addresses.push_back(std::move(address));
  return addresses;
}

SourceRunners::SourceRunners(const ClusterWatcher& watcher, TlsFiles tls)
    : watcher_(watcher), tls_(std::move(tls)) {}

Result<SourceFolder> SourceRunners::Fetch(const SourceOrder& order,
                                          const std::atomic<bool>& is_cancelled) {
  const auto view = watcher_.view();
  // Before the fetch: what cannot be registered would be fetched in vain.
  if (!view->away.ok()) {
    return UnavailableError("nothing is fetched while etcd is away: " + view->away.message());
  }
  Status last = FailedPreconditionError("no runner of this cluster has --source '" + order.source +
                                        "': start runners with the frontends' sources");
  for (const std::string& address : RunnersToFetch(*view, order.source, order.rest)) {
    ASSIGN_OR_RETURN(const auto client, AdapterClient::Make(address, tls_));
    Result<SourceFolder> answer = UnavailableError("no answer");
    const Status asked = client->FetchSource(order, is_cancelled, &answer);
    if (is_cancelled) return CancelledError("the fetch was cancelled");
    if (asked.ok() && answer.ok()) {
      Remember(answer->path, address);
      return answer;
    }
    last = asked.ok() ? answer.status() : asked;
    if (asked.ok() && !IsTheMachines(last)) return last;
    LOG_WARN("runner {} did not fetch '{}/{}', the next one is asked: {}", address, order.source,
             order.rest, last.message());
  }
  return last;
}

Status SourceRunners::Drop(const std::string& source, const std::string& path) {
  const std::string address = FetcherOf(path);
  if (address.empty()) return OkStatus();
  ASSIGN_OR_RETURN(const auto client, AdapterClient::Make(address, tls_));
  RETURN_IF_ERROR(client->DropSource(source, path));
  std::lock_guard lock(mutex_);
  fetched_by_.erase(path);
  return OkStatus();
}

std::vector<std::string> SourceRunners::names() const {
  std::set<std::string> names;
  for (const auto& [id, runner] : watcher_.view()->runners) {
    names.insert(runner.sources.begin(), runner.sources.end());
  }
  return {names.begin(), names.end()};
}

std::string SourceRunners::FetcherOf(const std::string& path) const {
  std::lock_guard lock(mutex_);
  const auto it = fetched_by_.find(path);
  return it == fetched_by_.end() ? "" : it->second;
}

void SourceRunners::Remember(const std::string& path, const std::string& address) {
  // What was forgotten stays on its machine, as what frontends before this one had fetched.
  constexpr size_t kRememberedMax = 100'000;
  std::lock_guard lock(mutex_);
  if (fetched_by_.size() >= kRememberedMax) fetched_by_.erase(fetched_by_.begin());
  fetched_by_[path] = address;
}

}  // namespace graft
