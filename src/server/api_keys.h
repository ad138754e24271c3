// Who may ask for what: the keys file's entries, found by the hash of the presented key, and each
// one's request rate and concurrency. Thread-safe.
#pragma once

#include <cstdint>
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
    std::string tenant;
    bool all_models = false;
    std::set<std::string> models;         // names of adapters, or the base model's
    bool admin = false;                   // may load and unload adapters
    int32_t requests_per_minute = 0;      // 0: no limit
    int32_t requests_concurrent_max = 0;  // 0: no limit
  };

  // A request's share of the concurrency limit, given back when it goes.
  class Lease {
   public:
    Lease() = default;
    explicit Lease(ApiKey* key) : key_(key) {}
    Lease(Lease&& other) noexcept : key_(std::exchange(other.key_, nullptr)) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(key_, other.key_);
      return *this;
    }
    ~Lease();

   private:
    ApiKey* key_ = nullptr;
  };

  ApiKey(Rights rights, int64_t now_ns);

  const Rights& rights() const { return rights_; }
  bool Allows(const std::string& model) const;
  // Takes one request from the bucket (which holds a minute's worth) and one place, or says 429 and
  // when to come back.
  ApiResult<Lease> Admit(int64_t now_ns);
  // Takes one request from the bucket alone: what is answered at once holds no place.
  std::optional<ApiError> Count(int64_t now_ns);

 private:
  std::optional<ApiError> TakeFromBucket(int64_t now_ns);  // under the lock

  const Rights rights_;
  std::mutex mutex_;
  double bucket_requests_;
  int64_t bucket_time_ns_;
  int32_t num_running_ = 0;
};

class ApiKeys {
 public:
  // No keys: everybody is one tenant "", may use every model, and is no admin.
  explicit ApiKeys(const Clock& clock);

  // The keys file: a JSON list of {"key" or "key_sha256", "tenant", "adapters", "admin",
  // "requests_per_minute", "requests_concurrent_max"}. Errors name the entry and the field.
  Status LoadFile(const std::string& path);
  Status Load(const Json& list);
  // One more key, which may do everything. It does not close the server to those without a key.
  Status SetAdminKey(std::string_view key);

  // Whether a request needs a key at all.
  bool required() const { return required_; }
  bool has_admin() const { return has_admin_; }

  // The caller behind an Authorization header's value, or 401. Without keys in force a missing
  // header gives the anonymous caller.
  ApiResult<ApiKey*> Authenticate(std::string_view authorization) const;

 private:
  Status AddEntry(const Json& entry, size_t idx);
  Status Add(const std::string& digest, ApiKey::Rights rights);

  const Clock& clock_;
  std::unique_ptr<ApiKey> anonymous_;
  std::unordered_map<std::string, std::unique_ptr<ApiKey>> keys_;  // by SHA-256, hexadecimal
  bool required_ = false;
  bool has_admin_ = false;
};

}  // namespace graft
