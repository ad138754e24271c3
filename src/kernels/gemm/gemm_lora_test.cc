// Gemm with LoRA gives the product plus scale * h B^T, whatever else is in the batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_ways.h"
#include "kernels/lora/lora.h"

namespace graft {
namespace gemm_lora_test {

using testing::AllWays;
using testing::ForEachDevice;
using testing::ForFirstGpu;
using testing::GemmWay;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;
using testing::Shared;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kBf16Max = 0x1.FEp127f;

struct Case {
  const char* name;
  std::vector<int64_t> slices;  // columns of each, which lie side by side
  int64_t n;                    // columns of y
  int64_t k;
  std::vector<std::vector<int32_t>> ranks;  // [adapter slot][slice]
  std::vector<LoraSegment> segments;
  int32_t num_rows;
  bool accumulate = false;
  int64_t misalign = 0;  // of the rows of B
  int64_t h_gap = 0;
  int64_t h_misalign = 0;
  int32_t huge_slot = -1;  // the adapter with the largest B that bf16 can hold
  float scale = 1.0f;      // of what is added to y
};

// Inside the product, where the device's kernel takes it.
LoraPlace PlaceOn(const Device& device, DType dtype, DType adapters) {
  return GemmTakesLora(dtype, adapters, device) ? LoraPlace::kInside : LoraPlace::kAfter;
}

std::vector<LoraSegment> OneRowEach(int32_t rows, int32_t adapters) {
  std::vector<LoraSegment> segments;
  for (int32_t i = 0; i < rows; ++i) segments.push_back({i, i + 1, i % adapters});
  return segments;
}

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      {"smallest", {1}, 1, 1, {{1}}, {{0, 1, 0}}, 1},
      {"no segments", {24}, 24, 16, {{1}}, {}, 3},
      {"all empty", {24}, 24, 16, {{1}}, {{0, 0, 0}, {2, 2, 0}}, 3},
      {"one row, a whole tile of ranks", {64}, 64, 64, {{16}}, {{0, 1, 0}}, 1},
      {"distinct rows, three slices",
       {128, 64, 64},
       256,
       72,
       {{16, 16, 16}, {8, 64, 1}, {17, 0, 256}},
       OneRowEach(40, 3),
       40,
       true},
      {"slices off borders and short of y",
       {70, 33, 9},
       115,
       40,
       {{16, 1, 17}, {64, 8, 0}},
       {{1, 2, 0}, {4, 4, 1}, {5, 9, 1}, {9, 10, 0}, {12, 14, 1}, {16, 16, 0}},
       16,
       false,
       0,
       3},
      {"rows of B off borders", {128}, 128, 64, {{16}, {3}}, OneRowEach(20, 2), 20, true, 1, 1},
      {"several tiles of rows",
       {96, 200},
       296,
       48,
       {{16, 8}, {64, 17}, {0, 1}},
       {{0, 64, 0}, {64, 70, 1}, {71, 128, 0}, {130, 200, 1}, {200, 201, 2}, {255, 290, 0}},
       300},
      {"the largest rank", {80}, 88, 64, {{256}, {255}}, {{0, 3, 0}, {3, 70, 1}}, 71},
      {"h off borders",
       {64, 40},
       104,
       64,
       {{16, 4}, {24, 0}},
       {{0, 3, 0}, {4, 20, 1}},
       20,
       false,
       0,
       0,
       1},
  };
  for (Case& c : cases) c.scale = c.accumulate ? 0.22f : 1.0f;
  return cases;
}

// A Case with its data. h is not computed but given, on a GPU in kLoraSplits parts. What no kernel
// may read of it is NaN.
template <typename T>
class Problem {
 public:
  using Adapter = std::conditional_t<std::is_same_v<T, float>, float, Bfloat16>;

