#include "kernels/lora/lora.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "kernels/gated_activation/gated_activation.h"

namespace graft {
namespace lora_test {

using testing::ForEachCpu;
using testing::ForFirstGpu;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;
using testing::Shared;

struct Case {
  const char* name;
  std::vector<std::vector<int32_t>> ranks;  // [adapter slot][slice]
  std::vector<LoraSegment> segments;
  int32_t num_rows;
  int64_t k;
  std::vector<int64_t> n;  // columns of each slice
  int64_t gap = 0;         // between rows of x, between rows of y, and between slices
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
      {"lone rows of many columns",
       {{24, 7}, {9, 16}, {0, 33}},
       OneRowEach(5, 3),
       5,
       40,
       {4130, 2085},
       1,
       1},
      {"many rows of few adapters",  // on a GPU: warps of the shrink share A
       {{16, 8}, {60, 1}},
       {{0, 64, 0}, {64, 128, 0}, {130, 200, 1}, {200, 258, 1}, {260, 300, 0}},
       300,
       1096,
       {72, 40}},
      {"few rows, so that a GPU's blocks take few columns",
       {{40, 17}},
       {{0, 9, 0}, {9, 10, 0}},
       10,
       1160,
       {520, 264}},
      {"the same of one tile of ranks, longer rows", {{13}}, {{0, 3, 0}}, 3, 4680, {776}},
      {"on borders of 16 bytes",
       {{16, 8, 40}, {64, 0, 3}, {128, 256, 1}, {24, 16, 129}},
       {{0, 1, 0}, {1, 1, 3}, {1, 9, 1}, {9, 26, 2}, {27, 115, 3}, {115, 116, 0}},
       117,
       712,
       {1088, 72, 8}},
  };
}

// A Case with its data. Every row of A and B is an allocation of its own, as rows in a pool's pages
// are. X: the type of x.
template <typename T, typename X = T>
struct Problem {
  Problem(const Case& c, uint64_t seed)
      : test(c), num_slices(c.n.size()), segments(c.segments), matrices(NoMatrices(c)) {
    size_t num_matrices = 0;
    x_stride = c.k + c.gap;
    for (size_t s = 0; s < c.n.size(); ++s) {
      slice_begin.push_back(y_stride);
      y_stride += c.n[s] + c.gap;
    }
    x = Input<X>::Normal((c.num_rows - 1) * x_stride + c.k, seed++, c.misalign);
    y_before = Input<float>::Normal(c.num_rows * y_stride, seed++);
    for (const std::vector<int32_t>& slot : c.ranks) {
      for (int32_t s = 0; s < num_slices; ++s) {
        std::vector<const void*> a, b;
        for (int32_t j = 0; j < slot[s]; ++j) {
          rows.push_back(Input<T>::Normal(c.k, seed++, c.misalign));
          a.push_back(rows.back().data());
          rows.push_back(Input<T>::Normal(c.n[s], seed++, c.misalign));
          b.push_back(rows.back().data());
        }
        matrices[num_matrices] = {.a_rows = pointers.emplace_back(a).data(),
                                  .b_rows = pointers.emplace_back(b).data(),
                                  .rank = slot[s],
                                  .scale = 0.5f + 0.25f * static_cast<float>(num_matrices)};
        ++num_matrices;
      }
      for (const int32_t rank : slot) rank_max = std::max(rank_max, rank);
    }
    h_stride = rank_max + 3;
  }
  Problem(const Problem&) = delete;

  LoraArgs Args(float* h, float* y) const {
    LoraArgs args{.dtype = DTypeOf<T>(),
                  .segments = segments.data(),
                  .num_segments = static_cast<int32_t>(segments.size()),
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
                  .y_stride = y_stride,
                  .x_is_fp32 = std::is_same_v<X, float>};
    for (int32_t s = 0; s < num_slices; ++s) {
      args.slice_begin[s] = slice_begin[s];
      args.slice_n[s] = test.n[s];
    }
    return args;
  }

