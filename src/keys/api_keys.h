// ApiKeys: the rights of clients. It has the keys file's entries, found by the hash of the
// presented key, and what each key and each tenant has used of its limits (WorkMeter). Keys can be
// loaded again while requests run. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "http/api_error.h"
#include "keys/work_limits.h"
#include "request/adapter_catalog.h"

namespace graft {

// One key's rights and limits.
class ApiKey {
 public:
  struct Rights {
    std::string id;  // the first digits of the key's digest, for logs; "": no key
    std::string tenant;
    float tenant_weight = 1.0f;  // share of the engine among tenants
    bool all_models = false;
    std::set<std::string> models;             // names of adapters, or the base model's
    std::vector<std::string> model_patterns;  // patterns of such names, with "*" for any characters
    bool admin = false;                       // may load and unload adapters
    WorkLimits limits;
    WorkLimits tenant_limits;  // of all its keys together
  };
  // Patterns of names that belong to one tenant: other tenants' keys may neither use nor see them.
  using Owned = std::vector<std::pair<std::string, std::string>>;  // pattern, tenant

  ApiKey(Rights rights, int64_t now_ns);
  // With what its meters have counted so far.
  ApiKey(Rights rights, std::shared_ptr<WorkMeter> meter, std::shared_ptr<WorkMeter> tenant_meter);

  const Rights& rights() const { return rights_; }
  const std::shared_ptr<WorkMeter>& meter() const { return meter_; }
  void SetOwned(std::shared_ptr<const Owned> owned) { owned_ = std::move(owned); }
  bool Allows(const std::string& model) const;
  // The same of an adapter; one with an owner is the owner's alone, and every admin's.
  bool MayUse(const AdapterInfo& adapter) const {
    if (!adapter.owner.has_value()) return Allows(adapter.name);
    return rights_.admin || *adapter.owner == rights_.tenant;
  }
  // The tightest of the key's limits and the tenant's; 0: none.
  int32_t context_tokens_max() const;
  int32_t n_max() const;

  // Takes one request from the buckets (which hold a minute's worth) and one place, or says 429 and
  // when to come back.
  ApiResult<MeterLease> Admit(const Clock& clock);
  // Takes one request from the buckets alone: requests that are answered at once hold no place.
  std::optional<ApiError> Count(int64_t now_ns);
  // What the request turned out to ask for.
  ApiResult<MeterLease> AdmitWork(const Work& work, const Clock& clock);
  // See RateLimitHeaders.
  std::vector<std::pair<std::string, std::string>> RateHeaders(int64_t now_ns) const {
    return RateLimitHeaders(*meter_, *tenant_meter_, now_ns);
  }

 private:
  const Rights rights_;
  const std::shared_ptr<WorkMeter> meter_;
  const std::shared_ptr<WorkMeter> tenant_meter_;
  std::shared_ptr<const Owned> owned_;  // null: no name belongs to a tenant
};

class ApiKeys {
 public:
  // No keys: all callers are one tenant "", which may use every model and is no admin.
  explicit ApiKeys(const Clock& clock);

  // Loads the keys file (docs/http-api.md). Errors name the entry and the field. A further load
  // replaces the former file's keys; after an error the former keys stay in force. Keys and tenants
  // in both files keep what they have used.
  Status LoadFile(const std::string& path);
  Status Load(const Json& list);
  // Loads a cluster's keys, which replace all former ones at once. From then on a key is required,
  // even if the list is empty. An entry that cannot be read gives no rights; its error is returned.
  Status LoadText(const std::string& json);
  // One more key, which may do everything. It does not close the server to those without a key.
  Status SetAdminKey(std::string_view key);

  // See HttpServer.
  void SetShares(const std::map<std::string, double>& per_minute);
  std::map<std::string, int64_t> TakeDemand();

  // Whether a request needs a key at all.
  bool required() const { return table()->required; }
  bool has_admin() const { return table()->has_admin; }
  // Models that entries name one by one, in `adapters` or `tenant_adapters`, each with the tenant
  // of such an entry.
  std::map<std::string, std::string> NamedModels() const;

  // The caller behind an Authorization header's value, or 401. Without keys in force a missing
  // header gives the anonymous caller. Shared: the caller may outlive its key's entry in the file.
  ApiResult<std::shared_ptr<ApiKey>> Authenticate(std::string_view authorization) const;

 private:
  // What all entries of a tenant agree about, and its meter.
  struct Tenant {
    float weight = 1.0f;
    WorkLimits limits;
    std::shared_ptr<WorkMeter> meter;
  };
  struct Table {
    std::unordered_map<std::string, std::shared_ptr<ApiKey>> keys;  // by SHA-256, hexadecimal
    bool required = false;
    bool has_admin = false;
    std::map<std::string, Tenant> tenants;
    ApiKey::Owned owned;
  };

  std::shared_ptr<const Table> table() const {
    std::lock_guard lock(mutex_);
    return table_;
  }
  static void Settle(Table* table);
  void Put(std::shared_ptr<const Table> table);
  Status Replace(const Table& former, std::shared_ptr<Table> next);
  Status AddEntry(const Json& entry, size_t idx, const Table& former, Table* table) const;
  Status AddAdminKey(const Table& former, Table* table) const;
  Status Add(const std::string& digest, ApiKey::Rights rights, const Table& former,
             Table* table) const;
  // The tenant's entry in `table`, where the rights agree with it.
  Result<Tenant*> TenantOf(const ApiKey::Rights& rights, const Table& former, Table* table) const;

  const Clock& clock_;
  std::shared_ptr<ApiKey> anonymous_;
  std::string admin_digest_;  // "": none; set before other threads come
  mutable std::mutex mutex_;
  std::shared_ptr<const Table> table_;  // readers keep the one they began with
};

}  // namespace graft