  Problem(const Case& c, Stream& stream)
      : test(c),
        device_(stream.device),
        num_slices_(static_cast<int32_t>(c.slices.size())),
        num_parts_(stream.device.is_cpu() ? 1 : kLoraSplits),
        matrices_(std::vector<LoraMatrix>(c.ranks.size() * c.slices.size())) {
    w_ = Input<T>::Normal(c.n * c.k, 1);
    x_ = Input<T>::Normal(c.num_rows * c.k, 2);
    bias_ = Input<float>::Normal(c.n, 3);
    y_before = Input<float>::Normal(c.num_rows * c.n, 4);
    const TensorView view{w_.data(), DTypeOf<T>(), {c.n, c.k}};
    weight = GemmWeight::Pack({&view, 1}, DTypeOf<T>(), stream);
    uint64_t seed = 10;
    for (size_t slot = 0; slot < c.ranks.size(); ++slot) {
      for (int32_t s = 0; s < num_slices_; ++s) AddMatrix(slot, s, seed++);
    }
    h_stride_ = (rank_max_ + 3) / 4 * 4 + c.h_gap;
    h_ = Input<float>::Normal(num_parts_ * num_slices_ * c.num_rows * h_stride_, 5);
    for (int64_t i = 0; i < h_.size(); ++i) {
      const auto row = static_cast<int32_t>(i / h_stride_ % c.num_rows);
      const auto slice = static_cast<int32_t>(i / h_stride_ / c.num_rows % num_slices_);
      const int32_t slot = SlotOf(row);
      const int32_t rank = slot < 0 ? 0 : MatrixOf(slot, slice).rank;
      if (i % h_stride_ >= rank) h_[i] = kNan;
    }
  }
  Problem(const Problem&) = delete;

  int32_t SlotOf(int32_t row) const {
    for (const LoraSegment& segment : test.segments) {
      if (row >= segment.row_begin && row < segment.row_end) return segment.adapter_slot;
    }
    return -1;
  }
  bool IsHuge(int32_t row) const { return SlotOf(row) >= 0 && SlotOf(row) == test.huge_slot; }

  Reference Expected(int32_t row, int64_t column) const {
    Reference sum;
    for (int64_t i = 0; i < test.k; ++i) {
      sum.Add(test.scale * x_.At(row * test.k + i) * w_.At(column * test.k + i));
    }
    sum.Add(test.scale * bias_.At(column));
    if (test.accumulate) sum.Add(y_before.At(row * test.n + column));
    const int32_t slot = SlotOf(row);
    for (int32_t s = 0; s < num_slices_ && slot >= 0; column -= test.slices[s++]) {
      if (column < 0 || column >= test.slices[s]) continue;
      const LoraMatrix& matrix = MatrixOf(slot, s);
      for (int32_t j = 0; j < matrix.rank; ++j) {
        const double b = ToFloat(static_cast<const Adapter*>(matrix.b_rows[j])[column]);
        for (int32_t part = 0; part < num_parts_; ++part) {
          sum.Add(test.scale * matrix.scale * b * h_.At(HAt(part, s, row, test.num_rows) + j));
        }
      }
    }
    return sum;
  }
  std::vector<Reference> Expected() const {
    std::vector<Reference> all;
    for (int32_t row = 0; row < test.num_rows; ++row) {
      for (int64_t column = 0; column < test.n; ++column) all.push_back(Expected(row, column));
    }
    return all;
  }

  // Rows [first, first + m) as a separate batch.
  struct Batch {
    Batch(const Problem& problem, int32_t first, int32_t m)
        : segments(SegmentsOf(problem, first, m)),
          h(problem.ScratchFloats(m), problem.test.h_misalign),
          y(m * problem.test.n) {
      for (int32_t part = 0; part < problem.num_parts_; ++part) {
        for (int32_t s = 0; s < problem.num_slices_; ++s) {
          std::copy_n(problem.h_.data() + problem.HAt(part, s, first, problem.test.num_rows),
                      m * problem.h_stride_, h.data() + problem.HAt(part, s, 0, m));
        }
      }
      std::copy_n(problem.y_before.data() + first * problem.test.n, y.size(), y.data());
      lora = problem.Lora(m);
      lora.scale = problem.test.scale;
      lora.segments = segments.data();
      lora.num_segments = static_cast<int32_t>(segments.size());
      lora.h = h.data();
      lora.y = y.data();
      gemm = {.x = problem.x_.data() + first * problem.test.k,
              .x_stride = problem.test.k,
              .m = m,
              .weight = &problem.weight,
              .y = y.data(),
              .y_stride = problem.test.n,
              .epilogue = {.bias = problem.bias_.data(),
                           .accumulate = problem.test.accumulate,
                           .scale = problem.test.scale,
                           .lora = &lora,
                           .lora_place = PlaceOn(problem.device_, DTypeOf<T>(), lora.dtype)}};
    }
    Batch(const Batch&) = delete;

