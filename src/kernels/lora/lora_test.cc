#include "kernels/lora/lora.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "kernels/common/test_util.h"

namespace graft {
namespace {

using testing::ForEachCpu;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;

struct Case {
  const char* name;
  std::vector<std::vector<int32_t>> ranks;  // [adapter slot][slice]
  std::vector<LoraSegment> segments;
  int32_t num_rows;
  int64_t k;
  std::vector<int64_t> n;  // columns of each slice
  int64_t gap = 0;         // elements between the rows of x and of y, and between slices
  int64_t misalign = 0;
};

std::vector<LoraSegment> OneRowEach(int32_t rows, int32_t adapters) {
  std::vector<LoraSegment> segments;
  for (int32_t i = 0; i < rows; ++i) segments.push_back({i, i + 1, i % adapters});
  return segments;
}

std::vector<Case> Cases() {
  return {
      {"smallest", {{1}}, {{0, 1, 0}}, 1, 1, {1}},
      {"no segments", {{4}}, {}, 3, 8, {8}},
      {"all empty", {{4}}, {{0, 0, 0}, {2, 2, 0}}, 3, 8, {8}},
      {"distinct rows, three slices",
       {{8, 8, 8}, {16, 4, 1}, {64, 3, 7}, {2, 9, 5}},
       OneRowEach(4, 4),
       4,
       96,
       {128, 32, 33},
       3,
       1},
      {"base rows between, a repeated adapter",
       {{16, 5}, {3, 0}},
       {{1, 2, 0}, {4, 4, 1}, {5, 9, 1}, {9, 10, 0}, {12, 14, 0}},
       15,
       65,
       {70, 31},
       1,
       3},
      {"a module left alone by every adapter", {{0}, {0}}, {{0, 2, 0}, {2, 3, 1}}, 3, 16, {16}},
      {"one long segment", {{17, 32}}, {{0, 45, 0}}, 45, 130, {257, 64}, 0, 1},
      {"mixed lengths and ranks",
       {{4}, {64}, {13}, {8}},
       {{0, 1, 1}, {1, 8, 0}, {8, 21, 2}, {21, 23, 3}, {30, 36, 1}},
       40,
       257,
       {300},
       5,
       7},
      {"the largest rank", {{256, 1}, {255, 256}}, {{0, 3, 0}, {3, 4, 1}}, 4, 100, {100, 40}, 2},
      {"every tile height",
       {{6}},
       {{0, 2, 0}, {2, 5, 0}, {5, 9, 0}, {9, 14, 0}, {14, 20, 0}},
       20,
       31,
       {127},
       1,
       1},
  };
}

// A Case with its data. Every row of A and B is an allocation of its own, as pages of a pool are.
template <typename T>
struct Problem {
  Problem(const Case& c, uint64_t seed) : test(c), num_slices(c.n.size()) {
    x_stride = c.k + c.gap;
    for (size_t s = 0; s < c.n.size(); ++s) {
      slice_begin.push_back(y_stride);
      y_stride += c.n[s] + c.gap;
    }
    x = Input<T>::Normal((c.num_rows - 1) * x_stride + c.k, seed++, c.misalign);
    y_before = Input<float>::Normal(c.num_rows * y_stride, seed++);
    for (const std::vector<int32_t>& slot : c.ranks) {
      for (int32_t s = 0; s < num_slices; ++s) {
        std::vector<const void*>& a = pointers.emplace_back();
        std::vector<const void*>& b = pointers.emplace_back();
        for (int32_t j = 0; j < slot[s]; ++j) {
          rows.push_back(Input<T>::Normal(c.k, seed++, c.misalign));
          a.push_back(rows.back().data());
          rows.push_back(Input<T>::Normal(c.n[s], seed++, c.misalign));
          b.push_back(rows.back().data());
        }
        matrices.push_back({.a_rows = a.data(),
                            .b_rows = b.data(),
                            .rank = slot[s],
                            .scale = 0.5f + 0.25f * static_cast<float>(matrices.size())});
      }
      for (const int32_t rank : slot) rank_max = std::max(rank_max, rank);
    }
    h_stride = rank_max + 3;
  }
  Problem(const Problem&) = delete;

