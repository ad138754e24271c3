#include "cache/row_packer.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/random.h"

namespace graft {
namespace {

constexpr int64_t kPageBytes = 64 * 100;

class RowPackerTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(Integrity(), "OK"); }
  std::string Integrity() {
    const Status status = pool_.CheckIntegrity();
    return status.ok() ? packer_.CheckIntegrity().ToString() : status.ToString();
  }

  PagePool pool_{16};
  RowPacker packer_{pool_, PageUse::kAdapters, kPageBytes};
};

// Every row must lie whole in one extent, and the extents in order must be the source.
void ExpectHoldsRows(const PackedRows& packed, const std::vector<RowRun>& runs) {
  int64_t source = 0;
  for (const PageExtent& extent : packed.extents()) {
    EXPECT_EQ(extent.source_begin, source);
    EXPECT_GE(extent.page_begin, 0);
    EXPECT_LE(extent.page_begin + extent.bytes, kPageBytes);
    source += extent.bytes;
  }
  EXPECT_EQ(source, RowsBytes(runs));
  size_t extent = 0;
  int64_t row = 0;
  for (const RowRun& run : runs) {
    for (int32_t i = 0; i < run.num_rows; ++i, row += run.row_bytes) {
      while (row >= packed.extents()[extent].source_begin + packed.extents()[extent].bytes) {
        ++extent;
      }
      EXPECT_LE(row + run.row_bytes,
                packed.extents()[extent].source_begin + packed.extents()[extent].bytes)
          << "a row is cut";
    }
  }
}

TEST_F(RowPackerTest, RowsAreNeverCut) {
  const std::vector<RowRun> runs = {{64 * 30, 7}, {64, 5}, {64 * 100, 1}, {64 * 99, 2}};
  const auto packed = packer_.Pack(runs);
  ASSERT_TRUE(packed.has_value());
  ExpectHoldsRows(*packed, runs);
  EXPECT_EQ(packer_.bytes_used(), RowsBytes(runs));
  EXPECT_EQ(packer_.num_pages(), packer_.NumPages(runs));
  EXPECT_EQ(pool_.num_used(PageUse::kAdapters), packer_.num_pages());
}

TEST_F(RowPackerTest, RemaindersShareAPage) {
  const std::vector<RowRun> one_and_a_third = {{64, 133}};
  std::vector<PackedRows> adapters;
  for (int i = 0; i < 3; ++i) adapters.push_back(*packer_.Pack(one_and_a_third));
  EXPECT_EQ(packer_.num_pages(), 4);
  for (const PackedRows& rows : adapters) ExpectHoldsRows(rows, one_and_a_third);
  adapters.erase(adapters.begin() + 1);
  EXPECT_EQ(packer_.num_pages(), 3) << "its own page is free, the shared one is not";
  EXPECT_EQ(Integrity(), "OK");
  adapters.push_back(*packer_.Pack(one_and_a_third));
  EXPECT_EQ(packer_.num_pages(), 4) << "it took the hole";
}

TEST_F(RowPackerTest, WhatDoesNotFitChangesNothing) {
  EXPECT_EQ(packer_.NumPages(std::vector<RowRun>{{64 * 101, 1}}), -1);
  const PackedRows large = *packer_.Pack(std::vector<RowRun>{{64, 1550}});
  EXPECT_EQ(pool_.num_free(), 0);
  EXPECT_FALSE(packer_.Pack(std::vector<RowRun>{{64, 51}}).has_value());
  EXPECT_EQ(packer_.bytes_used(), 64 * 1550);
  const PackedRows small = *packer_.Pack(std::vector<RowRun>{{64, 50}});
  EXPECT_EQ(packer_.bytes_used(), packer_.bytes_held());
}

TEST_F(RowPackerTest, AQuotaIsAQuota) {
  PagePool split(16, {12, 4});
  RowPacker packer(split, PageUse::kAdapters, kPageBytes);
  EXPECT_FALSE(packer.Pack(std::vector<RowRun>{{64, 401}}).has_value());
  const auto packed = packer.Pack(std::vector<RowRun>{{64, 400}});
  EXPECT_TRUE(packed.has_value());
  std::vector<PageRef> pages;
  while (PageRef page = split.Allocate()) pages.push_back(std::move(page));
  EXPECT_EQ(pages.size(), 12u);
}

TEST_F(RowPackerTest, CountsWhatGivingBackWouldFree) {
  const std::vector<RowRun> runs = {{64, 133}};
  PackedRows a = *packer_.Pack(runs);
  PackedRows b = *packer_.Pack(runs);
  EXPECT_EQ(packer_.num_reclaimable(), 0);
  a.SetReclaimable(true);
  EXPECT_EQ(packer_.num_reclaimable(), 1) << "the page of the remainders is b's, too";
  b.SetReclaimable(true);
  EXPECT_EQ(packer_.num_reclaimable(), 3);
  a.SetReclaimable(false);
  EXPECT_EQ(packer_.num_reclaimable(), 1);
  a.Release();
  EXPECT_EQ(packer_.num_reclaimable(), 2);
  b.Release();
  EXPECT_EQ(packer_.num_reclaimable(), 0);
}

