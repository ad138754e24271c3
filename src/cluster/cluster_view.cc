#include "cluster/cluster_view.h"

#include <set>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "cluster/cluster_keys.h"

namespace graft {
namespace {

constexpr int kViewFormat = 1;

// Keys that stand only while their owner lives.
bool IsOfTheLiving(const std::string& key) {
  return HasPrefix(key, kRunnersPrefix) || HasPrefix(key, kFrontendsPrefix) || key == LeaderKey() ||
         key == SlicesKey() || key == HintKey() || HasPrefix(key, kLeavingPrefix);
}

// The value, or the former one with a warning.
template <typename T>
bool TakeRecord(Result<T> read, const std::string& key, T* out) {
  if (!read.ok()) {
    LOG_WARN("etcd's record {} is not followed: {}", key, read.status().message());
    return false;
  }
  *out = std::move(read).value();
  return true;
}

std::map<std::string, double> ReadShares(const Json& json) {
  std::map<std::string, double> shares;
  if (!json.is_object()) return shares;
  for (const auto& [digest, requests] : json.items()) {
    if (requests.is_number()) shares[digest] = requests.get<double>();
  }
  return shares;
}

}  // namespace

std::vector<std::string> ClusterView::ContentHolders() const {
  std::vector<std::string> addresses;
  for (const auto& [id, runner] : runners) addresses.push_back(runner.address);
  for (const auto& [id, frontend] : frontends) {
    if (!frontend.contents_address.empty()) addresses.push_back(frontend.contents_address);
  }
  return addresses;
}

Json ClusterView::KeysList() const {
  Json list = Json::array();
  for (const auto& [digest, entry] : registry->keys) list.push_back(entry);
  return list;
}

void ClusterMirror::SetAll(const std::vector<EtcdKeyValue>& items, int64_t revision,
                           bool set_back) {
  std::set<std::string> there;
  for (const EtcdKeyValue& item : items) there.insert(item.key);
  std::vector<std::string> gone;
  // Those of an earlier reading have their time still: a second one does not shorten it.
  const std::set<std::string> unheard_before = std::exchange(unheard_, {});
  for (const auto& [key, text] : records_) {
    if (there.contains(key)) continue;
    const bool is_alive = HasPrefix(key, kRunnersPrefix) || HasPrefix(key, kFrontendsPrefix);
    if (is_alive && (set_back || unheard_before.contains(key))) {
      unheard_.insert(key);
    } else {
      gone.push_back(key);
    }
  }
  std::vector<EtcdChange> changes;
  for (const std::string& key : gone) changes.push_back({{key}, true});
  for (const EtcdKeyValue& item : items) {
    const auto known = records_.find(item.key);
    if (known == records_.end() || known->second != item.value) changes.push_back({item, false});
  }
  Apply(changes, revision);
}

void ClusterMirror::Apply(const std::vector<EtcdChange>& changes, int64_t revision) {
  revision_ = revision;
  next_registry_ = nullptr;
  for (const EtcdChange& change : changes) {
    unheard_.erase(change.item.key);
    if (change.deleted) {
      Erase(change.item.key);
    } else {
      Put(change.item.key, change.item.value);
    }
  }
  if (next_registry_ != nullptr) registry_ = std::move(next_registry_);
}

bool ClusterMirror::LetGo() {
  const std::set<std::string> unheard = std::exchange(unheard_, {});
  for (const std::string& key : unheard) Erase(key);
  return !unheard.empty();
}

void ClusterMirror::Put(const std::string& key, const std::string& text) {
  records_[key] = text;
  const auto registry = [this]() -> RegistryView& {
    if (next_registry_ == nullptr) next_registry_ = std::make_shared<RegistryView>(*registry_);
    return *next_registry_;
  };
  if (HasPrefix(key, kRunnersPrefix)) {
    TakeRecord(DecodeRunnerRecord(text), key, &runners_[NameInKey(key, kRunnersPrefix)]);
  } else if (HasPrefix(key, kFrontendsPrefix)) {
    TakeRecord(DecodeFrontendRecord(text), key, &frontends_[NameInKey(key, kFrontendsPrefix)]);
  } else if (HasPrefix(key, kAdaptersPrefix)) {
    AdapterVersion adapter;
    if (TakeRecord(DecodeAdapterVersion(text), key, &adapter)) {
      contents_[key] = adapter.entry.hash;
      registry().adapters[NameInKey(key, kAdaptersPrefix)] = std::move(adapter);
    }
  } else if (HasPrefix(key, kVersionsPrefix)) {
    AdapterVersion version;
    if (TakeRecord(DecodeAdapterVersion(text), key, &version)) contents_[key] = version.entry.hash;
  } else if (HasPrefix(key, kTenantsPrefix)) {
    TenantRecord tenant;
    if (TakeRecord(DecodeTenantRecord(text), key, &tenant)) {
      registry().tenants[NameInKey(key, kTenantsPrefix)] = std::move(tenant);
    }
  } else if (HasPrefix(key, kApiKeysPrefix)) {
    Json entry;
    if (TakeRecord(ParseJson(text), key, &entry)) {
      registry().keys[NameInKey(key, kApiKeysPrefix)] = std::move(entry);
      registry().requires_key = true;
    }
  } else if (key == KeysRequiredKey()) {
    registry().requires_key = registry().says_so = true;
  } else if (HasPrefix(key, kLeavingPrefix)) {
    leaving_[NameInKey(key, kLeavingPrefix)] = text;
  } else if (key == LeaderKey()) {
    leader_.leader_id = text;
  } else if (key == HintKey()) {
    ScaleHint hint;
    if (TakeRecord(DecodeScaleHint(text), key, &hint)) leader_.hint = std::move(hint);
  } else if (key == SlicesKey()) {
    Json json;
    if (!TakeRecord(ParseJson(text), key, &json) || !json.is_object()) return;
    EraseLeaders(key);
    for (const auto& [name, value] : json.items()) leader_.slices[name] = ReadShares(value);
  }
}

void ClusterMirror::EraseLeaders(const std::string& key) {
  if (key == LeaderKey()) leader_.leader_id.clear();
  if (key == SlicesKey()) leader_.slices.clear();
  if (key == HintKey()) leader_.hint.reset();
}

void ClusterMirror::Erase(const std::string& key) {
  records_.erase(key);
  contents_.erase(key);
  EraseLeaders(key);
  runners_.erase(HasPrefix(key, kRunnersPrefix) ? NameInKey(key, kRunnersPrefix) : "");
  frontends_.erase(HasPrefix(key, kFrontendsPrefix) ? NameInKey(key, kFrontendsPrefix) : "");
  leaving_.erase(HasPrefix(key, kLeavingPrefix) ? NameInKey(key, kLeavingPrefix) : "");
  const bool registered = HasPrefix(key, kAdaptersPrefix) || HasPrefix(key, kTenantsPrefix) ||
                          HasPrefix(key, kApiKeysPrefix) || key == KeysRequiredKey();
  if (!registered) return;
  if (next_registry_ == nullptr) next_registry_ = std::make_shared<RegistryView>(*registry_);
  if (HasPrefix(key, kAdaptersPrefix)) {
    next_registry_->adapters.erase(NameInKey(key, kAdaptersPrefix));
  } else if (HasPrefix(key, kTenantsPrefix)) {
    next_registry_->tenants.erase(NameInKey(key, kTenantsPrefix));
  } else if (HasPrefix(key, kApiKeysPrefix)) {
    next_registry_->keys.erase(NameInKey(key, kApiKeysPrefix));
  } else {
    next_registry_->says_so = false;
  }
}

std::shared_ptr<const ClusterView> ClusterMirror::View(const Status& away) const {
  auto view = std::make_shared<ClusterView>();
  view->revision = revision_;
  view->registry = registry_;
  view->leader = leader_;
  view->leaving = leaving_;
  view->away = away;
  // A process has no id while its first record cannot be read.
  for (const auto& [id, runner] : runners_) {
    if (!runner.id.empty()) view->runners[id] = runner;
  }
  for (const auto& [id, frontend] : frontends_) {
    if (!frontend.id.empty()) view->frontends[id] = frontend;
  }
  return view;
}

std::string ClusterMirror::ClusterText() const {
  const auto it = records_.find(ClusterKey());
  return it == records_.end() ? "" : it->second;
}

std::set<std::string> ClusterMirror::Contents() const {
  std::set<std::string> hashes;
  for (const auto& [key, hash] : contents_) hashes.insert(hash);
  return hashes;
}

std::map<std::string, std::string> ClusterMirror::LastingRecords() const {
  std::map<std::string, std::string> lasting;
  for (const auto& [key, text] : records_) {
    if (!IsOfTheLiving(key)) lasting[key] = text;
  }
  return lasting;
}

std::string ClusterMirror::Encode() const {
  return DumpJson({{"format", kViewFormat}, {"revision", revision_}, {"records", records_}});
}

Result<ClusterMirror> ClusterMirror::Decode(const std::string& text) {
  const Status broken = DataLossError("this is no view of a cluster; remove the file");
  const Result<Json> parsed = ParseJson(text);
  if (!parsed.ok()) return broken;
  const Json& json = *parsed;
  if (!json.is_object() || !json.contains("records") || !json["records"].is_object()) return broken;
  const auto revision = json.find("revision");
  if (revision == json.end() || !revision->is_number_integer()) return broken;
  if (json.value("format", Json()) != kViewFormat) {
    return FailedPreconditionError("another version of Graft wrote this view; remove the file");
  }
  std::vector<EtcdChange> changes;
  for (const auto& [key, value] : json["records"].items()) {
    if (!value.is_string()) return broken;
    changes.push_back({{key, value.get<std::string>()}, false});
  }
  ClusterMirror mirror;
  mirror.Apply(changes, revision->get<int64_t>());
  return mirror;
}

Result<ClusterMirror> ReadViewFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Result<ClusterMirror> mirror = ClusterMirror::Decode(text);
  if (!mirror.ok()) return mirror.status().WithContext(path);
  return mirror;
}

}  // namespace graft