  LoraArgs Args(float* h, float* y) const {
    LoraArgs args{.dtype = DTypeOf<T>(),
                  .segments = test.segments.data(),
                  .num_segments = static_cast<int32_t>(test.segments.size()),
                  .matrices = matrices.data(),
                  .matrices_stride = num_slices,
                  .num_slices = num_slices,
                  .x = x.data(),
                  .x_stride = x_stride,
                  .k = test.k,
                  .h = h,
                  .h_stride = h_stride,
                  .num_rows = test.num_rows,
                  .y = y,
                  .y_stride = y_stride};
    for (int32_t s = 0; s < num_slices; ++s) {
      args.slice_begin[s] = slice_begin[s];
      args.slice_n[s] = test.n[s];
    }
    return args;
  }

  // The row's adapter slot, or -1 for a base row.
  int32_t SlotOf(int32_t row) const {
    for (const LoraSegment& segment : test.segments) {
      if (row >= segment.row_begin && row < segment.row_end) return segment.adapter_slot;
    }
    return -1;
  }
  const LoraMatrix& MatrixOf(int32_t slot, int32_t slice) const {
    return matrices[slot * num_slices + slice];
  }
  double XAt(int32_t row, int64_t i) const { return x.At(row * x_stride + i); }

  Case test;
  int32_t num_slices;
  int64_t x_stride = 0, y_stride = 0, h_stride = 0;
  int32_t rank_max = 0;
  std::vector<int64_t> slice_begin;
  Input<T> x{0};
  Input<float> y_before{0};
  std::deque<std::vector<const void*>> pointers;
  std::vector<Input<T>> rows;
  std::vector<LoraMatrix> matrices;
};

// vdpbf16ps and long sums: one rounding per term in the worst case.
double ToleranceFor(int64_t terms) { return 1e-6 + 1e-7 * static_cast<double>(terms); }

template <typename T>
Reference ExpectedH(const Problem<T>& problem, int32_t row, const LoraMatrix& matrix, int32_t j) {
  Reference sum;
  for (int64_t i = 0; i < problem.test.k; ++i) {
    sum.Add(problem.XAt(row, i) * ToFloat(static_cast<const T*>(matrix.a_rows[j])[i]));
  }
  return sum;
}

template <typename T>
void CheckShrink(const Problem<T>& problem, const Output<float>& h) {
  const Case& c = problem.test;
  for (int32_t slice = 0; slice < problem.num_slices; ++slice) {
    for (int32_t row = 0; row < c.num_rows; ++row) {
      const int32_t slot = problem.SlotOf(row);
      const int32_t rank = slot < 0 ? 0 : problem.MatrixOf(slot, slice).rank;
      const int64_t begin = (int64_t{slice} * c.num_rows + row) * problem.h_stride;
      for (int32_t j = 0; j < rank; ++j) {
        const Reference expected = ExpectedH(problem, row, problem.MatrixOf(slot, slice), j);
        ASSERT_TRUE(IsClose(h.At(begin + j), expected, ToleranceFor(c.k)))
            << "slice " << slice << ", row " << row << ", rank " << j;
      }
      for (int64_t j = rank; j < problem.h_stride; ++j) {
        ASSERT_TRUE(h.IsUntouched(begin + j)) << "slice " << slice << ", row " << row;
      }
    }
  }
  EXPECT_TRUE(h.GuardsIntact());
}

// Against double arithmetic from h, so that errors of the two launches do not mix.
template <typename T>
void CheckExpand(const Problem<T>& problem, const Output<float>& h, const Output<float>& y) {
  const Case& c = problem.test;
  for (int32_t row = 0; row < c.num_rows; ++row) {
    const int32_t slot = problem.SlotOf(row);
    std::vector<bool> covered(problem.y_stride, false);
    for (int32_t slice = 0; slice < problem.num_slices && slot >= 0; ++slice) {
      const LoraMatrix& matrix = problem.MatrixOf(slot, slice);
      if (matrix.rank == 0) continue;
      for (int64_t n = 0; n < c.n[slice]; ++n) {
        const int64_t column = problem.slice_begin[slice] + n;
        covered[column] = true;
        Reference sum;
        sum.Add(problem.y_before.At(row * problem.y_stride + column));
        for (int32_t j = 0; j < matrix.rank; ++j) {
          sum.Add(static_cast<double>(matrix.scale) *
                  h.At((int64_t{slice} * c.num_rows + row) * problem.h_stride + j) *
                  ToFloat(static_cast<const T*>(matrix.b_rows[j])[n]));
        }
        ASSERT_TRUE(IsClose(y.At(row * problem.y_stride + column), sum, ToleranceFor(matrix.rank)))
            << "row " << row << ", slice " << slice << ", column " << n;
      }
    }
    for (int64_t column = 0; column < problem.y_stride; ++column) {
      if (covered[column]) continue;
      const int64_t i = row * problem.y_stride + column;
      ASSERT_EQ(y[i], problem.y_before[i]) << "row " << row << ", column " << column;
    }
  }
  EXPECT_TRUE(y.GuardsIntact());
}

template <typename T>
void CheckCase(const Case& c) {
  const Problem<T> problem(c, 11);
  ForEachCpu([&](Stream& stream) {
    Output<float> h(problem.num_slices * c.num_rows * problem.h_stride, c.misalign);
    Output<float> y(problem.y_before, c.misalign);
    const LoraArgs args = problem.Args(h.data(), y.data());
    LoraShrink(args, stream);
    CheckShrink(problem, h);
    LoraExpand(args, stream);
    CheckExpand(problem, h, y);
  });
}

TEST(LoraTest, EqualsReference) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    CheckCase<float>(c);
    CheckCase<Bfloat16>(c);
  }
}

