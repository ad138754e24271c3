// RowPacker packs rows of any sizes into pages of a pool. It decides which bytes of which pages
// each row gets, and touches no bytes itself. A row never straddles a page. An adapter gets whole
// pages of its own. The rest of it goes into holes of pages that several adapters share, if that
// saves a page. (S-LoRA, section 4.2, has pages of one row instead; these are large, because KV's
// layout needs that.) One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cache/page_pool.h"
#include "step/adapter_rows.h"

namespace graft {

class RowPacker;

// The place of some rows, given back when this goes. The packer outlives it.
class PackedRows {
 public:
  PackedRows() = default;
  PackedRows(PackedRows&& other) noexcept;
  PackedRows& operator=(PackedRows&& other) noexcept;
  ~PackedRows() { Release(); }

  // In the order of the source.
  const std::vector<PageExtent>& extents() const { return extents_; }
  bool empty() const { return extents_.empty(); }
  void Release();
  // Whether the owner of the rows would give them back when asked; at first not.
  void SetReclaimable(bool reclaimable);

 private:
  friend class RowPacker;
  PackedRows(RowPacker* packer, std::vector<PageExtent> extents)
      : packer_(packer), extents_(std::move(extents)) {}

  RowPacker* packer_ = nullptr;
  std::vector<PageExtent> extents_;
  bool reclaimable_ = false;
};

class RowPacker {
 public:
  // Takes pages of `page_bytes` from the pool for `use`. Page p begins at byte p * page_bytes of
  // memory that is aligned to kRowAlignment.
  RowPacker(PagePool& pool, PageUse use, int64_t page_bytes);
  ~RowPacker();
  RowPacker(const RowPacker&) = delete;
  RowPacker& operator=(const RowPacker&) = delete;

  // A place for all rows, or nothing (and nothing changed) where the pool has not enough pages.
  std::optional<PackedRows> Pack(std::span<const RowRun> runs);

  // Pages that the rows take at most beside holes; -1 where a row is longer than a page.
  int32_t NumPages(std::span<const RowRun> runs) const;
  // Pages that the rows can touch at most, however they are placed.
  int32_t NumPagesMax(std::span<const RowRun> runs) const { return NumPages(runs) + holes_max_; }
  int32_t num_pages() const { return num_pages_; }  // held
  // Pages that would be free if all reclaimable rows were given back.
  int32_t num_reclaimable() const { return num_reclaimable_; }
  int64_t bytes_used() const { return bytes_used_; }  // by rows
  int64_t bytes_held() const { return num_pages_ * page_bytes_; }

  // For tests: every byte is a row's or a hole's, once; references of the pool are counted in
  // `references` by page, if given.
  Status CheckIntegrity(std::vector<int32_t>* references = nullptr) const;

 private:
  friend class PackedRows;
  struct Page {
    PageRef ref;  // empty: not held
    int32_t num_extents = 0;
    int32_t num_reclaimable = 0;       // extents
    std::map<int32_t, int32_t> holes;  // bytes by where they begin
  };
  struct Hole {
    int32_t page = 0;
    int32_t begin = 0;
    int32_t bytes = 0;
  };
  // Where the next row stands.
  struct Cursor {
    std::span<const RowRun> runs;
    int32_t rows_done = 0;  // of runs[0]
    int64_t source = 0;
    bool done() const { return runs.empty(); }
  };

  int32_t PageBegin(int32_t page) const;
  // Bytes of the rows that fit into `bytes`; the cursor moves behind them.
  static int64_t Fill(Cursor& cursor, int64_t bytes);
  int32_t NumFreshPages(Cursor cursor, int64_t* last_bytes) const;
  std::vector<Hole> ChooseHoles(std::span<const RowRun> runs, int32_t num_fresh,
                                int64_t last_bytes) const;
  // The largest of each page.
  std::vector<Hole> FindHoles() const;
  void NoteHoles(int32_t page);
  void Place(const Hole& hole, Cursor& cursor, std::vector<PageExtent>* extents);
  void Release(const PageExtent& extent, bool reclaimable);
  void CountReclaimable(int32_t page, int32_t num_extents, int32_t num_reclaimable);

  PagePool& pool_;
  const PageUse use_;
  const int64_t page_bytes_;
  const int64_t capacity_;    // bytes of a page that rows can use
  const int32_t holes_max_;   // that the rows of one Pack are spread over
  const int64_t hole_bytes_;  // the smallest hole that is looked at
  std::vector<Page> pages_;   // by id
  std::set<int32_t> holey_;   // pages with a hole of hole_bytes_ or more
  int32_t num_pages_ = 0;
  int32_t num_reclaimable_ = 0;
  int64_t bytes_used_ = 0;
};

}  // namespace graft
