// ResponseStore: responses of /v1/responses that can be read again and continued. They are in this
// process's memory. Tenants never see each other's. When room is short, the tenant that holds the
// most loses its oldest. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "http/api_error.h"

namespace graft {

struct ResponseStoreLimits {
  int32_t tenant_responses_max = 1000;     // 0: none is stored
  int64_t bytes_max = int64_t{256} << 20;  // of all tenants
  int64_t age_seconds_max = 24 * 3600;     // since it was last used
};

// One turn of a conversation.
struct StoredResponse {
  std::string id;
  std::string previous_id;  // of the turn before, or ""
  std::string model;
  std::string json;    // as it was answered
  std::string input;   // what was asked in this turn: a JSON list of items
  std::string output;  // what came: a JSON list of items
};

class ResponseStore {
 public:
  // Shared, since a reader may still look at what is evicted meanwhile.
  using Entry = std::shared_ptr<const StoredResponse>;

  ResponseStore(const Clock& clock, ResponseStoreLimits limits);
  ResponseStore(const ResponseStore&) = delete;
  ResponseStore& operator=(const ResponseStore&) = delete;

  bool enabled() const { return limits_.tenant_responses_max > 0; }
  void Put(const std::string& tenant, StoredResponse response);
  // Null where the tenant has none of that name. Looking at it counts as use.
  Entry Find(const std::string& tenant, const std::string& id);
  bool Delete(const std::string& tenant, const std::string& id);
  // The turns of the conversation that ends with `id`, the first one first, or 400 about
  // "previous_response_id". A turn that is gone takes what follows it with it.
  ApiResult<std::vector<Entry>> Conversation(const std::string& tenant, const std::string& id,
                                             size_t turns_max);

  int64_t num_responses() const;
  int64_t num_bytes() const;

 private:
  struct Item {
    Entry entry;
    int64_t bytes = 0;
    int64_t used_ns = 0;
  };
  using Items = std::list<Item>;
  struct Tenant {
    std::string name;
    Items items;  // the one that was used longest ago first
    std::unordered_map<std::string, Items::iterator> by_id;
    int64_t bytes = 0;
  };

  Item* Use(const std::string& tenant, const std::string& id);
  void Remove(Tenant& tenant, Items::iterator item);
  void RemoveExpired(Tenant& tenant, int64_t now_ns);
  // Looks at all tenants, once a minute.
  void Sweep(int64_t now_ns);
  void SetBytes(Tenant& tenant, int64_t bytes);

  const Clock& clock_;
  const ResponseStoreLimits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, Tenant> tenants_;  // those that have any
  std::set<std::pair<int64_t, Tenant*>> by_bytes_;
  int64_t bytes_ = 0;
  int64_t num_responses_ = 0;
  int64_t swept_ns_ = 0;
};

}  // namespace graft