  // The adapter slot of a row, or -1 for a base row.
  int32_t SlotOf(int32_t row) const {
    for (const LoraSegment& segment : test.segments) {
      if (row >= segment.row_begin && row < segment.row_end) return segment.adapter_slot;
    }
    return -1;
  }
  const LoraMatrix& MatrixOf(int32_t slot, int32_t slice) const {
    return matrices[slot * num_slices + slice];
  }
  static std::vector<LoraMatrix> NoMatrices(const Case& c) {
    return std::vector<LoraMatrix>(c.ranks.size() * c.n.size());
  }
  int64_t HSize(const Stream& stream) const {
    return LoraScratchFloats(stream.device, num_slices * test.num_rows, h_stride);
  }
  double XAt(int32_t row, int64_t i) const { return x.At(row * x_stride + i); }

  Case test;
  int32_t num_slices;
  int64_t x_stride = 0, y_stride = 0, h_stride = 0;
  int32_t rank_max = 0;
  std::vector<int64_t> slice_begin;
  Input<X> x{0};
  Input<float> y_before{0};
  std::deque<Shared<const void*>> pointers;
  std::vector<Input<T>> rows;
  Shared<LoraSegment> segments;
  Shared<LoraMatrix> matrices;
};

// For vdpbf16ps and long sums: in the worst case every term is rounded once.
double ToleranceFor(int64_t terms) { return 1e-6 + 1e-7 * static_cast<double>(terms); }

template <typename T, typename X>
Reference ExpectedH(const Problem<T, X>& problem, int32_t row, const LoraMatrix& matrix,
                    int32_t j) {
  Reference sum;
  for (int64_t i = 0; i < problem.test.k; ++i) {
    sum.Add(problem.XAt(row, i) * ToFloat(static_cast<const T*>(matrix.a_rows[j])[i]));
  }
  return sum;
}

// Element i of h, which on a GPU is the sum of its parts.
double HAt(const Output<float>& h, int64_t i, int64_t part_size) {
  double sum = 0.0;
  for (; i < h.size(); i += part_size) sum += h.At(i);
  return sum;
}

template <typename T, typename X>
void CheckShrink(const Problem<T, X>& problem, const Output<float>& h) {
  const Case& c = problem.test;
  const int64_t part_size = problem.num_slices * c.num_rows * problem.h_stride;
  for (int32_t slice = 0; slice < problem.num_slices; ++slice) {
    for (int32_t row = 0; row < c.num_rows; ++row) {
      const int32_t slot = problem.SlotOf(row);
      const int32_t rank = slot < 0 ? 0 : problem.MatrixOf(slot, slice).rank;
      const int64_t begin = (int64_t{slice} * c.num_rows + row) * problem.h_stride;
      for (int32_t j = 0; j < rank; ++j) {
        const Reference expected = ExpectedH(problem, row, problem.MatrixOf(slot, slice), j);
        ASSERT_TRUE(IsClose(HAt(h, begin + j, part_size), expected, ToleranceFor(c.k)))
            << "slice " << slice << ", row " << row << ", rank " << j;
      }
      for (int64_t j = rank; j < problem.h_stride; ++j) {
        for (int64_t i = begin + j; i < h.size(); i += part_size) {
          ASSERT_TRUE(h.IsUntouched(i)) << "slice " << slice << ", row " << row;
        }
      }
    }
  }
  EXPECT_TRUE(h.GuardsIntact());
}

// Compares with double arithmetic on the given h, so that the errors of the two launches do not
// mix.
template <typename T, typename X>
void CheckExpand(const Problem<T, X>& problem, const Output<float>& h, const Output<float>& y) {
  const Case& c = problem.test;
  const int64_t part_size = problem.num_slices * c.num_rows * problem.h_stride;
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
          const int64_t at = (int64_t{slice} * c.num_rows + row) * problem.h_stride + j;
          const double factor = static_cast<double>(matrix.scale) *
                                ToFloat(static_cast<const T*>(matrix.b_rows[j])[n]);
          // On a GPU the parts of h are separate terms, which are summed in fp32.
          for (int64_t i = at; i < h.size(); i += part_size) sum.Add(factor * h.At(i));
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

// Runs every instruction set, unless the type is fp16, and then the GPU, if x has the weights'
// type.
template <typename T, typename X, typename Function>
void ForEachDeviceOf(const Function& function) {
  if (!std::is_same_v<T, Float16>) ForEachCpu(function);
  if (std::is_same_v<T, X> && !::testing::Test::HasFailure()) ForFirstGpu(function);
}

template <typename T, typename X = T>
void CheckCase(const Case& c) {
  const Problem<T, X> problem(c, 11);
  ForEachDeviceOf<T, X>([&](Stream& stream) {
    Output<float> h(problem.HSize(stream), c.misalign);
    Output<float> y(problem.y_before, c.misalign);
    const LoraArgs args = problem.Args(h.data(), y.data());
    LoraShrink(args, stream);
    Synchronize(stream);
    CheckShrink(problem, h);
    LoraExpand(args, stream);
    Synchronize(stream);
    CheckExpand(problem, h, y);
    Output<float> y_of_both(problem.y_before, c.misalign);
    Lora(problem.Args(h.data(), y_of_both.data()), stream);
    Synchronize(stream);
    EXPECT_TRUE(testing::BitEqual(y.data(), y_of_both.data(), y.size()));
    EXPECT_TRUE(y_of_both.GuardsIntact());
  });
}

TEST(LoraTest, EqualsReference) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    CheckCase<float>(c);
    CheckCase<Bfloat16>(c);
    CheckCase<Float16>(c);
    CheckCase<Bfloat16, float>(c);
  }
}

