#include "cache/row_packer.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace graft {
namespace {

constexpr int32_t kHolesMax = 8;
// A pool's page that one adapter may be spread over without being missed by its sequences.
constexpr int32_t kPagesPerHole = 64;
// Holes smaller than this share of a page are left alone: each is a copy of its own.
constexpr int64_t kHoleShare = 64;

// Pages begin at any multiple of page_bytes, rows at multiples of kRowAlignment.
int64_t CapacityOf(int64_t page_bytes) {
  if (page_bytes % kRowAlignment == 0) return page_bytes;
  return std::max<int64_t>(0, page_bytes - kRowAlignment + 1) / kRowAlignment * kRowAlignment;
}

}  // namespace

PackedRows::PackedRows(PackedRows&& other) noexcept
    : packer_(std::exchange(other.packer_, nullptr)),
      extents_(std::exchange(other.extents_, {})),
      reclaimable_(std::exchange(other.reclaimable_, false)) {}

PackedRows& PackedRows::operator=(PackedRows&& other) noexcept {
  if (this == &other) return *this;
  Release();
  packer_ = std::exchange(other.packer_, nullptr);
  extents_ = std::exchange(other.extents_, {});
  reclaimable_ = std::exchange(other.reclaimable_, false);
  return *this;
}

void PackedRows::Release() {
  for (const PageExtent& extent : extents_) packer_->Release(extent, reclaimable_);
  extents_.clear();
  reclaimable_ = false;
}

void PackedRows::SetReclaimable(bool reclaimable) {
  if (reclaimable == reclaimable_) return;
  reclaimable_ = reclaimable;
  for (const PageExtent& extent : extents_) {
    packer_->CountReclaimable(extent.page, 0, reclaimable ? 1 : -1);
  }
}

RowPacker::RowPacker(PagePool& pool, PageUse use, int64_t page_bytes)
    : pool_(pool),
      use_(use),
      page_bytes_(page_bytes),
      capacity_(CapacityOf(page_bytes)),
      holes_max_(std::clamp(pool.num_pages() / kPagesPerHole, 1, kHolesMax)),
      hole_bytes_(capacity_ / kHoleShare),
      pages_(static_cast<size_t>(pool.num_pages())) {
  CHECK_GT(page_bytes, 0);
}

RowPacker::~RowPacker() { CHECK_EQ(num_pages_, 0) << "rows outlive their packer"; }

int32_t RowPacker::PageBegin(int32_t page) const {
  const int64_t past = page * page_bytes_ % kRowAlignment;
  return static_cast<int32_t>(past == 0 ? 0 : kRowAlignment - past);
}

int64_t RowPacker::Fill(Cursor& cursor, int64_t bytes) {
  int64_t filled = 0;
  while (!cursor.done()) {
    const RowRun& run = cursor.runs.front();
    const int64_t fits = (bytes - filled) / run.row_bytes;
    const int32_t left = run.num_rows - cursor.rows_done;
    const auto taken = static_cast<int32_t>(std::min<int64_t>(fits, left));
    filled += int64_t{taken} * run.row_bytes;
    if (taken < left) {
      cursor.rows_done += taken;
      break;
    }
    cursor.runs = cursor.runs.subspan(1);
    cursor.rows_done = 0;
  }
  cursor.source += filled;
  return filled;
}

int32_t RowPacker::NumPages(std::span<const RowRun> runs) const {
  for (const RowRun& run : runs) {
    CHECK(run.row_bytes > 0 && run.row_bytes % kRowAlignment == 0) << run.row_bytes;
    if (run.row_bytes > capacity_) return -1;
  }
  int64_t last_bytes = 0;
  return NumFreshPages({runs}, &last_bytes);
}

int32_t RowPacker::NumFreshPages(Cursor cursor, int64_t* last_bytes) const {
  int32_t num_pages = 0;
  while (!cursor.done()) {
    *last_bytes = Fill(cursor, capacity_);
    ++num_pages;
  }
  return num_pages;
}

