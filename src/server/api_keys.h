// The rights of clients: the keys file's entries, found by the hash of the presented key, and each
// key's request rate and concurrency. Thread-safe; keys can be loaded again while requests run.
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

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "server/api_error.h"

namespace graft {

// One key's rights and limits.
class ApiKey {
 public:
  struct Rights {
    std::string id;  // the first digits of the key's digest, for logs; "": nobody's
    std::string tenant;
    float tenant_weight = 1.0f;  // share of the engine among tenants
    bool all_models = false;
    std::set<std::string> models;         // names of adapters, or the base model's
    bool admin = false;                   // may load and unload adapters
    int32_t requests_per_minute = 0;      // 0: no limit
    int32_t requests_concurrent_max = 0;  // 0: no limit
  };

  // What the key has used of its limits.
  struct Meter {
    std::mutex mutex;
    double share_per_minute = -1;  // of the key's requests; negative: all of them
    int64_t num_asked = 0;         // since it was last looked at
    double bucket_requests = 0;
    int64_t bucket_time_ns = 0;
    int32_t num_running = 0;
  };

  // A request's share of the concurrency limit, given back when it goes.
  class Lease {
   public:
    Lease() = default;
    explicit Lease(std::shared_ptr<Meter> meter) : meter_(std::move(meter)) {}
    Lease(Lease&& other) noexcept = default;
    Lease& operator=(Lease&& other) noexcept {
      std::swap(meter_, other.meter_);
      return *this;
    }
    ~Lease();

   private:
    std::shared_ptr<Meter> meter_;  // shared: a reload may drop the key while its requests run
  };

  ApiKey(Rights rights, int64_t now_ns);
  // The same key with other rights: what `former` has used counts on.
  ApiKey(Rights rights, const ApiKey& former);

  const Rights& rights() const { return rights_; }
  // Negative: all of them.
  void SetShare(double requests_per_minute);
  int64_t TakeDemand();
  bool Allows(const std::string& model) const;
  // Takes one request from the bucket (which holds a minute's worth) and one place, or says 429 and
  // when to come back.
  ApiResult<Lease> Admit(int64_t now_ns);
  // Takes one request from the bucket alone: requests that are answered at once hold no place.
  std::optional<ApiError> Count(int64_t now_ns);

 private:
  std::optional<ApiError> TakeFromBucket(int64_t now_ns);  // under the lock

  const Rights rights_;
  const std::shared_ptr<Meter> meter_;
};

class ApiKeys {
 public:
  // No keys: everybody is one tenant "", may use every model, and is no admin.
  explicit ApiKeys(const Clock& clock);

  // The keys file: a JSON list of {"key" or "key_sha256", "tenant", "adapters", "admin",
  // "tenant_weight", "requests_per_minute", "requests_concurrent_max"}. A tenant has one weight,
  // whichever of its entries give it. Errors name the entry and the field. Loading
  // again puts these keys in the place of the former file's, and an error leaves those in force. A
  // key that is in both files keeps its count of requests.
  Status LoadFile(const std::string& path);
  Status Load(const Json& list);
  Status LoadText(const std::string& json);
  // One more key, which may do everything. It does not close the server to those without a key.
  Status SetAdminKey(std::string_view key);

  // See HttpServer.
  void SetShares(std::map<std::string, double> requests_per_minute);
  std::map<std::string, int64_t> TakeDemand();

  // Whether a request needs a key at all.
  bool required() const { return table()->required; }
  bool has_admin() const { return table()->has_admin; }

  // The caller behind an Authorization header's value, or 401. Without keys in force a missing
  // header gives the anonymous caller. Shared: the caller may outlive its key's entry in the file.
  ApiResult<std::shared_ptr<ApiKey>> Authenticate(std::string_view authorization) const;

 private:
  struct Table {
    std::unordered_map<std::string, std::shared_ptr<ApiKey>> keys;  // by SHA-256, hexadecimal
    bool required = false;
    bool has_admin = false;
    std::map<std::string, float> tenant_weights;
  };

  std::shared_ptr<const Table> table() const {
    std::lock_guard lock(mutex_);
    return table_;
  }
  void Put(std::shared_ptr<const Table> table);
  Status AddEntry(const Json& entry, size_t idx, const Table& former, Table* table) const;
  Status AddAdminKey(const Table& former, Table* table) const;
  Status Add(const std::string& digest, ApiKey::Rights rights, const Table& former,
             Table* table) const;

  const Clock& clock_;
  std::shared_ptr<ApiKey> anonymous_;
  std::string admin_digest_;  // "": none; set before other threads come
  mutable std::mutex mutex_;
  std::shared_ptr<const Table> table_;  // readers keep the one they began with
};

}  // namespace graft
