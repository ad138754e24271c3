// ContentTable: which adapter contents requests may ask for, and which are in use. A content's key
// is its hash; until a content is first read, another key stands for the hash. The table holds a
// content while it is published, and every lease holds it. Retire drops the table's hold. After the
// last hold, TakeUnused returns the content's id. So requests in flight finish on the content that
// they started with. The code that moves the bytes knows where they are.
// A weighted sum of contents is a content of its own. The first request for a sum publishes it. It
// holds its parts, and is retired with the first of them, or when it has not been used for long and
// another sum needs its place. Thread-safe; outlives its leases. Releasing a lease takes no lock
// unless it was the last.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "step/adapter_loader.h"

namespace graft {

class ContentTable;

// The right to use one content. An empty lease is the base model's: content() is -1.
class ContentLease {
 public:
  ContentLease() = default;
  ContentLease(ContentLease&& other) noexcept;
  ContentLease& operator=(ContentLease&& other) noexcept;
  ~ContentLease() { Release(); }

  int32_t content() const { return content_; }
  // Lets go; the lease is empty afterwards.
  void Release();

 private:
  friend class ContentTable;
  ContentLease(ContentTable* table, std::atomic<int32_t>* holds, int32_t content)
      : table_(table), holds_(holds), content_(content) {}

  ContentTable* table_ = nullptr;
  std::atomic<int32_t>* holds_ = nullptr;  // the content's
  int32_t content_ = -1;
};

// Where a content is read from, and what must come out: "" if that is not known yet. `key` is what
// it was published as.
struct AdapterSource {
  std::string path;
  std::string hash;
  std::string key;
  std::vector<AdapterPart> parts;  // of a sum, see FetchOrder
};

// Where a content's bytes are.
enum class AdapterPlace : uint8_t {
  kElsewhere,  // in the host's memory, or in its folder alone
  kLoading,    // on its way to the device
  kResident,
};

class ContentTable {
 public:
  // At most `contents_max` at once, retired ones in use included; and so many sums besides.
  static constexpr int32_t kSumsMax = 1024;
  explicit ContentTable(int32_t contents_max, int32_t sums_max = kSumsMax);
  ~ContentTable();

  // Makes a content available. kAlreadyExists if its key is taken, kFailedPrecondition if there are
  // contents_max: that does not pass by itself.
  Status Publish(AdapterSource source);
  // The content published as `key` turned out to have this hash, and goes by both from now on. If
  // another content has the hash already, that one takes over both names.
  void Identify(const std::string& key, const std::string& hash);
  // kNotFound if the key is not published (any more).
  Result<ContentLease> Acquire(const std::string& key);
  // Acquires the sum of the contents with these keys and weights, in whatever order; the other
  // members of the parts are ignored. kNotFound as above. kResourceExhausted if sums_max are in
  // use, or if the tenant uses kShareOfFree times as many as are left, so that one tenant always
  // leaves some for others.
  Result<ContentLease> AcquireSum(std::vector<AdapterPart> parts, const std::string& tenant);
  static constexpr int32_t kShareOfFree = 4;
  // No new leases from now on, of sums with it neither; an unknown key is ignored.
  void Retire(const std::string& key);
  bool Contains(const std::string& key) const;
  // The content is read from this folder from now on, which holds the same bytes. False if the key
  // is not published.
  bool SetPath(const std::string& key, const std::string& path);
  // Called, on any thread, whenever TakeUnused has something new; it must not call the table.
  // When this returns, the waker before is not running and is never called again.
  void SetWaker(std::function<void()> waker);

  AdapterSource SourceOf(int32_t content) const;
  void SetPlace(int32_t content, AdapterPlace place);
  AdapterPlace PlaceOf(int32_t content) const;
  // kElsewhere if the key is not published.
  AdapterPlace PlaceOf(const std::string& key) const;
  // Contents that are no longer held. Their ids are given out again once recycled.
  std::vector<int32_t> TakeUnused();
  void Recycle(int32_t content);

  // Contents published, or retired and not yet recycled; sums are among them.
  int32_t num_contents() const;
  // Keys that Identify and Retire have looked at so far. For tests.
  int64_t num_key_visits() const;

 private:
  friend class ContentLease;
  struct Content {
    AdapterSource source;                           // under mutex_
    AdapterPlace place = AdapterPlace::kElsewhere;  // under mutex_
    std::vector<std::string> keys;                  // under mutex_: that lead to it
    std::vector<std::pair<int32_t, float>> parts;   // under mutex_: of a sum, and their weights
    uint64_t used_at = 0;                           // under mutex_: of a sum, by all sums' uses
    std::string tenant;                             // under mutex_: of a sum, in use for it
    std::atomic<int32_t> holds{0};  // one per lease, and the table's own while it has keys
  };

  // Holds to be let go of, of contents.
  using Holds = std::vector<std::pair<std::atomic<int32_t>*, int32_t>>;

  void LetGo(std::atomic<int32_t>& holds, int32_t content);
  void LetGo(const Holds& all);
  // These want mutex_ held.
  int32_t Enter(AdapterSource source);
  void FillParts(AdapterSource* source, const Content& content) const;
  Status CheckRoomForSum(const std::string& tenant, Holds* retired);
  void EraseKeys(int32_t content, Holds* retired);

  const int32_t contents_max_;
  const int32_t sums_max_;
  mutable std::mutex mutex_;
  std::deque<Content> contents_;  // grows, never moves
  std::unordered_map<std::string, int32_t> content_of_key_;
  std::set<int32_t> sums_;     // that have keys
  int32_t num_sums_kept_ = 0;  // and those that are not yet recycled
  uint64_t num_sum_uses_ = 0;
  int64_t num_key_visits_ = 0;
  std::vector<int32_t> free_;
  std::vector<int32_t> unused_;  // no longer held, not yet taken
  std::function<void()> waker_;
};

}  // namespace graft