std::vector<RowPacker::Hole> RowPacker::FindHoles() const {
  std::vector<Hole> holes;
  for (const int32_t page : holey_) {
    Hole largest = {page, 0, 0};
    for (const auto& [begin, bytes] : pages_[static_cast<size_t>(page)].holes) {
      if (bytes > largest.bytes) largest = {page, begin, bytes};
    }
    holes.push_back(largest);
  }
  return holes;
}

void RowPacker::NoteHoles(int32_t page) {
  const auto is_large = [this](const auto& hole) { return hole.second >= hole_bytes_; };
  const auto& holes = pages_[static_cast<size_t>(page)].holes;
  if (std::any_of(holes.begin(), holes.end(), is_large)) {
    holey_.insert(page);
  } else {
    holey_.erase(page);
  }
}

// Holes that save one fresh page: the smallest hole that suffices alone, or else several of the
// largest; none where no choice suffices. The last hole is cut to what that needs, so that as many
// rows as possible lie in whole pages of their own.
std::vector<RowPacker::Hole> RowPacker::ChooseHoles(std::span<const RowRun> runs, int32_t num_fresh,
                                                    int64_t last_bytes) const {
  const auto suffices = [&](std::span<const Hole> chosen) {
    Cursor cursor = {runs};
    for (const Hole& hole : chosen) Fill(cursor, hole.bytes);
    int64_t unused = 0;
    return NumFreshPages(cursor, &unused) < num_fresh;
  };
  // Whether the holes suffice, with the last one cut to what is needed. Rows rarely end where pages
  // do, so that may be somewhat more than the bytes of the last page.
  const auto trim = [&](std::span<Hole> chosen) {
    const int32_t whole = chosen.back().bytes;
    int64_t wanted = last_bytes;
    for (const Hole& hole : chosen.first(chosen.size() - 1)) wanted -= hole.bytes;
    for (const int64_t bytes : {wanted, wanted + capacity_ / kHoleShare, int64_t{whole}}) {
      if (bytes > whole) continue;
      chosen.back().bytes = static_cast<int32_t>(bytes);
      if (bytes > 0 && suffices(chosen)) return true;
    }
    chosen.back().bytes = whole;
    return false;
  };
  std::vector<Hole> holes = FindHoles();
  std::sort(holes.begin(), holes.end(), [](const Hole& a, const Hole& b) {
    return std::tuple(-a.bytes, a.page, a.begin) < std::tuple(-b.bytes, b.page, b.begin);
  });
  auto hole = std::find_if(holes.begin(), holes.end(),
                           [&](const Hole& candidate) { return candidate.bytes < last_bytes; });
  while (hole != holes.begin()) {
    --hole;
    if (trim({&*hole, 1})) return {*hole};
    if (hole->bytes >= last_bytes + capacity_ / 8) break;  // bytes are not what it lacks
  }
  if (holes.size() > static_cast<size_t>(holes_max_)) holes.resize(static_cast<size_t>(holes_max_));
  int64_t bytes = 0;
  for (size_t n = 1; n <= holes.size(); ++n) {
    bytes += holes[n - 1].bytes;
    if (bytes < last_bytes || !trim(std::span(holes).first(n))) continue;
    holes.resize(n);
    return holes;
  }
  return {};
}

std::optional<PackedRows> RowPacker::Pack(std::span<const RowRun> runs) {
  CHECK_GE(NumPages(runs), 0) << "a row is longer than a page";
  int64_t last_bytes = 0;
  int32_t num_fresh = NumFreshPages({runs}, &last_bytes);
  if (num_fresh - 1 > pool_.num_allocatable(use_)) return std::nullopt;
  std::vector<Hole> holes = ChooseHoles(runs, num_fresh, last_bytes);
  if (holes.empty() && num_fresh > pool_.num_allocatable(use_)) return std::nullopt;
  std::vector<PageExtent> extents;
  Cursor cursor = {runs};
  for (const Hole& hole : holes) Place(hole, cursor, &extents);
  while (!cursor.done()) {
    PageRef ref = pool_.Allocate(use_);
    CHECK(ref) << "holes did not save the page that they were to save";
    const int32_t id = ref.page();
    Page& page = pages_[static_cast<size_t>(id)];
    page.ref = std::move(ref);
    page.holes = {{PageBegin(id), static_cast<int32_t>(capacity_)}};
    ++num_pages_;
    Place({id, PageBegin(id), static_cast<int32_t>(capacity_)}, cursor, &extents);
  }
  return PackedRows(this, std::move(extents));
}