    Shared<LoraSegment> segments;
    Output<float> h;
    Input<float> y;
    LoraArgs lora;
    GemmArgs gemm;
  };

  // Puts NaN into h for the rows of this adapter.
  void Spoil(int32_t slot) {
    for (int32_t row = 0; row < test.num_rows; ++row) {
      if (SlotOf(row) == slot) h_[HAt(0, 0, row, test.num_rows)] = kNan;
    }
  }

  const Case test;
  GemmWeight weight;
  Input<float> y_before{0};

 private:
  void AddMatrix(size_t slot, int32_t slice, uint64_t seed) {
    const int32_t rank = test.ranks[slot][slice];
    const int64_t stride = (test.slices[slice] + 7) / 8 * 8;
    Input<Adapter>& b = b_.emplace_back(Input<Adapter>::Normal(rank * stride, seed, test.misalign));
    for (int64_t i = 0; i < b.size() && static_cast<int32_t>(slot) == test.huge_slot; ++i) {
      b[i] = FromFloat<Adapter>(std::copysign(kBf16Max, ToFloat(b[i])));
    }
    std::vector<const void*> rows;
    for (int32_t j = 0; j < rank; ++j) rows.push_back(b.data() + j * stride);
    const float scale = 0.5f + 0.25f * static_cast<float>(seed % 5);
    matrices_[slot * num_slices_ + slice] = {
        .b_rows = rows_.emplace_back(rows).data(), .rank = rank, .scale = scale};
    rank_max_ = std::max(rank_max_, rank);
  }
  const LoraMatrix& MatrixOf(int32_t slot, int32_t slice) const {
    return matrices_[slot * num_slices_ + slice];
  }
  int64_t HAt(int32_t part, int32_t slice, int32_t row, int32_t num_rows) const {
    return ((int64_t{part} * num_slices_ + slice) * num_rows + row) * h_stride_;
  }
  int64_t ScratchFloats(int32_t num_rows) const {
    return LoraScratchFloats(device_, int64_t{num_slices_} * num_rows, h_stride_);
  }
  static Shared<LoraSegment> SegmentsOf(const Problem& problem, int32_t first, int32_t m) {
    std::vector<LoraSegment> segments;
    for (LoraSegment segment : problem.test.segments) {
      segment.row_begin = std::clamp(segment.row_begin - first, 0, m);
      segment.row_end = std::clamp(segment.row_end - first, 0, m);
      segments.push_back(segment);
    }
    return Shared<LoraSegment>(segments);
  }
  LoraArgs Lora(int32_t num_rows) const {
    LoraArgs args{.dtype = DTypeOf<Adapter>(),
                  .matrices = matrices_.data(),
                  .matrices_stride = num_slices_,
                  .num_slices = num_slices_,
                  .k = test.k,
                  .h_stride = h_stride_,
                  .num_rows = num_rows,
                  .y_stride = test.n};
    int64_t column = 0;
    for (int32_t s = 0; s < num_slices_; ++s) {
      args.slice_begin[s] = column;
      args.slice_n[s] = test.slices[s];
      column += test.slices[s];
    }
    return args;
  }

  Device device_;
  int32_t num_slices_;
  int32_t num_parts_;
  int64_t h_stride_ = 0;
  int32_t rank_max_ = 0;
  Input<T> w_{0}, x_{0};
  Input<float> bias_{0}, h_{0};
  std::vector<Input<Adapter>> b_;
  std::deque<Shared<const void*>> rows_;
  Shared<LoraMatrix> matrices_;
};

