// Compares the page pool with a naive model: a count and two flags per page, and lists that are
// searched from end to end. After every operation both must agree on every page, and on the page
// that is evicted next.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "cache/page_pool.h"

namespace graft {
namespace {

class Model {
 public:
  explicit Model(int32_t num_pages) : pool_(num_pages), pages_(static_cast<size_t>(num_pages)) {}

  void Apply(uint8_t operation, uint8_t operand) {
    switch (operation % 6) {
      case 0:
        return Allocate();
      case 1:
        return Share(operand);
      case 2:
        return Keep(operand);
      case 3:
        return Drop(operand);
      case 4:
        return Evict();
      default:
        return Copy(operand);
    }
  }

  void Check() const {
    const Status status = pool_.CheckIntegrity();
    CHECK(status.ok()) << status.ToString();
    int32_t num_free = 0;
    for (int32_t page = 0; page < pool_.num_pages(); ++page) {
      const Page& expected = pages_[static_cast<size_t>(page)];
      CHECK_EQ(pool_.references(page), expected.references);
      CHECK_EQ(pool_.kept(page), expected.kept);
      num_free += expected.references == 0 && !expected.kept ? 1 : 0;
    }
    CHECK_EQ(pool_.num_free(), num_free);
    CHECK_EQ(pool_.num_cached(), static_cast<int32_t>(cached_.size()));
    CHECK_EQ(pool_.OldestCached(), cached_.empty() ? -1 : cached_.front());
  }

 private:
  struct Page {
    int32_t references = 0;
    bool kept = false;
  };

  void Allocate() {
    PageRef ref = pool_.Allocate();
    const bool expected = std::any_of(pages_.begin(), pages_.end(), [](const Page& page) {
      return page.references == 0 && !page.kept;
    });
    CHECK_EQ(static_cast<bool>(ref), expected);
    if (!ref) return;
    Page& page = pages_[static_cast<size_t>(ref.page())];
    CHECK(page.references == 0 && !page.kept) << "page " << ref.page() << " was not free";
    page.references = 1;
    refs_.push_back(std::move(ref));
  }

  void Share(uint8_t operand) {
    const int32_t id = operand % pool_.num_pages();
    Page& page = pages_[static_cast<size_t>(id)];
    if (page.references == 0 && !page.kept) return;
    refs_.push_back(pool_.Share(id));
    ++page.references;
    cached_.remove(id);
  }

  void Keep(uint8_t operand) {
    const int32_t id = operand % pool_.num_pages();
    Page& page = pages_[static_cast<size_t>(id)];
    if (page.references == 0 || page.kept) return;
    pool_.Keep(id);
    page.kept = true;
  }

  void Drop(uint8_t operand) {
    if (refs_.empty()) return;
    const auto it = refs_.begin() + operand % static_cast<ptrdiff_t>(refs_.size());
    const int32_t id = it->page();
    refs_.erase(it);
    Page& page = pages_[static_cast<size_t>(id)];
    if (--page.references == 0 && page.kept) cached_.push_back(id);
  }

  void Evict() {
    if (cached_.empty()) return;
    const int32_t id = cached_.front();
    cached_.pop_front();
    pool_.Evict(id);
    pages_[static_cast<size_t>(id)].kept = false;
  }

  void Copy(uint8_t operand) {
    if (refs_.empty()) return;
    PageRef copy = refs_[operand % refs_.size()];
    ++pages_[static_cast<size_t>(copy.page())].references;
    refs_.push_back(std::move(copy));
  }

  PagePool pool_;
  std::vector<PageRef> refs_;  // declared after the pool, so destroyed before it
  std::vector<Page> pages_;
  std::list<int32_t> cached_;  // oldest first
};

}  // namespace
}  // namespace graft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  graft::Model model(1 + data[0] % 16);
  for (size_t i = 1; i + 1 < size; i += 2) {
    model.Apply(data[i], data[i + 1]);
    model.Check();
  }
  return 0;
}
