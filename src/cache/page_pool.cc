#include "cache/page_pool.h"

#include <string>
#include <utility>

namespace graft {

PageList& PageList::operator=(PageList&& other) noexcept {
  if (this == &other) return *this;
  Clear();
  refs_ = std::move(other.refs_);
  other.refs_.clear();
  return *this;
}

void PageList::Truncate(int32_t size) {
  while (this->size() > size) refs_.pop_back();
}

PagePool::PagePool(int32_t num_pages, const PageQuotas& quotas, RoomShares* shares)
    : shares_(shares) {
  CHECK_GT(num_pages, 0);
  pages_.resize(static_cast<size_t>(num_pages));
  for (int32_t page = 0; page < num_pages; ++page) PushBack(kFreeList, page);
  SetQuotas(quotas);
}

PagePool::~PagePool() { CHECK_EQ(num_referenced(), 0) << "pages outlive their pool"; }

void PagePool::SetQuotas(const PageQuotas& quotas) {
  CHECK_EQ(num_free(), num_pages());
  CHECK(quotas.kv_max >= 0 && quotas.kv_max <= num_pages()) << quotas.kv_max;
  CHECK(quotas.adapters_max >= 0 && quotas.adapters_max <= num_pages()) << quotas.adapters_max;
  quotas_ = quotas;
}

PageRef PagePool::Allocate(PageUse use, int32_t holder) {
  const int32_t page = free_.head;
  if (page < 0 || num_used(use) == quota(use)) return PageRef();
  at(page).use = use;
  ++num_used_[static_cast<size_t>(use)];
  AddReference(page);
  if (use == PageUse::kKv) {
    CHECK_GE(holder, 0);
    at(page).holder = holder;
    if (shares_ != nullptr) shares_->AddPages(holder, 1);
  }
  return PageRef(this, page);
}

PageRef PagePool::Share(int32_t page) {
  CHECK(at(page).list != kFreeList) << "page " << page << " is free";
  AddReference(page);
  return PageRef(this, page);
}

void PagePool::Keep(int32_t page) {
  CHECK_GT(at(page).references, 0) << "page " << page;
  CHECK(!at(page).kept) << "page " << page << " is kept already";
  at(page).kept = true;
}

void PagePool::Evict(int32_t page) {
  CHECK(at(page).list == kCachedList) << "page " << page << " is not cached";
  Unlink(page);
  at(page).kept = false;
  PutFree(page);
}

void PagePool::PutFree(int32_t page) {
  --num_used_[static_cast<size_t>(at(page).use)];
  const int32_t holder = std::exchange(at(page).holder, kNobody);
  PushFront(kFreeList, page);
  if (shares_ != nullptr) shares_->AddPages(holder, -1);
}

const PagePool::Page& PagePool::at(int32_t page) const {
  CHECK(page >= 0 && page < num_pages()) << "no page " << page;
  return pages_[static_cast<size_t>(page)];
}

PagePool::List& PagePool::ListOf(ListId list, int32_t page) {
  if (list == kFreeList) return free_;
  const auto holder = static_cast<size_t>(at(page).holder);
  if (holder >= cached_.size()) cached_.resize(holder + 1);
  return cached_[holder];
}

void PagePool::PushBack(ListId list, int32_t page) {
  List& ends = ListOf(list, page);
  at(page).list = list;
  at(page).previous = ends.tail;
  at(page).next = -1;
  (ends.tail < 0 ? ends.head : at(ends.tail).next) = page;
  ends.tail = page;
  ++ends.size;
  if (list != kCachedList) return;
  ++num_cached_;
  if (ends.size == 1 && shares_ != nullptr) {
    shares_->SetEvictable(at(page).holder, Evictable::kPrefixes, true);
  }
}

void PagePool::PushFront(ListId list, int32_t page) {
  List& ends = ListOf(list, page);
  at(page).list = list;
  at(page).previous = -1;
  at(page).next = ends.head;
  (ends.head < 0 ? ends.tail : at(ends.head).previous) = page;
  ends.head = page;
  ++ends.size;
}

void PagePool::Unlink(int32_t page) {
  Page& node = at(page);
  const ListId list = node.list;
  List& ends = ListOf(list, page);
  (node.previous < 0 ? ends.head : at(node.previous).next) = node.next;
  (node.next < 0 ? ends.tail : at(node.next).previous) = node.previous;
  node.previous = node.next = -1;
  node.list = kNoList;
  --ends.size;
  if (list != kCachedList) return;
  --num_cached_;
  if (ends.size == 0 && shares_ != nullptr) {
    shares_->SetEvictable(node.holder, Evictable::kPrefixes, false);
  }
}

void PagePool::AddReference(int32_t page) {
  if (at(page).list != kNoList) Unlink(page);
  ++at(page).references;
}

void PagePool::DropReference(int32_t page) {
  Page& node = at(page);
  CHECK_GT(node.references, 0) << "page " << page;
  if (--node.references > 0) return;
  if (!node.kept) return PutFree(page);
  node.cached_since = time_;
  PushBack(kCachedList, page);
}

Status PagePool::CheckList(ListId id, const List& list, int32_t holder) const {
  int32_t previous = -1;
  int32_t size = 0;
  for (int32_t page = list.head; page >= 0; page = at(page).next) {
    const Page& node = at(page);
    const bool belongs = node.list == id && node.references == 0 && node.previous == previous &&
                         node.kept == (id == kCachedList) && node.holder == holder;
    if (!belongs || ++size > num_pages()) {
      return InternalError("page " + std::to_string(page) + " does not belong in its list");
    }
    previous = page;
  }
  if (size != list.size || previous != list.tail) {
    return InternalError("a page list's size or tail is wrong");
  }
  return OkStatus();
}

Status PagePool::CheckIntegrity() const {
  RETURN_IF_ERROR(CheckList(kFreeList, free_, kNobody));
  int32_t num_of_holders = 0;
  for (size_t holder = 0; holder < cached_.size(); ++holder) {
    RETURN_IF_ERROR(CheckList(kCachedList, cached_[holder], static_cast<int32_t>(holder)));
    num_of_holders += cached_[holder].size;
  }
  if (num_of_holders != num_cached_) return InternalError("the cached pages are miscounted");
  int32_t num_listed = 0;
  int32_t num_used[2] = {};
  for (int32_t page = 0; page < num_pages(); ++page) {
    const bool listed = at(page).list != kNoList;
    if (listed == (at(page).references > 0)) {
      return InternalError("page " + std::to_string(page) + " is both listed and referenced");
    }
    num_listed += listed ? 1 : 0;
    if (at(page).list != kFreeList) ++num_used[static_cast<size_t>(at(page).use)];
  }
  for (const PageUse use : {PageUse::kKv, PageUse::kAdapters}) {
    if (num_used[static_cast<size_t>(use)] != num_used_[static_cast<size_t>(use)] ||
        num_used_[static_cast<size_t>(use)] > quota(use)) {
      return InternalError("the pages in use are miscounted, or over their quota");
    }
  }
  if (num_listed != num_free() + num_cached()) return InternalError("a page fell out of its list");
  return OkStatus();
}

}  // namespace graft