// The fused path multiplies 16 bits of h. That adds 2^-18 of each term to the errors of the sums
// themselves.
double ToleranceFor(const Case& c) { return 6e-6 + 1e-7 * static_cast<double>(c.k + 256); }

// compute(args) on all rows must give `expected`, except in rows with overflowing sums.
template <typename T, typename Function>
void ExpectReference(const Problem<T>& problem, const std::vector<Reference>& expected,
                     Stream& stream, const Function& compute) {
  const Case& c = problem.test;
  typename Problem<T>::Batch batch(problem, 0, c.num_rows);
  compute(batch.gemm);
  Synchronize(stream);
  for (int32_t row = 0; row < c.num_rows; ++row) {
    if (problem.IsHuge(row)) {
      ASSERT_FALSE(std::abs(batch.y[row * c.n]) < 1e30f) << "row " << row;
      continue;
    }
    for (int64_t column = 0; column < c.n; ++column) {
      ASSERT_TRUE(
          IsClose(batch.y.At(row * c.n + column), expected[row * c.n + column], ToleranceFor(c)))
          << "row " << row << ", column " << column;
    }
  }
  EXPECT_TRUE(batch.h.GuardsIntact());
}

template <typename T>
void CheckCase(const Case& c) {
  const auto check = [&](Stream& stream) {
    const Problem<T> problem(c, stream);
    ExpectReference(problem, problem.Expected(), stream,
                    [&](const GemmArgs& args) { Gemm(args, stream); });
  };
  if constexpr (std::is_same_v<T, Float16>) {
    ForFirstGpu(check);
  } else {
    ForEachDevice(check);
  }
}

TEST(GemmLoraTest, EqualsReference) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    CheckCase<float>(c);
    CheckCase<Bfloat16>(c);
    CheckCase<Float16>(c);
  }
}

// The rings of every tile, LoRA's too, go round once, and some blocks of clusters have no tile.
// There are few launches, so that racecheck can follow them.
void CheckEachTile(int32_t huge_slot) {
  const Case c{.name = "each tile",
               .slices = {136, 120},
               .n = 264,
               .k = 1480,
               .ranks = {{16, 40}, {3, 0}, {256, 17}},
               .segments = {{0, 3, 0}, {3, 20, 1}, {22, 66, 2}, {66, 68, 1}, {68, 70, 0}},
               .num_rows = 70,
               .accumulate = true,
               .huge_slot = huge_slot,
               .scale = 0.22f};
  ForFirstGpu([&](Stream& stream) {
    const Problem<Bfloat16> problem(c, stream);
    const std::vector<Reference> expected = problem.Expected();
    for (const GemmWay& way : AllWays({.n = c.n, .lora = true}, stream.device)) {
      SCOPED_TRACE(way.name);
      ExpectReference(problem, expected, stream,
                      [&](const GemmArgs& args) { way.compute(args, stream); });
    }
  });
}

// What a plan must not ask for.
TEST(GemmLoraDeathTest, ThereIsNoSuchPlace) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const Problem<float> problem(Cases()[3], stream);
  Problem<float>::Batch batch(problem, 0, 1);
  for (const LoraPlace place :
       {LoraPlace::kInside, LoraPlace::kBeside, LoraPlace::kNone, LoraPlace::kAssisted}) {
    batch.gemm.epilogue.lora_place = place;
    EXPECT_DEATH(Gemm(batch.gemm, stream), "inside fp32|1 rows of fp32|no place for LoRA");
  }
  batch.gemm.epilogue.lora_place = LoraPlace::kAfter;
  batch.lora.scale = 2.0f;
  EXPECT_DEATH(Gemm(batch.gemm, stream), "2 != 1");
}

TEST(GemmLoraTest, EachTileOnce) { CheckEachTile(-1); }

// The largest B reaches the other rows of a tile only in products with zeros.
TEST(GemmLoraTest, LargestBStaysAlone) { CheckEachTile(2); }

