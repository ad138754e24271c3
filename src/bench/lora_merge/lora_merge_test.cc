#include "bench/lora_merge/lora_merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_layout.h"

namespace graft {
namespace lora_merge_test {

using testing::ForEachDevice;
using testing::ForFirstGpu;
using testing::Input;
using testing::kF32Tolerance;
using testing::Reference;
using testing::Shared;

struct Case {
  const char* name;
  std::vector<int32_t> ranks;  // the rank of each slice
  std::vector<int64_t> n;
  int64_t k;
  int64_t misalign = 0;  // of the rows of A and B
};

std::vector<Case> Cases() {
  return {{"smallest", {1}, {1}, 1},
          {"an odd k", {3}, {40}, 67},
          {"three slices in one panel, one left alone", {5, 0, 3}, {9, 4, 11}, 30, 1},
          {"slices that share panels", {16, 7, 1}, {70, 31, 5}, 65, 3},
          {"whole tiles", {8, 16, 32}, {128, 128, 256}, 512},
          {"more than tiles", {64, 17}, {300, 129}, 260},
          {"ranks in pieces", {65, 200}, {130, 33}, 200},
          {"the largest rank", {256}, {96}, 129, 5},
          {"left alone", {0, 0}, {64, 70}, 100}};
}

// The adapter of a case. Every row is an allocation of its own, as rows in a pool's pages are.
template <typename T>
struct Adapter {
  Adapter(const Case& c, uint64_t seed) : matrices(std::vector<LoraMatrix>(c.n.size())) {
    for (size_t s = 0; s < c.n.size(); ++s) {
      std::vector<const void*> a, b;
      for (int32_t j = 0; j < c.ranks[s]; ++j) {
        a.push_back(rows.emplace_back(Input<T>::Normal(c.k, seed++, c.misalign)).data());
        b.push_back(rows.emplace_back(Input<T>::Normal(c.n[s], seed++, c.misalign)).data());
      }
      matrices[s] = {.a_rows = pointers.emplace_back(a).data(),
                     .b_rows = pointers.emplace_back(b).data(),
                     .rank = c.ranks[s],
                     .scale = 0.5f + 0.25f * static_cast<float>(s)};
    }
  }
  Adapter(const Adapter&) = delete;

  std::deque<Input<T>> rows;
  std::deque<Shared<const void*>> pointers;
  Shared<LoraMatrix> matrices;
};

std::vector<char> BytesOf(const GemmWeight& weight, Stream& stream) {
  std::vector<char> bytes(static_cast<size_t>(weight.bytes()));
  CopyFromDevice(bytes.data(), weight.state()->panels.data(), weight.bytes(), stream);
  Synchronize(stream);
  return bytes;
}

// Finds the elements of a weight in its bytes.
class Layout {
 public:
  Layout(const GemmWeight& weight, const Stream& stream)
      : is_cpu_(stream.device.is_cpu()), state_(*weight.state()) {}

  int64_t OffsetOf(int64_t row, int64_t column) const {
    const int64_t bytes = DTypeBytes(state_.dtype());
    if (!is_cpu_) return (row * GemmCudaStride(state_.k) + column) * bytes;
    const int64_t step = column / state_.step_k();
    return row / kGemmPanel * state_.panel_bytes() + step * kGemmStepBytes + row % kGemmPanel * 4 +
           column % state_.step_k() * bytes;
  }