// The same bits for a row alone and in a batch with other adapters, other rows of its own adapter
// and base rows, on any number of threads.
template <typename T>
void CheckRowInvariance(int64_t k, std::vector<int64_t> n) {
  const std::vector<std::vector<int32_t>> ranks = {{16, 8}, {64, 5}, {7, 33}};
  std::vector<LoraSegment> segments;
  int32_t row = 0;
  for (const int32_t length : {1, 2, 3, 4, 5, 6, 7, 8, 13, 29, 40}) {
    segments.push_back({row, row + length, length % 3});
    row += length + length % 2;  // sometimes a base row after it
  }
  const Problem<T> problem({"batch", ranks, segments, row, k, n}, 5);
  CpuIsa isa = CpuIsa::kPortable;
  std::vector<float> alone;  // y with every row as a launch of its own, on one thread
  ForEachCpu([&](Stream& stream) {
    std::vector<float> h(problem.num_slices * row * problem.h_stride);
    const auto before = std::vector<float>(problem.y_before.data(),
                                           problem.y_before.data() + row * problem.y_stride);
    if (alone.empty() || isa != ActiveCpuIsa()) {
      isa = ActiveCpuIsa();
      alone = before;
      for (int32_t i = 0; i < row; ++i) {
        if (problem.SlotOf(i) < 0) continue;
        const LoraSegment segment{i, i + 1, problem.SlotOf(i)};
        LoraArgs args = problem.Args(h.data(), alone.data());
        args.segments = &segment;
        args.num_segments = 1;
        LoraShrink(args, stream);
        LoraExpand(args, stream);
      }
    }
    std::vector<float> y = before;
    const LoraArgs args = problem.Args(h.data(), y.data());
    LoraShrink(args, stream);
    LoraExpand(args, stream);
    for (int32_t i = 0; i < row; ++i) {
      ASSERT_TRUE(testing::BitEqual(y.data() + i * problem.y_stride,
                                    alone.data() + i * problem.y_stride, problem.y_stride))
          << "row " << i;
    }
  });
}

TEST(LoraTest, RowsDoNotDependOnTheirBatch) {
  CheckRowInvariance<float>(333, {130, 260});
  CheckRowInvariance<Bfloat16>(333, {130, 260});
  CheckRowInvariance<Bfloat16>(1024, {1024, 517});
}

}  // namespace
}  // namespace graft
