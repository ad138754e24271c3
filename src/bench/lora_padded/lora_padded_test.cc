#include "bench/lora_padded/lora_padded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace lora_padded_test {

using testing::ForEachDevice;
using testing::ForFirstGpu;
using testing::Input;
using testing::Output;
using testing::Shared;

struct Case {
  const char* name;
  std::vector<std::vector<int32_t>> ranks;  // [adapter slot][slice]
  std::vector<LoraSegment> segments;
  int32_t num_rows;
  int64_t k;
  std::vector<int64_t> n;  // columns of each slice
  int32_t rank;            // the rank of the copies
  int64_t misalign = 0;
};

std::vector<Case> Cases() {
  return {{"smallest", {{1}}, {{0, 1, 0}}, 1, 1, {1}, 1},
          {"no segments", {{4}}, {}, 3, 8, {8}, 4},
          {"mixed ranks, one row each",
           {{8, 8, 8}, {16, 4, 1}, {64, 0, 7}},
           {{0, 1, 0}, {1, 2, 1}, {2, 3, 1}, {3, 4, 2}},
           4,
           96,
           {128, 32, 33},
           64,
           1},
          {"prompts, base rows and empty segments",
           {{16, 5}, {3, 0}},
           {{1, 12, 0}, {14, 14, 1}, {15, 25, 1}, {25, 25, 0}},
           27,
           264,
           {72, 48},
           32}};
}

// As in a pool, every row of an adapter lies somewhere else.
template <typename T>
struct Adapters {
  explicit Adapters(const Case& c)
      : matrices(std::vector<LoraMatrix>(c.ranks.size() * c.n.size())) {
    uint64_t seed = 1;
    size_t i = 0;
    for (const std::vector<int32_t>& slot : c.ranks) {
      for (size_t s = 0; s < c.n.size(); ++s, ++i) {
        std::vector<const void*> a, b;
        for (int32_t j = 0; j < slot[s]; ++j) {
          a.push_back(rows.emplace_back(Input<T>::Normal(c.k, seed++, c.misalign)).data());
          b.push_back(rows.emplace_back(Input<T>::Normal(c.n[s], seed++, c.misalign)).data());
        }
        matrices[i] = {.a_rows = pointers.emplace_back(a).data(),
                       .b_rows = pointers.emplace_back(b).data(),
                       .rank = slot[s],
                       .scale = 0.5f + 0.25f * static_cast<float>(i)};
      }
    }
  }
  Adapters(const Adapters&) = delete;

  std::deque<Input<T>> rows;
  std::deque<Shared<const void*>> pointers;
  Shared<LoraMatrix> matrices;
};

// The sums are Lora's in the order of this op's padding. Zeros change nothing but the order.
template <typename T>
void CheckCase(const Case& c, Stream& stream) {
  const Adapters<T> adapters(c);
  const Shared<LoraSegment> segments(c.segments);
  const auto num_slices = static_cast<int32_t>(c.n.size());
  LoraArgs args{.dtype = DTypeOf<T>(),
                .segments = segments.data(),
                .num_segments = static_cast<int32_t>(c.segments.size()),
                .matrices = adapters.matrices.data(),
                .matrices_stride = num_slices,
                .num_slices = num_slices,
                .x_stride = c.k,
                .k = c.k,
                .h_stride = c.rank,
                .num_rows = c.num_rows};
  for (int32_t s = 0; s < num_slices; ++s) {
    args.slice_begin[s] = args.y_stride;
    args.slice_n[s] = c.n[s];
    args.y_stride += c.n[s];
  }
  const auto x = Input<T>::Normal(c.num_rows * c.k, 100);
  const auto y_before = Input<float>::Normal(c.num_rows * args.y_stride, 101);
  Output<float> h(LoraScratchFloats(stream.device, num_slices * c.num_rows, c.rank));
  args.x = x.data();
  args.h = h.data();
  Output<float> expected(y_before, 0);
  args.y = expected.data();
  Lora(args, stream);
  Synchronize(stream);

  Output<float> y(y_before, 0);
  args.y = y.data();
  const int64_t bytes =
      LoraPaddedBytes(args.num_segments, num_slices, c.k, args.y_stride, c.rank, DTypeOf<T>());
  Buffer scratch(bytes, stream.device);
  LoraPadded({.lora = args, .rank = c.rank, .scratch = scratch.data()}, stream);
  Synchronize(stream);
  for (int64_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], expected[i], 1e-4 + 1e-4 * std::abs(expected[i])) << i;
  }
  EXPECT_TRUE(y.GuardsIntact());
  EXPECT_TRUE(h.GuardsIntact());
  // Nothing of the last batch may be left in the padding.
  const std::vector<float> first(y.data(), y.data() + y.size());
  CopyToDevice(scratch.data(), std::vector<char>(static_cast<size_t>(bytes), '\xff').data(), bytes,
               stream);
  Synchronize(stream);
  std::copy_n(y_before.data(), y.size(), y.data());
  LoraPadded({.lora = args, .rank = c.rank, .scratch = scratch.data()}, stream);
  Synchronize(stream);
  EXPECT_TRUE(testing::BitEqual(y.data(), first.data(), y.size()));
}

TEST(LoraPaddedTest, IsLora) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    ForEachDevice([&c](Stream& stream) {
      CheckCase<float>(c, stream);
      CheckCase<Bfloat16>(c, stream);
    });
    ForFirstGpu([&c](Stream& stream) { CheckCase<Float16>(c, stream); });
    if (HasFailure()) return;
  }
}

}  // namespace lora_padded_test
}  // namespace graft