 private:
  const bool is_cpu_;
  const GemmWeight::State& state_;
};

GemmWeight Pack(const std::vector<const void*>& parts, const Case& c, DType dtype, Stream& stream) {
  std::vector<TensorView> views;
  for (size_t s = 0; s < c.n.size(); ++s) views.push_back({parts[s], dtype, {c.n[s], c.k}});
  return GemmWeight::Pack(views, dtype, stream);
}

template <typename T>
void Merge(const Case& c, const GemmWeight& base, const Adapter<T>& adapter, GemmWeight* merged,
           Stream& stream) {
  LoraMergeArgs args{.base = &base,
                     .merged = merged,
                     .matrices = adapter.matrices.data(),
                     .num_slices = static_cast<int32_t>(c.n.size())};
  std::copy(c.n.begin(), c.n.end(), args.slice_n);
  LoraMerge(args, stream);
  Synchronize(stream);
}

// A merge rounds the fp32 sums once, to the weight's dtype.
template <typename T>
double BoundOf(const Reference& expected) {
  const DType dtype = DTypeOf<T>();
  const double half_unit = dtype == DType::kF32    ? 0x1p-24
                           : dtype == DType::kBF16 ? 0x1p-8
                                                   : 0x1p-11;
  return std::abs(expected.value) * half_unit * 1.01 + expected.magnitude * kF32Tolerance + 1e-7;
}

template <typename T>
void CheckCase(const Case& c, Stream& stream) {
  std::deque<Input<T>> parts;
  std::vector<const void*> data;
  for (size_t s = 0; s < c.n.size(); ++s) {
    data.push_back(parts.emplace_back(Input<T>::Normal(c.n[s] * c.k, 1000 + s)).data());
  }
  const Adapter<T> adapter(c, 7);
  const GemmWeight base = Pack(data, c, DTypeOf<T>(), stream);
  const std::vector<char> before = BytesOf(base, stream);
  GemmWeight merged = GemmWeight::Like(base);
  Merge(c, base, adapter, &merged, stream);

  const std::vector<char> bytes = BytesOf(merged, stream);
  std::vector<char> padding = bytes;
  const Layout layout(merged, stream);
  int64_t row = 0;
  for (size_t s = 0; s < c.n.size(); ++s) {
    const LoraMatrix& matrix = adapter.matrices[s];
    for (int64_t i = 0; i < c.n[s]; ++i, ++row) {
      for (int64_t column = 0; column < c.k; ++column) {
        const auto offset = static_cast<size_t>(layout.OffsetOf(row, column));
        T got;
        std::memcpy(&got, bytes.data() + offset, sizeof(T));
        std::memset(padding.data() + offset, 0, sizeof(T));
        Reference expected;
        expected.Add(parts[s].At(i * c.k + column));
        for (int32_t j = 0; j < matrix.rank; ++j) {
          const double b = ToFloat(static_cast<const T*>(matrix.b_rows[j])[i]);
          const double a = ToFloat(static_cast<const T*>(matrix.a_rows[j])[column]);
          expected.Add(double{matrix.scale} * b * a);
        }
        ASSERT_NEAR(ToFloat(got), expected.value, BoundOf<T>(expected))
            << "slice " << s << ", row " << i << ", column " << column;
      }
    }
  }
  EXPECT_EQ(padding, std::vector<char>(padding.size())) << "what lies beside the weight is zero";
  EXPECT_EQ(BytesOf(base, stream), before) << "the base weight stays";

  // Merging another adapter and then the first one again must leave nothing of the former.
  const Adapter<T> other(c, 70000);
  Merge(c, base, other, &merged, stream);
  bool changes = false;
  for (const int32_t rank : c.ranks) changes |= rank > 0;
  EXPECT_EQ(BytesOf(merged, stream) != bytes, changes);
  Merge(c, base, adapter, &merged, stream);
  EXPECT_EQ(BytesOf(merged, stream), bytes);
  if (!changes) {
    EXPECT_EQ(bytes, before) << "what is left alone keeps its bits";
  }
}

TEST(LoraMergeTest, IsTheSumRoundedOnce) {
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

TEST(LoraMergeDeathTest, RefusesOtherShapes) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const std::vector<float> values(12, 1.0f);
  const TensorView view{values.data(), DType::kF32, {4, 3}};
  const TensorView turned{values.data(), DType::kF32, {3, 4}};
  const GemmWeight base = GemmWeight::Pack({&view, 1}, DType::kF32, stream);
  GemmWeight merged = GemmWeight::Like(base);
  GemmWeight wrong = GemmWeight::Pack({&turned, 1}, DType::kF32, stream);
  const LoraMatrix none;
  EXPECT_DEATH(LoraMerge({&base, &wrong, &none, 1, {4}}, stream), "another shape");
  EXPECT_DEATH(LoraMerge({&base, &merged, &none, 1, {3}}, stream), "");
}

}  // namespace lora_merge_test
}  // namespace graft