TEST(RowPackerAlignmentTest, RowsAreAlignedInPagesOfAnySize) {
  PagePool pool(8);
  constexpr int64_t kOddBytes = 1000;
  RowPacker packer(pool, PageUse::kAdapters, kOddBytes);
  const PackedRows rows = *packer.Pack(std::vector<RowRun>{{64, 30}, {128, 20}});
  for (const PageExtent& extent : rows.extents()) {
    EXPECT_EQ((extent.page * kOddBytes + extent.page_begin) % kRowAlignment, 0);
    EXPECT_LE(extent.page_begin + extent.bytes, kOddBytes);
  }
}

// An adapter of Llama-2-7B's shape in bf16: seven modules of 32 layers.
std::vector<RowRun> LlamaRows(int32_t rank) {
  std::vector<RowRun> runs;
  for (int layer = 0; layer < 32; ++layer) {
    runs.push_back({8192, 8 * rank});  // q, k, v, o
    for (int i = 0; i < 2; ++i) {      // gate, up
      runs.push_back({8192, rank});
      runs.push_back({22016, rank});
    }
    runs.push_back({22016, rank});
    runs.push_back({8192, rank});
  }
  return runs;
}

// The figure of docs/inside/adapters-paging.md: ranks 8 to 128 mixed, KV of 16-token pages beside,
// both coming and going.
TEST(RowPackerWasteTest, StaysBelowFivePercentUnderChurn) {
  constexpr int64_t kLlamaPageBytes = int64_t{32} * 2 * 32 * 16 * 128 * 2;
  PagePool pool(8000);
  RowPacker packer(pool, PageUse::kAdapters, kLlamaPageBytes);
  Random random(3);
  constexpr int32_t kRanks[] = {8, 16, 32, 64, 128};
  std::deque<PackedRows> adapters;
  std::deque<PageRef> kv;
  double worst = 0.0;
  double sum = 0.0;
  int num_samples = 0;
  for (int step = 0; step < 4000; ++step) {
    for (uint64_t i = random.Below(40); i > 0; --i) {
      if (PageRef page = pool.Allocate()) kv.push_back(std::move(page));
    }
    while (kv.size() > 2000 + random.Below(1000)) kv.pop_front();
    auto packed = packer.Pack(LlamaRows(kRanks[random.Below(5)]));
    while (!packed.has_value()) {
      const size_t victim = random.Below(adapters.size());
      adapters.erase(adapters.begin() + static_cast<ptrdiff_t>(victim));
      packed = packer.Pack(LlamaRows(kRanks[random.Below(5)]));
    }
    adapters.push_back(std::move(*packed));
    if (step < 500) continue;
    const double waste =
        1.0 - static_cast<double>(packer.bytes_used()) / static_cast<double>(packer.bytes_held());
    worst = std::max(worst, waste);
    sum += waste;
    ++num_samples;
  }
  EXPECT_EQ(packer.CheckIntegrity().ToString(), "OK");
  EXPECT_LE(worst, 0.05);
  RecordProperty("mean_waste_ppm", static_cast<int>(1e6 * sum / num_samples));
  RecordProperty("worst_waste_ppm", static_cast<int>(1e6 * worst));
}

// Against a byte map: no two rows on one byte, and all of it back at the end.
TEST(RowPackerRandomTest, AgreesWithAByteMap) {
  Random random(11);
  PagePool pool(40);
  RowPacker packer(pool, PageUse::kAdapters, kPageBytes);
  std::vector<bool> taken(40 * kPageBytes / kRowAlignment, false);
  const auto mark = [&](const PackedRows& rows, bool to) {
    for (const PageExtent& extent : rows.extents()) {
      const int64_t begin = (extent.page * kPageBytes + extent.page_begin) / kRowAlignment;
      for (int64_t i = begin; i < begin + extent.bytes / kRowAlignment; ++i) {
        ASSERT_NE(taken[static_cast<size_t>(i)], to) << "unit " << i;
        taken[static_cast<size_t>(i)] = to;
      }
    }
  };
  std::vector<PackedRows> held;
  std::vector<PageRef> others;
  for (int step = 0; step < 5000; ++step) {
    std::vector<RowRun> runs(1 + random.Below(6));
    for (RowRun& run : runs) {
      run = {static_cast<int32_t>(64 * (1 + random.Below(20))),
             static_cast<int32_t>(1 + random.Below(30))};
    }
    if (auto packed = packer.Pack(runs); packed.has_value()) {
      ExpectHoldsRows(*packed, runs);
      mark(*packed, true);
      packed->SetReclaimable(random.Below(2) == 0);
      held.push_back(std::move(*packed));
    } else if (random.Below(2) == 0) {
      others.clear();
    }
    if (random.Below(3) == 0) others.push_back(pool.Allocate());
    while (held.size() > 12 || (!held.empty() && random.Below(3) == 0)) {
      const size_t victim = random.Below(held.size());
      mark(held[victim], false);
      held.erase(held.begin() + static_cast<ptrdiff_t>(victim));
    }
    ASSERT_EQ(packer.CheckIntegrity().ToString(), "OK");
    ASSERT_EQ(pool.CheckIntegrity().ToString(), "OK");
    if (testing::Test::HasFailure()) return;
  }
  held.clear();
  EXPECT_EQ(packer.bytes_used(), 0);
  EXPECT_EQ(packer.num_pages(), 0);
}

}  // namespace
}  // namespace graft