void RowPacker::Place(const Hole& hole, Cursor& cursor, std::vector<PageExtent>* extents) {
  const int64_t source = cursor.source;
  const auto bytes = static_cast<int32_t>(Fill(cursor, hole.bytes));
  if (bytes == 0) return;
  Page& page = pages_[static_cast<size_t>(hole.page)];
  const auto whole = page.holes.find(hole.begin);
  CHECK(whole != page.holes.end() && whole->second >= bytes) << "no hole in page " << hole.page;
  const int32_t left = whole->second - bytes;
  page.holes.erase(whole);
  if (left > 0) page.holes[hole.begin + bytes] = left;
  CountReclaimable(hole.page, 1, 0);
  bytes_used_ += bytes;
  extents->push_back({hole.page, hole.begin, source, bytes});
  NoteHoles(hole.page);
}

void RowPacker::Release(const PageExtent& extent, bool reclaimable) {
  Page& page = pages_[static_cast<size_t>(extent.page)];
  bytes_used_ -= extent.bytes;
  CountReclaimable(extent.page, -1, reclaimable ? -1 : 0);
  if (page.num_extents == 0) {
    page.holes.clear();
    page.ref = PageRef();
    holey_.erase(extent.page);
    --num_pages_;
    return;
  }
  auto [hole, is_new] = page.holes.emplace(extent.page_begin, static_cast<int32_t>(extent.bytes));
  CHECK(is_new) << "page " << extent.page << " has a hole there already";
  const auto next = std::next(hole);
  if (next != page.holes.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    page.holes.erase(next);
  }
  if (hole != page.holes.begin()) {
    const auto previous = std::prev(hole);
    if (previous->first + previous->second == hole->first) {
      previous->second += hole->second;
      page.holes.erase(hole);
    }
  }
  NoteHoles(extent.page);
}

// The page's counts change by so much.
void RowPacker::CountReclaimable(int32_t id, int32_t num_extents, int32_t num_reclaimable) {
  Page& page = pages_[static_cast<size_t>(id)];
  const auto is_reclaimable = [&page] {
    return page.num_extents > 0 && page.num_extents == page.num_reclaimable;
  };
  num_reclaimable_ -= is_reclaimable() ? 1 : 0;
  page.num_extents += num_extents;
  page.num_reclaimable += num_reclaimable;
  num_reclaimable_ += is_reclaimable() ? 1 : 0;
}

Status RowPacker::CheckIntegrity(std::vector<int32_t>* references) const {
  int32_t num_pages = 0;
  int32_t num_reclaimable = 0;
  int64_t bytes_used = 0;
  for (size_t id = 0; id < pages_.size(); ++id) {
    const Page& page = pages_[id];
    const std::string name = "packed page " + std::to_string(id);
    if (static_cast<bool>(page.ref) != (page.num_extents > 0)) {
      return InternalError(name + " is held for nobody, or not held");
    }
    if (!page.ref) continue;
    ++num_pages;
    num_reclaimable += page.num_reclaimable == page.num_extents ? 1 : 0;
    if (references != nullptr) ++(*references)[id];
    const int32_t begin = PageBegin(static_cast<int32_t>(id));
    int64_t hole_bytes = 0;
    int32_t end_of_last = -1;
    for (const auto& [hole, bytes] : page.holes) {
      if (bytes <= 0 || hole <= end_of_last || hole < begin || hole + bytes > begin + capacity_) {
        return InternalError(name + " has a hole where none can be");
      }
      end_of_last = hole + bytes;
      hole_bytes += bytes;
    }
    bytes_used += capacity_ - hole_bytes;
  }
  if (num_pages != num_pages_ || bytes_used != bytes_used_ || num_reclaimable != num_reclaimable_) {
    return InternalError("the packer miscounts its pages or bytes");
  }
  return OkStatus();
}

}  // namespace graft
