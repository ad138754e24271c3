#include "request/fake_catalog.h"

#include <chrono>
#include <utility>

#include "base/nearest_names.h"

namespace graft {
namespace {

// Only a test that fails waits so long.
constexpr std::chrono::seconds kListsPatience{120};

}  // namespace

FakeCatalog::FakeCatalog() {
  for (const std::string name : {"austen", "doyle", "doyle-large"}) {
    adapters_[name] = {.name = name,
                       .hash = "hash-of-" + name,
                       .path = "/adapters/" + name,
                       .rank_max = 16,
                       .bytes = 1000,
                       .loaded_at = 1700000000};
  }
}

void FakeCatalog::SetText(const std::string& name, AdapterText text) {
  std::lock_guard lock(mutex_);
  adapters_.at(name).text = ShareAdapterText(std::move(text));
}

bool FakeCatalog::WaitForLists(int32_t count) const {
  const auto deadline = std::chrono::steady_clock::now() + kListsPatience;
  while (num_lists_ < count && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return num_lists_ >= count;
}

std::vector<AdapterInfo> FakeCatalog::ListAfter(const std::string& name, size_t infos_max) const {
  ++num_lists_;
  const std::lock_guard wait(slow_list);
  std::lock_guard lock(mutex_);
  std::vector<AdapterInfo> list;
  for (auto it = adapters_.upper_bound(name); it != adapters_.end() && list.size() < infos_max;
       ++it) {
    list.push_back(it->second);
  }
  return list;
}

std::string FakeCatalog::NamesNear(const std::string& name, const NameFilter& allows) const {
  std::vector<std::string> names = {"demo"};
  for (const AdapterInfo& info : List()) names.push_back(info.name);
  std::erase_if(names, [&](const std::string& known) { return allows && !allows(known); });
  return NearestNames(name, names);
}

Result<AdapterInfo> FakeCatalog::Find(const std::string& name) const {
  last_finder_ = std::this_thread::get_id();
  std::lock_guard lock(mutex_);
  const auto it = adapters_.find(name);
  if (it == adapters_.end()) return NotFoundError("no adapter '" + name + "'");
  return it->second;
}

AdapterState FakeCatalog::StateOf(const AdapterInfo& adapter) const {
  return adapter.name == "austen" ? AdapterState::kResident : AdapterState::kHost;
}

Result<AdapterInfo> FakeCatalog::Load(const AdapterLoad& load) {
  const auto& [name, path, replace, tenant, hash, owner, revision, is_looked_up] = load;
  if (path == "good/slow") const std::lock_guard wait(slow_folder);
  std::lock_guard lock(mutex_);
  if (path.find("..") != std::string::npos || path.starts_with("/")) {
    return PermissionDeniedError("path '" + path + "' is outside /srv/adapters");
  }
  if (path == "broken") return InvalidArgumentError("/srv/adapters/broken/adapter_config.json: []");
  if (path == "misshapen") return InvalidArgumentError(path + ": tensor a is too short");
  if (path == "full") return FailedPreconditionError("the server lists 3 adapters already");
  if (path == "unwritten") return InternalError("adapter registry /var/table: cannot write");
  if (!path.starts_with("good/")) {
    return NotFoundError("path '" + path + "' does not exist under /srv/adapters");
  }
  if (adapters_.count(name) != 0 && !replace) {
    return AlreadyExistsError("the name '" + name + "' is taken");
  }
  adapters_[name] = {.name = name,
                     .hash = "hash-of-" + path,
                     .path = path,
                     .rank_max = 8,
                     .tenant = tenant,
                     .owner = owner,
                     .revision = revision,
                     .is_looked_up = is_looked_up};
  return adapters_[name];
}

Status FakeCatalog::Unload(const std::string& name, const std::string& /*tenant*/) {
  std::lock_guard lock(mutex_);
  if (adapters_.erase(name) == 0) return NotFoundError("no adapter '" + name + "'");
  return OkStatus();
}

}  // namespace graft