Case MixedCase(std::vector<int64_t> slices, int64_t k, int64_t misalign, int64_t n = 1008) {
  Case c{.name = "mixed",
         .slices = std::move(slices),
         .n = n,
         .k = k,
         .ranks = {{16, 16, 16}, {1, 8, 64}, {256, 0, 17}, {64, 16, 0}},
         .segments = {},
         .num_rows = 0,
         .accumulate = true,
         .misalign = misalign};
  for (const int32_t length : {1, 1, 1, 2, 1, 5, 1, 0, 17, 1, 64, 3, 1, 64, 30, 64, 1, 29, 1, 1}) {
    const auto slot = static_cast<int32_t>(c.segments.size() % c.ranks.size());
    c.segments.push_back({c.num_rows, c.num_rows + length, slot});
    c.num_rows += length + length % 3 / 2;  // then sometimes a base row
  }
  for (int i = 0; i < 40; ++i) c.segments.push_back({});  // padding
  return c;
}

// compute(args of a batch) on the last m rows must give each row the bits that it has alone. Rows
// without a segment must have the bits that they have without LoRA. Rows of a huge adapter may have
// any bits.
template <typename T, typename Function>
void ExpectSameBits(const Case& c, const std::vector<int32_t>& batches, Stream& stream,
                    const Function& compute) {
  const Problem<T> problem(c, stream);
  std::vector<float> alone;
  for (int32_t row = 0; row < c.num_rows; ++row) {
    typename Problem<T>::Batch batch(problem, row, 1);
    if (problem.SlotOf(row) < 0) batch.gemm.epilogue.lora = nullptr;
    Gemm(batch.gemm, stream);
    Synchronize(stream);
    alone.insert(alone.end(), batch.y.data(), batch.y.data() + c.n);
  }
  for (const int32_t m : batches) {
    const int32_t first = c.num_rows - std::min(m, c.num_rows);
    typename Problem<T>::Batch batch(problem, first, c.num_rows - first);
    compute(batch, [&](const std::string& what) {
      Synchronize(stream);
      for (int32_t row = first; row < c.num_rows; ++row) {
        if (problem.IsHuge(row)) continue;
        ASSERT_TRUE(
            testing::BitEqual(batch.y.data() + (row - first) * c.n, alone.data() + row * c.n, c.n))
            << what << ", m " << m << ", row " << row;
      }
      std::copy_n(problem.y_before.data() + first * c.n, batch.y.size(), batch.y.data());
    });
    EXPECT_TRUE(batch.h.GuardsIntact());
  }
}

// In y's place and rounded.
void ExpectRoundsY(GemmArgs gemm, int64_t n, const GemmWay& way, Stream& stream) {
  LoraArgs lora = *gemm.epilogue.lora;
  Output<float> y(gemm.m * n);
  Output<Bfloat16> rounded(y.size());
  lora.y = gemm.y = y.data();
  lora.scale = 1.0f;
  gemm.epilogue = {.lora = &lora, .lora_place = LoraPlace::kInside};
  way.compute(gemm, stream);
  gemm.epilogue.rounded = rounded.data();
  way.compute(gemm, stream);
  Synchronize(stream);
  EXPECT_TRUE(rounded.GuardsIntact());
  for (int64_t i = 0; i < y.size(); ++i) {
    ASSERT_TRUE(std::isnan(y[i]) || rounded[i].bits == FromFloat<Bfloat16>(y[i]).bits) << i;
  }
}

template <typename T>
void CheckTiles(const Case& c, const std::vector<int32_t>& batches) {
  ForFirstGpu([&](Stream& stream) {
    ExpectSameBits<T>(c, batches, stream, [&](auto& batch, const auto& expect) {
      for (const GemmWay& way : AllWays({.n = c.n, .lora = true}, stream.device)) {
        if (::testing::Test::HasFailure()) return;
        way.compute(batch.gemm, stream);
        expect(way.name);
      }
      // And with the weight that is this one when it is read transposed.
      const GemmWeight transposed = batch.gemm.weight->Transposed(stream);
      GemmArgs gemm = batch.gemm;
      gemm.transposed = true;
      gemm.weight = &transposed;
      for (const GemmWay& way :
           AllWays({.n = c.n, .lora = true, .transposed = true}, stream.device)) {
        way.compute(gemm, stream);
        expect(way.name + ", transposed");
        ExpectRoundsY(gemm, c.n, way, stream);
      }
    });
  });
}

