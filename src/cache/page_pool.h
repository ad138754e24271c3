// The page pool's bookkeeping: ids and reference counts, no bytes (model/ owns those). A page is
// free, referenced (by one or more PageRefs), or cached. A cached page has no reference, but the
// prefix tree still knows its content, and it can be evicted. KV and adapters draw on the same
// pages, each up to its quota. A KV page has a holder, the number of the tenant that it counts for
// (RoomShares). Each holder's cached pages are in a list, oldest first. Every change is O(1) and
// allocates nothing but for new holders. One thread: counts are plain integers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cache/room_shares.h"

namespace graft {

class PagePool;

// One reference to a page. Copying refers once more; the pool outlives every reference.
class PageRef {
 public:
  PageRef() = default;
  PageRef(const PageRef& other);
  PageRef(PageRef&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), page_(std::exchange(other.page_, -1)) {}
  PageRef& operator=(PageRef other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(page_, other.page_);
    return *this;
  }
  ~PageRef();

  explicit operator bool() const { return pool_ != nullptr; }
  int32_t page() const { return page_; }

 private:
  friend class PagePool;
  PageRef(PagePool* pool, int32_t page) : pool_(pool), page_(page) {}

  PagePool* pool_ = nullptr;
  int32_t page_ = -1;
};

// The pages of one sequence, in order of position. Lets go of the last page first, which is what
// keeps a cached page always older than the cached pages before it (see PagePool::OldestCached).
class PageList {
 public:
  PageList() = default;
  PageList(PageList&&) noexcept = default;
  PageList& operator=(PageList&& other) noexcept;
  ~PageList() { Clear(); }

  int32_t size() const { return static_cast<int32_t>(refs_.size()); }
  int32_t page(int32_t idx) const { return refs_[static_cast<size_t>(idx)].page(); }
  const PageRef& operator[](int32_t idx) const { return refs_[static_cast<size_t>(idx)]; }
  void Append(PageRef ref) { refs_.push_back(std::move(ref)); }
  // New references are empty, to be replaced.
  void Resize(int32_t size) { refs_.resize(static_cast<size_t>(size)); }
  void Replace(int32_t idx, PageRef ref) { refs_[static_cast<size_t>(idx)] = std::move(ref); }
  // Lets go of all but the first `size`; nothing where there are no more.
  void Truncate(int32_t size);
  void Clear() { Truncate(0); }

 private:
  std::vector<PageRef> refs_;
};

enum class PageUse : uint8_t { kKv, kAdapters };

// The most pages that each use may hold, cached ones included. Together they may promise more than
// there is: then the two share.
struct PageQuotas {
  int32_t kv_max = 0;
  int32_t adapters_max = 0;
};

class PagePool {
 public:
  // Everything may be used for either.
  explicit PagePool(int32_t num_pages) : PagePool(num_pages, {num_pages, num_pages}) {}
  // `shares`, borrowed, is told what holders have; null: shares are not kept.
  PagePool(int32_t num_pages, const PageQuotas& quotas, RoomShares* shares = nullptr);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // The holder of all pages where holders are not told apart.
  static constexpr int32_t kOneHolder = 0;

  // The first reference to a free page; empty if no page is free or the use has its quota. A page
  // of KV needs a holder. A page of adapters has none: each adapter in it has its own.
  PageRef Allocate(PageUse use = PageUse::kKv, int32_t holder = kOneHolder);
  // One more reference to a referenced or cached page.
  PageRef Share(int32_t page);

  // Called by the prefix tree. The referenced `page` will become cached, not free, when its last
  // reference goes.
  void Keep(int32_t page);
  // The holder's page that has been cached longest; -1 if it has none.
  int32_t OldestCached(int32_t holder = kOneHolder) const {
    const auto idx = static_cast<size_t>(holder);
    return holder >= 0 && idx < cached_.size() ? cached_[idx].head : -1;
  }
  // The time at which a cached page's last reference went.
  uint64_t CachedSince(int32_t page) const { return at(page).cached_since; }
  // A cached page becomes free.
  void Evict(int32_t page);

  // A count that orders uses in time: one tick per step.
  uint64_t time() const { return time_; }
  void Tick() { ++time_; }

  // Pages that Allocate would give now, one after the other.
  int32_t num_allocatable(PageUse use) const {
    return std::min(num_free(), quota(use) - num_used(use));
  }
  // Before anything is allocated.
  void SetQuotas(const PageQuotas& quotas);
  int32_t quota(PageUse use) const {
    return use == PageUse::kKv ? quotas_.kv_max : quotas_.adapters_max;
  }
  int32_t num_used(PageUse use) const { return num_used_[static_cast<size_t>(use)]; }

  int32_t num_pages() const { return static_cast<int32_t>(pages_.size()); }
  int32_t num_free() const { return free_.size; }
  int32_t num_cached() const { return num_cached_; }
  int32_t num_referenced() const { return num_pages() - num_free() - num_cached(); }
  int32_t holder(int32_t page) const { return at(page).holder; }
  int32_t references(int32_t page) const { return at(page).references; }
  // The prefix tree knows this page's content.
  bool kept(int32_t page) const { return at(page).kept; }

  // Walks everything: lists, counts and links agree. For tests. kInternal says what is wrong.
  Status CheckIntegrity() const;

 private:
  friend class PageRef;
  enum ListId : uint8_t { kFreeList, kCachedList, kNoList };
  struct Page {
    int32_t references = 0;
    int32_t previous = -1;
    int32_t next = -1;
    int32_t holder = kNobody;  // of one of KV that is not free
    uint64_t cached_since = 0;
    ListId list = kNoList;
    PageUse use = PageUse::kKv;  // of one that is not free
    bool kept = false;
  };
  struct List {
    int32_t head = -1;
    int32_t tail = -1;
    int32_t size = 0;
  };

  const Page& at(int32_t page) const;
  Page& at(int32_t page) { return const_cast<Page&>(std::as_const(*this).at(page)); }
  List& ListOf(ListId list, int32_t page);
  void PushBack(ListId list, int32_t page);
  void PushFront(ListId list, int32_t page);
  void Unlink(int32_t page);
  void AddReference(int32_t page);
  void DropReference(int32_t page);
  void PutFree(int32_t page);  // to be given out next: memory that was not touched stays so
  Status CheckList(ListId id, const List& list, int32_t holder) const;

  PageQuotas quotas_;
  RoomShares* const shares_;
  std::vector<Page> pages_;
  List free_;
  std::vector<List> cached_;  // by holder
  int32_t num_cached_ = 0;
  int32_t num_used_[2] = {};  // by PageUse
  uint64_t time_ = 1;
};

inline PageRef::PageRef(const PageRef& other) : pool_(other.pool_), page_(other.page_) {
  if (pool_ != nullptr) pool_->AddReference(page_);
}

inline PageRef::~PageRef() {
  if (pool_ != nullptr) pool_->DropReference(page_);
}

}  // namespace graft
