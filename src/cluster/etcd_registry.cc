#include "cluster/etcd_registry.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "cluster/cluster_keys.h"

namespace graft {
namespace {

// Attempts at a change while other processes change the same records.
constexpr int kTriesMax = 20;

Status TooManyRaces(const std::string& name) {
  return Status(StatusCode::kAborted,
                "others keep changing '" + name + "' at the same time: try again");
}

// What a tenant learned is its own: an admin's load would give its requests other content, or give
// its content to all tenants.
Status WasLearned(const std::string& name) {
  return FailedPreconditionError("'" + name +
                                 "' was learned, and is its owner's alone: choose another name");
}

bool IsSameContent(const AdapterInfo& left, const AdapterInfo& right) {
  return left.hash == right.hash && left.path == right.path;
}

// The tenant that the record of an adapter, a version, a key or an open job names; "": none.
std::string TenantOfRecord(const std::string& text) {
  const Result<Json> json = ParseJson(text);
  if (!json.ok() || !json->is_object()) return "";
  const auto it = json->find("tenant");
  return it != json->end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

struct EtcdRegistry::Known {
  int64_t mod_revision = 0;  // of the name; 0: it leads to nothing
  AdapterVersion current;
  std::vector<AdapterVersion> versions;  // oldest first
};

EtcdRegistry::EtcdRegistry(ClusterStore& store, std::string by)
    : store_(store), by_(std::move(by)) {}

Result<EtcdRegistry::Known> EtcdRegistry::Look(const std::string& name) const {
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   store_.Commit({.then = {EtcdOperation::Get(AdapterKey(name)),
                                           EtcdOperation::GetPrefix(VersionsKey(name))}}));
  Known known;
  if (!outcome.found[0].empty()) {
    known.mod_revision = outcome.found[0][0].mod_revision;
    ASSIGN_OR_RETURN(known.current, DecodeAdapterVersion(outcome.found[0][0].value));
  }
  for (const EtcdKeyValue& item : outcome.found[1]) {
    ASSIGN_OR_RETURN(AdapterVersion version, DecodeAdapterVersion(item.value));
    known.versions.push_back(std::move(version));
  }
  return known;
}

Result<bool> EtcdRegistry::TryPut(const Known& known, const AdapterVersion& next,
                                  const std::string& change) {
  const std::string& name = next.entry.name;
  const std::string text = EncodeRecord(next);
  EtcdTransaction transaction;
  transaction.compares = {EtcdCompare::ModRevision(AdapterKey(name), known.mod_revision)};
  transaction.then = {EtcdOperation::Put(AdapterKey(name), text),
                      EtcdOperation::Put(VersionKey(name, next.version), text)};
  // The one that it leads to stays whatever its age.
  const bool is_kept = std::any_of(
      known.versions.begin(), known.versions.end(),
      [&next](const AdapterVersion& version) { return version.version == next.version; });
  size_t num_kept = known.versions.size() + (is_kept ? 0 : 1);
  for (const AdapterVersion& old : known.versions) {
    if (num_kept <= kVersionsKept) break;
    if (old.version == next.version) continue;
    transaction.then.push_back(EtcdOperation::Delete(VersionKey(name, old.version)));
    --num_kept;
  }
  ASSIGN_OR_RETURN(
      const EtcdOutcome outcome,
      store_.Change(std::move(transaction),
                    {by_, change, name + "@" + std::to_string(next.version), next.entry.tenant}));
  return outcome.succeeded;
}

Status EtcdRegistry::Put(const AdapterInfo& entry, bool replace) {
  for (int i = 0; i < kTriesMax; ++i) {
    ASSIGN_OR_RETURN(const Known known, Look(entry.name));
    const bool is_taken = known.mod_revision != 0;
    const bool is_same = is_taken && IsSameContent(known.current.entry, entry);
    if (is_taken && !replace && known.current.entry.hash != entry.hash) {
      return NameIsTaken(entry.name, known.current.entry.hash);
    }
    if (is_taken && known.current.entry.owner.has_value() && !entry.owner.has_value()) {
      return WasLearned(entry.name);
    }
    AdapterVersion next = {1, entry};
    if (is_same) {
      next.version = known.current.version;
    } else if (!known.versions.empty()) {
      next.version = known.versions.back().version + 1;
    }
    ASSIGN_OR_RETURN(const bool done, TryPut(known, next, "load"));
    if (done) return OkStatus();
  }
  return TooManyRaces(entry.name);
}

Status EtcdRegistry::RemoveFor(const std::string& name, const std::string& tenant) {
  EtcdTransaction transaction;
  transaction.compares = {EtcdCompare::Present(AdapterKey(name))};
  transaction.then = {EtcdOperation::Delete(AdapterKey(name)),
                      EtcdOperation::DeletePrefix(VersionsKey(name))};
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   store_.Change(std::move(transaction), {by_, "unload", name, tenant}));
  if (outcome.succeeded) return OkStatus();
  return NotFoundError("the registry has no adapter '" + name + "'");
}

Result<std::vector<AdapterInfo>> EtcdRegistry::List() const {
  ASSIGN_OR_RETURN(
      const EtcdOutcome outcome,
      store_.Commit({.then = {EtcdOperation::GetPrefix(std::string(kAdaptersPrefix))}}));
  std::vector<AdapterInfo> entries;
  for (const EtcdKeyValue& item : outcome.found[0]) {
    ASSIGN_OR_RETURN(AdapterVersion adapter, DecodeAdapterVersion(item.value));
    entries.push_back(std::move(adapter.entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& left, const auto& right) { return left.name < right.name; });
  return entries;
}

Result<std::vector<AdapterVersion>> EtcdRegistry::Versions(const std::string& name) const {
  ASSIGN_OR_RETURN(Known known, Look(name));
  if (known.versions.empty()) return NotFoundError("the registry has no adapter '" + name + "'");
  return std::move(known.versions);
}

Result<AdapterVersion> EtcdRegistry::RollBack(const std::string& name, int64_t version,
                                              const std::string& tenant) {
  for (int i = 0; i < kTriesMax; ++i) {
    ASSIGN_OR_RETURN(const Known known, Look(name));
    if (known.versions.empty()) return NotFoundError("the registry has no adapter '" + name + "'");
    std::string kept;
    const AdapterVersion* wanted = nullptr;
    for (const AdapterVersion& one : known.versions) {
      if (one.version == version) wanted = &one;
      kept += (kept.empty() ? "" : ", ") + std::to_string(one.version);
    }
    if (wanted == nullptr) {
      return NotFoundError("'" + name + "' has no version " + std::to_string(version) +
                           "; kept are " + kept);
    }
    EtcdTransaction transaction;
    transaction.compares = {EtcdCompare::ModRevision(AdapterKey(name), known.mod_revision),
                            EtcdCompare::Present(VersionKey(name, version))};
    transaction.then = {EtcdOperation::Put(AdapterKey(name), EncodeRecord(*wanted))};
    ASSIGN_OR_RETURN(
        const EtcdOutcome outcome,
        store_.Change(std::move(transaction),
                      {by_, "roll back", name + "@" + std::to_string(version), tenant}));
    if (outcome.succeeded) return *wanted;
  }
  return TooManyRaces(name);
}

Status EtcdRegistry::SetTenant(const TenantRecord& tenant) {
  return store_
      .Change({.then = {EtcdOperation::Put(TenantKey(tenant.name), EncodeRecord(tenant))}},
              {by_, "weight", tenant.name, tenant.name})
      .status();
}

Status EtcdRegistry::SetKeys(const Json& entries) {
  if (!entries.is_array()) return InvalidArgumentError("keys must be a JSON list");
  // One operation per key, one for the record that keys are required and one for the audit log.
  if (entries.size() + 2 > kEtcdOperationsMax) {
    return InvalidArgumentError("a cluster has " + std::to_string(kEtcdOperationsMax - 2) +
                                " keys at most");
  }
  EtcdTransaction transaction;
  std::set<std::string> kept;
  for (const Json& entry : entries) {
    const auto digest = entry.is_object() ? entry.find("key_sha256") : entry.end();
    if (digest == entry.end() || !digest->is_string() || entry.contains("key")) {
      return InvalidArgumentError(
          "every key of a cluster is given by its 'key_sha256' (`printf %s KEY | sha256sum`)");
    }
    if (!kept.insert(digest->get<std::string>()).second) {
      return InvalidArgumentError("the same key is given twice");
    }
    transaction.then.push_back(
        EtcdOperation::Put(ApiKeyKey(digest->get<std::string>()), DumpJson(entry)));
  }
  ASSIGN_OR_RETURN(
      const EtcdOutcome before,
      store_.Commit({.then = {EtcdOperation::GetPrefix(std::string(kApiKeysPrefix))}}));
  transaction.then.push_back(EtcdOperation::Put(KeysRequiredKey(), kKeysRequired));
  for (const EtcdKeyValue& item : before.found[0]) {
    if (kept.contains(NameInKey(item.key, kApiKeysPrefix))) continue;
    if (transaction.then.size() + 1 == kEtcdOperationsMax) {
      return InvalidArgumentError("too many keys change at once: take away some of them first");
    }
    transaction.then.push_back(EtcdOperation::Delete(item.key));
  }
  return store_
      .Change(std::move(transaction), {by_, "keys", std::to_string(entries.size()) + " keys", ""})
      .status();
}

Result<EtcdRegistry::Forgotten> EtcdRegistry::ForgetTenant(const std::string& tenant) {
  Forgotten forgotten;
  for (int i = 0; i < kTriesMax; ++i) {
    ASSIGN_OR_RETURN(const std::vector<EtcdKeyValue> items, FindOf(tenant));
    if (items.empty() && forgotten.num_records > 0) return forgotten;
    if (items.empty()) {
      return NotFoundError("nothing in this cluster belongs to tenant '" + tenant + "'");
    }
    // The guard, the audit log and the record that keys are required have one each.
    const size_t batch = kEtcdOperationsMax - 3;
    const bool takes_keys = std::any_of(items.begin(), items.end(), [](const EtcdKeyValue& item) {
      return HasPrefix(item.key, kApiKeysPrefix);
    });
    for (size_t begin = 0; begin < items.size(); begin += batch) {
      EtcdTransaction transaction;
      for (size_t j = begin; j < std::min(items.size(), begin + batch); ++j) {
        // What another process has written there meanwhile is not deleted.
        transaction.compares.push_back(
            EtcdCompare::ModRevision(items[j].key, items[j].mod_revision));
        transaction.then.push_back(EtcdOperation::Delete(items[j].key));
      }
      const auto num_records = static_cast<int32_t>(transaction.then.size());
      // Before the last key can be gone: a cluster of a former version has no such record.
      if (takes_keys) {
        transaction.then.push_back(EtcdOperation::Put(KeysRequiredKey(), kKeysRequired));
      }
      ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                       store_.Change(std::move(transaction), {by_, "forget", tenant, tenant}));
      if (outcome.succeeded) forgotten.num_records += num_records;
    }
  }
  return TooManyRaces(tenant);
}

// All records that are the tenant's.
Result<std::vector<EtcdKeyValue>> EtcdRegistry::FindOf(const std::string& tenant) const {
  // Records of all tenants have these prefixes: only those that name the tenant count.
  const std::string_view shared[] = {kAdaptersPrefix, kVersionsPrefix, kApiKeysPrefix,
                                     kOpenJobsPrefix};
  std::vector<EtcdOperation> looks;
  for (const std::string_view prefix : shared) {
    looks.push_back(EtcdOperation::GetPrefix(std::string(prefix)));
  }
  for (const std::string& key :
       {TenantKey(tenant), LearningTenantKey(tenant), LearningTurnKey(tenant)}) {
    looks.push_back(EtcdOperation::Get(key));
  }
  for (const std::string& prefix : LearningPrefixesOf(tenant)) {
    looks.push_back(EtcdOperation::GetPrefix(prefix));
  }
  ASSIGN_OR_RETURN(const EtcdOutcome all, store_.Commit({.then = std::move(looks)}));
  std::vector<EtcdKeyValue> items;
  for (size_t i = 0; i < all.found.size(); ++i) {
    for (const EtcdKeyValue& item : all.found[i]) {
      if (i >= std::size(shared) || TenantOfRecord(item.value) == tenant) items.push_back(item);
    }
  }
  return items;
}

}  // namespace graft