TEST(GemmLoraTest, TilesDoNotChangeBits) {
  CheckTiles<Bfloat16>(MixedCase({304, 408, 296}, 200, 0), {1, 20, 64, 65, 300});
  CheckTiles<Bfloat16>(MixedCase({300, 401, 303}, 72, 0), {20, 300});  // slices are not aligned
  CheckTiles<Bfloat16>(MixedCase({304, 8, 600}, 72, 1), {20, 300});    // rows of B are not aligned
  // An odd number of tiles for pairs that share x, and for every kind of tile more of them than run
  // at once.
  CheckTiles<Bfloat16>(MixedCase({304, 408, 336}, 72, 0, 1052), {300});
  CheckTiles<Bfloat16>(MixedCase({6000, 8, 9000}, 200, 0, 16000), {300});
  Case c = MixedCase({304, 408, 296}, 72, 0);
  c.h_misalign = 1;
  c.huge_slot = 2;
  CheckTiles<Bfloat16>(c, {64, 300});
}

TEST(GemmLoraTest, RowsDoNotDependOnTheirBatch) {
  std::vector<int32_t> batches;
  for (int32_t m = 1; m <= 40; ++m) batches.push_back(m);
  for (const int32_t m : {64, 65, 100, 128, 129, 200, 256, 300}) batches.push_back(m);
  ForFirstGpu([&](Stream& stream) {
    const auto compute = [&](auto& batch, const auto& expect) {
      Gemm(batch.gemm, stream);
      expect("");
    };
    ExpectSameBits<Bfloat16>(MixedCase({504, 504}, 104, 0), batches, stream, compute);
    ExpectSameBits<Bfloat16>(MixedCase({1000}, 101, 0), batches, stream, compute);
    ExpectSameBits<Bfloat16>(MixedCase({16, 496, 496}, 96, 0), batches, stream, compute);
  });
}

// GatedActivation of a y that includes LoRA, bit for bit, by Gemm and by every tile that can do it.
// Also y itself in the rows that are kept, which may be those of a single tile.
template <typename T>
void CheckActivated(Case c, bool on_cpu) {
  c.accumulate = false;
  c.scale = 1.0f;
  const auto check = [&](Stream& stream) {
    const Problem<T> problem(c, stream);
    typename Problem<T>::Batch batch(problem, 0, c.num_rows);
    Gemm(batch.gemm, stream);
    Input<T> expected(c.num_rows * c.n / 2), expected_copy(c.num_rows * c.n);
    GatedActivation({.gate_up = batch.y.data(),
                     .out = expected.data(),
                     .out_dtype = DTypeOf<T>(),
                     .num_tokens = c.num_rows,
                     .n = c.n / 2,
                     .copy = stream.device.is_cpu() ? nullptr : expected_copy.data()},
                    stream);
    Synchronize(stream);
    const std::vector<float> y(batch.y.data(), batch.y.data() + batch.y.size());
    const auto expect_same = [&](GemmEpilogue::RowRange kept, bool copies, bool leaves_others,
                                 const auto& compute) {
      SCOPED_TRACE("kept from " + std::to_string(kept.begin) + " to " + std::to_string(kept.end) +
                   (copies ? ", copied" : ""));
      Output<T> out(expected.size()), copy(expected_copy.size());
      constexpr float kUnwritten = 12345.0f;
      std::fill_n(batch.y.data(), batch.y.size(), kUnwritten);
      batch.gemm.epilogue.activated = out.data();
      batch.gemm.epilogue.kept_rows = kept;
      batch.gemm.epilogue.rounded = copies ? copy.data() : nullptr;
      compute();
      Synchronize(stream);
      EXPECT_TRUE(testing::BitEqual(out.data(), expected.data(), expected.size()));
      EXPECT_TRUE(out.GuardsIntact() && copy.GuardsIntact());
      if (copies) {
        EXPECT_TRUE(testing::BitEqual(copy.data(), expected_copy.data(), copy.size()));
      }
      for (int32_t row = 0; row < c.num_rows; ++row) {
        const float* const computed = batch.y.data() + row * c.n;
        if (row >= kept.begin && row < kept.end) {
          EXPECT_TRUE(testing::BitEqual(computed, y.data() + row * c.n, c.n)) << "row " << row;
        } else if (leaves_others) {
          EXPECT_EQ(std::count(computed, computed + c.n, kUnwritten), c.n) << "row " << row;
        }
      }
    };
    const GemmEpilogue::RowRange none = {};
    const GemmEpilogue::RowRange some = {c.num_rows / 3, c.num_rows - c.num_rows / 4};
    const bool on_gpu = !stream.device.is_cpu();
    expect_same(none, false, false, [&] { Gemm(batch.gemm, stream); });
    expect_same(some, on_gpu, false, [&] { Gemm(batch.gemm, stream); });
    if constexpr (kHasCuda && std::is_same_v<T, Bfloat16>) {
      if (stream.device.is_cpu() || batch.lora.num_segments == 0) return;
      for (const GemmWay& way : AllWays({.n = c.n, .lora = true}, stream.device)) {
        if (!way.activates) continue;
        SCOPED_TRACE(way.name);
        const auto compute = [&] { way.compute(batch.gemm, stream); };
        expect_same(none, false, true, compute);
        expect_same(some, true, true, compute);
      }
    }
  };
  if (on_cpu) {
    ForEachDevice(check);
  } else {
    ForFirstGpu(check);
  }
}

