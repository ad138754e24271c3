#include "openai/responses/response_store.h"

#include <algorithm>

namespace graft {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kSweepNs = 60 * kNsPerSecond;
// What an entry takes besides its texts.
constexpr int64_t kEntryBytes = 512;

int64_t BytesOf(const StoredResponse& response) {
  return kEntryBytes + static_cast<int64_t>(response.json.size() + response.input.size() +
                                            response.output.size() + response.model.size() +
                                            2 * response.id.size() + response.previous_id.size());
}

ApiError NotStored(const std::string& message) {
  ApiError error = InvalidRequestError("previous_response_id", message);
  error.code = "previous_response_not_found";
  return error;
}

}  // namespace

ResponseStore::ResponseStore(const Clock& clock, ResponseStoreLimits limits)
    : clock_(clock), limits_(limits) {}

void ResponseStore::SetBytes(Tenant& tenant, int64_t bytes) {
  by_bytes_.erase({tenant.bytes, &tenant});
  bytes_ += bytes - tenant.bytes;
  tenant.bytes = bytes;
  by_bytes_.insert({tenant.bytes, &tenant});
}

void ResponseStore::Remove(Tenant& tenant, Items::iterator item) {
  SetBytes(tenant, tenant.bytes - item->bytes);
  tenant.by_id.erase(item->entry->id);
  tenant.items.erase(item);
  --num_responses_;
}

void ResponseStore::RemoveExpired(Tenant& tenant, int64_t now_ns) {
  const int64_t oldest_ns = now_ns - limits_.age_seconds_max * kNsPerSecond;
  while (!tenant.items.empty() && tenant.items.front().used_ns < oldest_ns) {
    Remove(tenant, tenant.items.begin());
  }
}

void ResponseStore::Sweep(int64_t now_ns) {
  if (now_ns - swept_ns_ < kSweepNs) return;
  swept_ns_ = now_ns;
  for (auto it = tenants_.begin(); it != tenants_.end();) {
    RemoveExpired(it->second, now_ns);
    if (it->second.items.empty()) {
      by_bytes_.erase({it->second.bytes, &it->second});
      it = tenants_.erase(it);
    } else {
      ++it;
    }
  }
}

void ResponseStore::Put(const std::string& tenant_name, StoredResponse response) {
  if (!enabled()) return;
  const int64_t bytes = BytesOf(response);
  if (bytes > limits_.bytes_max) return;
  const std::string id = response.id;
  Item item{.entry = std::make_shared<const StoredResponse>(std::move(response)), .bytes = bytes};
  std::lock_guard lock(mutex_);
  item.used_ns = clock_.NowNs();
  Sweep(item.used_ns);
  Tenant& tenant = tenants_[tenant_name];
  RemoveExpired(tenant, item.used_ns);
  CHECK(!tenant.by_id.contains(id)) << "ids are drawn anew for each response";
  tenant.by_id[id] = tenant.items.insert(tenant.items.end(), std::move(item));
  SetBytes(tenant, tenant.bytes + bytes);
  ++num_responses_;
  while (tenant.items.size() > static_cast<size_t>(limits_.tenant_responses_max)) {
    Remove(tenant, tenant.items.begin());
  }
  while (bytes_ > limits_.bytes_max) {
    Tenant& largest = *by_bytes_.rbegin()->second;
    Remove(largest, largest.items.begin());
  }
}

ResponseStore::Item* ResponseStore::Use(const std::string& tenant_name, const std::string& id) {
  const auto tenant = tenants_.find(tenant_name);
  if (tenant == tenants_.end()) return nullptr;
  const int64_t now_ns = clock_.NowNs();
  RemoveExpired(tenant->second, now_ns);
  const auto it = tenant->second.by_id.find(id);
  if (it == tenant->second.by_id.end()) return nullptr;
  Items& items = tenant->second.items;
  items.splice(items.end(), items, it->second);
  it->second->used_ns = now_ns;
  return &*it->second;
}

ResponseStore::Entry ResponseStore::Find(const std::string& tenant, const std::string& id) {
  std::lock_guard lock(mutex_);
  const Item* item = Use(tenant, id);
  return item == nullptr ? nullptr : item->entry;
}

bool ResponseStore::Delete(const std::string& tenant_name, const std::string& id) {
  std::lock_guard lock(mutex_);
  if (Use(tenant_name, id) == nullptr) return false;
  Tenant& tenant = tenants_.at(tenant_name);
  Remove(tenant, tenant.by_id.at(id));
  return true;
}

ApiResult<std::vector<ResponseStore::Entry>> ResponseStore::Conversation(const std::string& tenant,
                                                                         const std::string& id,
                                                                         size_t turns_max) {
  std::vector<Entry> turns;
  std::lock_guard lock(mutex_);
  for (std::string next = id; !next.empty();) {
    const Item* item = Use(tenant, next);
    if (item == nullptr) {
      return NotStored(turns.empty()
                           ? "Previous response with id '" + next + "' not found."
                           : "'" + id + "' goes on from '" + next +
                                 "', which is not stored any more: send the conversation as "
                                 "'input'.");
    }
    turns.push_back(item->entry);
    if (turns.size() > turns_max) {
      return InvalidRequestError("previous_response_id",
                                 "'previous_response_id' ends a conversation of more than " +
                                     std::to_string(turns_max) + " turns");
    }
    next = item->entry->previous_id;
  }
  std::reverse(turns.begin(), turns.end());
  return turns;
}

int64_t ResponseStore::num_responses() const {
  std::lock_guard lock(mutex_);
  return num_responses_;
}

int64_t ResponseStore::num_bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace graft