// A row must have the same bits alone and in a batch with other adapters, other rows of its own
// adapter and base rows, with any number of threads.
template <typename T, typename X = T>
void CheckRowInvariance(int64_t k, std::vector<int64_t> n) {
  const std::vector<std::vector<int32_t>> ranks = {{16, 8}, {64, 5}, {7, 33}};
  std::vector<LoraSegment> segments;
  int32_t row = 0;
  for (const int32_t length : {1, 2, 3, 4, 5, 6, 7, 8, 13, 29, 40}) {
    segments.push_back({row, row + length, length % 3});
    row += length + length % 2;  // then sometimes a base row
  }
  const Problem<T, X> problem({"batch", ranks, segments, row, k, n}, 5);
  const auto run = [&](const Shared<LoraSegment>& of, Stream& stream, Output<float>& y) {
    Output<float> h(problem.HSize(stream));
    LoraArgs args = problem.Args(h.data(), y.data());
    args.segments = of.data();
    args.num_segments = static_cast<int32_t>(of.size());
    Lora(args, stream);
    Synchronize(stream);
  };
  CpuIsa isa = CpuIsa::kPortable;
  bool is_cpu = false;
  std::unique_ptr<Output<float>> alone;  // y of one launch per row
  ForEachDeviceOf<T, X>([&](Stream& stream) {
    if (alone == nullptr || isa != ActiveCpuIsa() || is_cpu != stream.device.is_cpu()) {
      isa = ActiveCpuIsa();
      is_cpu = stream.device.is_cpu();
      alone = std::make_unique<Output<float>>(problem.y_before, 0);
      for (int32_t i = 0; i < row; ++i) {
        if (problem.SlotOf(i) < 0) continue;
        run(Shared<LoraSegment>({{i, i + 1, problem.SlotOf(i)}}), stream, *alone);
      }
    }
    Output<float> y(problem.y_before, 0);
    run(problem.segments, stream, y);
    for (int32_t i = 0; i < row; ++i) {
      ASSERT_TRUE(testing::BitEqual(y.data() + i * problem.y_stride,
                                    alone->data() + i * problem.y_stride, problem.y_stride))
          << "row " << i;
    }
  });
}