TEST(GemmLoraTest, ActivatedHasGatedActivationsBits) {
  for (const Case& c : Cases()) {
    if (c.n % 2 != 0) continue;
    SCOPED_TRACE(c.name);
    CheckActivated<float>(c, true);
    CheckActivated<Bfloat16>(c, true);
    CheckActivated<Float16>(c, false);
  }
  CheckActivated<Bfloat16>(MixedCase({504, 504}, 200, 0), false);
  CheckActivated<Bfloat16>(MixedCase({504, 504}, 72, 1), false);       // rows of B off borders
  CheckActivated<Bfloat16>(MixedCase({300, 401, 303}, 72, 0), false);  // a slice lies on both sides
  CheckActivated<Bfloat16>(MixedCase({501, 501}, 72, 0, 1002), false);
  CheckActivated<Bfloat16>(MixedCase({520, 520}, 72, 0, 1040), false);
  CheckActivated<Bfloat16>(MixedCase({8000, 8000}, 200, 0, 16000), false);
}

// A tenant's NaN must not reach other rows. (Adapters hold no NaN, but what they make of a prompt
// may.)
TEST(GemmLoraTest, BadRowsStayAlone) {
  const Case c{.name = "neighbours",
               .slices = {64},
               .n = 64,
               .k = 64,
               .ranks = {{16}, {16}, {16}},
               .segments = OneRowEach(24, 3),
               .num_rows = 26};
  ForEachDevice([&](Stream& stream) {
    Problem<Bfloat16> problem(c, stream);
    Problem<Bfloat16>::Batch clean(problem, 0, c.num_rows);
    Gemm(clean.gemm, stream);
    Synchronize(stream);
    problem.Spoil(1);
    Problem<Bfloat16>::Batch dirty(problem, 0, c.num_rows);
    Gemm(dirty.gemm, stream);
    Synchronize(stream);
    for (int32_t row = 0; row < c.num_rows; ++row) {
      const bool is_bad = problem.SlotOf(row) == 1;
      EXPECT_EQ(std::isnan(dirty.y[row * c.n]), is_bad) << "row " << row;
      if (is_bad) continue;
      EXPECT_TRUE(testing::BitEqual(dirty.y.data() + row * c.n, clean.y.data() + row * c.n, c.n))
          << "row " << row;
    }
  });
}

}  // namespace gemm_lora_test
}  // namespace graft