TEST(LoraTest, RowsDoNotDependOnTheirBatch) {
  CheckRowInvariance<float>(333, {130, 260});
  CheckRowInvariance<Bfloat16>(333, {130, 260});
  CheckRowInvariance<Bfloat16>(1024, {1024, 517});
  CheckRowInvariance<Bfloat16>(1352, {1024, 2056});
  CheckRowInvariance<Float16>(333, {130, 260});
  CheckRowInvariance<Float16>(1352, {1024, 2056});
  CheckRowInvariance<Bfloat16, float>(333, {130, 260});
  CheckRowInvariance<Bfloat16, float>(1024, {1024, 517});
}

// With `activated` LoraExpand has the bits of the expand and SwiGLU one after the other, in rows
// with LoRA and without.
template <typename T>
void CheckActivated(const Case& c) {
  const Problem<T> problem(c, 3);
  const int64_t n = c.n[0];
  ForFirstGpu([&](Stream& stream) {
    Output<float> h(problem.HSize(stream));
    Output<float> y(problem.y_before, 0), scratch(problem.y_before, 0);
    Output<T> expected(c.num_rows * n, c.misalign), activated(c.num_rows * n, c.misalign);
    LoraArgs args = problem.Args(h.data(), y.data());
    Lora(args, stream);
    GatedActivation({.gate_up = y.data(),
                     .out = expected.data(),
                     .out_dtype = DTypeOf<T>(),
                     .num_tokens = c.num_rows,
                     .n = n},
                    stream);
    args.y = scratch.data();
    args.activated = activated.data();
    LoraExpand(args, stream);
    Synchronize(stream);
    EXPECT_TRUE(testing::BitEqual(activated.data(), expected.data(), expected.size()));
    EXPECT_TRUE(activated.GuardsIntact());
  });
}

TEST(LoraTest, GpuActivatesWhatItExpands) {
  const std::vector<std::vector<int32_t>> ranks = {{16, 16}, {64, 5}, {0, 33}, {256, 0}, {0, 0}};
  const std::vector<LoraSegment> mixed = {{1, 2, 0},   {2, 2, 1},   {4, 15, 1},  {15, 16, 2},
                                          {17, 30, 3}, {30, 31, 4}, {33, 33, 0}, {33, 40, 0}};
  const std::vector<Case> cases = {
      {"base rows between and at both ends", ranks, mixed, 43, 64, {776, 776}},
      {"no segment of any row", ranks, {{0, 0, 0}, {3, 3, 1}}, 3, 64, {264, 264}},
      {"no segments", ranks, {}, 3, 64, {264, 264}},
      {"a row each", ranks, OneRowEach(70, 5), 70, 64, {520, 520}},
      {"one adapter", ranks, {{0, 130, 0}}, 130, 64, {1024, 1024}},
      {"off borders", ranks, mixed, 41, 64, {33, 33}},
      {"off borders, all of it", ranks, mixed, 41, 64, {40, 40}, 0, 1},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    CheckActivated<Bfloat16>(c);
    CheckActivated<Float16>(c);
    CheckActivated<float>(c);
  }
}

TEST(LoraDeathTest, ActivatesHalvesOfYOnAGpu) {
  const Problem<float> problem({"halves", {{4, 4}}, {{0, 1, 0}}, 1, 8, {8, 8}}, 1);
  ForEachCpu([&](Stream& stream) {
    Output<float> h(problem.HSize(stream)), y(problem.y_before, 0);
    LoraArgs args = problem.Args(h.data(), y.data());
    args.activated = y.data();
    EXPECT_DEATH(LoraExpand(args, stream), "an activation on the CPU");
  });
}

}  // namespace lora_test
}  // namespace graft
