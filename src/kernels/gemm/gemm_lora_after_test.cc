// Gemm with LoRA after the product or beside it has the bits of the product followed by Lora.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"
#include "tensor/buffer.h"

namespace graft {
namespace gemm_lora_after_test {

using testing::ForEachDevice;
using testing::ForFirstGpu;
using testing::Input;
using testing::Output;
using testing::Shared;

struct Case {
  const char* name;
  std::vector<int64_t> slices;
  int64_t k;
  std::vector<std::vector<int32_t>> ranks;  // [adapter slot][slice]
  std::vector<LoraSegment> segments;
  int32_t num_rows;
  bool accumulate = false;
  bool activates = false;
  int64_t spare_columns = 0;  // columns of y that no slice covers
};

// Every second case that adds a residual scales it.
float ScaleOf(const Case& c) { return c.accumulate && c.num_rows % 2 == 0 ? 0.22f : 1.0f; }

// Segments of the given lengths that use the adapters in turn. Every base_every-th has a base row
// in front.
std::vector<LoraSegment> Segments(const std::vector<int32_t>& lengths, int32_t adapters,
                                  int32_t base_every) {
  std::vector<LoraSegment> segments;
  int32_t row = 0;
  for (const int32_t length : lengths) {
    const auto i = static_cast<int32_t>(segments.size());
    if (base_every > 0 && i % base_every == base_every - 1) ++row;
    segments.push_back({row, row + length, i % adapters});
    row += length;
  }
  return segments;
}

std::vector<Case> Cases() {
  const std::vector<int32_t> ones(32, 1);
  return {
      {"one row", {64}, 64, {{16}}, {{0, 1, 0}}, 1},
      {"one adapter, all rows", {256, 128, 128}, 512, {{16, 16, 16}}, {{0, 32, 0}}, 32},
      {"distinct rows", {1024}, 1024, {{16}, {8}, {64}, {1}}, Segments(ones, 4, 0), 32, true},
      {"gate and up",
       {720, 720},
       328,
       {{16, 8}, {64, 17}},
       Segments({8, 3, 9, 1, 1}, 2, 2),
       33,
       false,
       true},
      {"mixed ranks, base rows, empty segments",
       {304, 408, 296},
       200,
       {{16, 16, 16}, {1, 8, 64}, {256, 0, 17}, {64, 16, 0}},
       Segments({1, 0, 5, 17, 0, 1, 1, 9, 2, 0, 0}, 4, 3),
       64,
       true},
      {"x off borders", {101}, 77, {{16}, {3}}, Segments({2, 1, 4}, 2, 2), 9},
      {"slices off borders",
       {70, 33, 9},
       40,
       {{16, 1, 17}, {64, 8, 0}},
       Segments({1, 4, 2}, 2, 2),
       12,
       true},
      {"slices short of y", {64, 32}, 128, {{16, 4}}, {{0, 3, 0}}, 5, false, false, 8},
      {"more tiles than blocks", {12000, 19000}, 8, {{16, 8}}, {{0, 2, 0}}, 3},
      {"more rows than go beside", {256}, 256, {{16}, {8}}, Segments({40, 30, 1, 20}, 2, 0), 100},
      {"many more", {512}, 256, {{16}, {8}}, Segments({200, 1, 56, 40}, 2, 0), 300, true},
  };
}

template <typename T>
class Problem {
 public:
  // Only a GPU has fp16 adapters.
  Problem(const Case& c, Stream& stream)
      : case_(c),
        n_(c.spare_columns),
        matrices_(std::vector<LoraMatrix>(c.ranks.size() * c.slices.size())),
        segments_(c.segments),
        before_x_(Input<float>::Normal(c.num_rows * c.k * 2, 2)),
        x_(c.num_rows * c.k) {
    MakeX(stream);
    for (const int64_t columns : c.slices) n_ += columns;
    const Input<T> w = Input<T>::Normal(n_ * c.k, 1);
    const TensorView view{w.data(), DTypeOf<T>(), {n_, c.k}};
    weight_ = GemmWeight::Pack({&view, 1}, DTypeOf<T>(), stream);
    uint64_t seed = 10;
    for (size_t slot = 0; slot < c.ranks.size(); ++slot) {
      for (size_t slice = 0; slice < c.slices.size(); ++slice) AddMatrix(slot, slice, seed += 2);
    }
    bias_ = Input<float>::Normal(n_, 3);
    y_before_ = Input<float>::Normal(c.num_rows * n_, 4);
    h_ = Input<float>(LoraScratchFloats(
        stream.device, static_cast<int64_t>(c.slices.size()) * c.num_rows, rank_max_));
    delta_ = Input<float>(c.num_rows * n_);
    words_ = Buffer(kLoraBesideWords * int64_t{sizeof(uint32_t)}, stream.device);
  }

  // y, or what SwiGLU makes of it.
  struct Result {
    Input<float> y{0};
    Output<T> activated{0};
  };

  // Runs the product and everything else one after the other.
  Result Apart(Stream& stream) const {
    Result result = Prepare();
    GemmArgs gemm = MakeGemm(result);
    gemm.epilogue.activated = nullptr;
    Gemm(gemm, stream);
    Lora(MakeLora(result), stream);
    Activate(result, stream);
    Synchronize(stream);
    return result;
  }

  Result InOne(uint32_t step, bool beside, Stream& stream) {
    Result result = Prepare();
    LoraArgs lora = MakeLora(result);
    step_[0] = step;
    // NaN makes visible what is read without having been written.
    for (int64_t i = 0; i < delta_.size(); ++i) delta_[i] = std::numeric_limits<float>::quiet_NaN();
    for (int64_t i = 0; i < h_.size(); ++i) h_[i] = std::numeric_limits<float>::quiet_NaN();
    GemmArgs gemm = MakeGemm(result);
    gemm.epilogue.lora = &lora;
    if (beside) {
      lora.beside = {.delta = delta_.data(), .words = words_.as<uint32_t>(), .step = step_.data()};
      gemm.epilogue.lora_place = LoraPlace::kBeside;
    } else {
      LoraShrink(lora, stream);
    }
    Gemm(gemm, stream);
    Synchronize(stream);
    return result;
  }

  // Launches the kernel that makes x, the product, and LoRA, which need not wait for the product,
  // without a wait in between.
  Result Following(Stream& stream) {
    Result result = Prepare();
    std::memset(static_cast<void*>(x_.data()), 0xff, x_.size() * sizeof(T));  // NaN
    MakeX(stream);
    GemmArgs gemm = MakeGemm(result);
    gemm.epilogue.activated = nullptr;
    Gemm(gemm, stream);
    LoraArgs lora = MakeLora(result);
    lora.follows_product = GemmHoldsNext(DTypeOf<T>(), stream.device);
    Lora(lora, stream);
    Activate(result, stream);
    Synchronize(stream);
    return result;
  }

  // Whether Gemm can be asked to compute LoRA beside the product.
  bool GoesBeside(const Device& device) const {
    return case_.spare_columns == 0 && GemmRunsLoraBeside(DTypeOf<T>(), case_.num_rows, device);
  }

  void ExpectSame(const Result& a, const Result& b) const {
    if (case_.activates) {
      EXPECT_TRUE(testing::BitEqual(a.activated.data(), b.activated.data(), a.activated.size()));
      EXPECT_TRUE(b.activated.GuardsIntact());
    } else {
      EXPECT_TRUE(testing::BitEqual(a.y.data(), b.y.data(), a.y.size()));
    }
  }

 private:
  void Silu(const Input<float>& gate_up, Output<T>& out, Stream& stream) const {
    GatedActivation({.gate_up = gate_up.data(),
                     .out = out.data(),
                     .out_dtype = DTypeOf<T>(),
                     .num_tokens = case_.num_rows,
                     .n = out.size() / case_.num_rows},
                    stream);
  }
  void MakeX(Stream& stream) { Silu(before_x_, x_, stream); }
  void Activate(Result& result, Stream& stream) const {
    if (case_.activates) Silu(result.y, result.activated, stream);
  }
  void AddMatrix(size_t slot, size_t slice, uint64_t seed) {
    const int32_t rank = case_.ranks[slot][slice];
    LoraMatrix& matrix = matrices_[slot * case_.slices.size() + slice];
    matrix = {.rank = rank, .scale = 0.5f + 0.25f * static_cast<float>(seed % 5)};
    matrix.a_rows = AddRows(rank, case_.k, seed);
    matrix.b_rows = AddRows(rank, case_.slices[slice], seed + 1);
    rank_max_ = std::max(rank_max_, (rank + 3) / 4 * 4);
  }
  const void* const* AddRows(int32_t rank, int64_t elements, uint64_t seed) {
    const int64_t stride = (elements + 7) / 8 * 8;
    numbers_.push_back(Input<T>::Normal(rank * stride, seed));
    std::vector<const void*> rows;
    for (int32_t i = 0; i < rank; ++i) rows.push_back(numbers_.back().data() + i * stride);
    return rows_.emplace_back(rows).data();
  }
  Result Prepare() const {
    Result result{.y = Input<float>(y_before_.size()),
                  .activated = Output<T>(case_.num_rows * n_ / 2)};
    std::copy_n(y_before_.data(), y_before_.size(), result.y.data());
    return result;
  }
  GemmArgs MakeGemm(Result& result) const {
    return {.x = x_.data(),
            .x_stride = case_.k,
            .m = case_.num_rows,
            .weight = &weight_,
            .y = result.y.data(),
            .y_stride = n_,
            .epilogue = {.bias = bias_.data(),
                         .accumulate = case_.accumulate,
                         .scale = ScaleOf(case_),
                         .activated = case_.activates ? result.activated.data() : nullptr}};
  }
  LoraArgs MakeLora(Result& result) const {
    LoraArgs args{.dtype = DTypeOf<T>(),
                  .segments = segments_.data(),
                  .num_segments = static_cast<int32_t>(segments_.size()),
                  .matrices = matrices_.data(),
                  .matrices_stride = static_cast<int64_t>(case_.slices.size()),
                  .num_slices = static_cast<int32_t>(case_.slices.size()),
                  .x = x_.data(),
                  .x_stride = case_.k,
                  .k = case_.k,
                  .h = const_cast<float*>(h_.data()),
                  .h_stride = rank_max_,
                  .num_rows = case_.num_rows,
                  .y = result.y.data(),
                  .y_stride = n_,
                  .scale = ScaleOf(case_)};
    int64_t column = 0;
    for (size_t s = 0; s < case_.slices.size(); ++s) {
      args.slice_begin[s] = column;
      args.slice_n[s] = case_.slices[s];
      column += case_.slices[s];
    }
    return args;
  }

  const Case case_;
  int64_t n_;
  int32_t rank_max_ = 4;
  GemmWeight weight_;
  std::deque<Input<T>> numbers_;
  std::deque<Shared<const void*>> rows_;
  Shared<LoraMatrix> matrices_;
  Shared<LoraSegment> segments_;
  Input<float> before_x_;
  Output<T> x_;
  Input<float> bias_{0}, y_before_{0}, h_{0}, delta_{0};
  Buffer words_;
  Shared<uint32_t> step_{0};
};

template <typename T>
void CheckCase(const Case& c, Stream& stream) {
  Problem<T> problem(c, stream);
  const auto apart = problem.Apart(stream);
  problem.ExpectSame(apart, problem.InOne(1, false, stream));
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE("following the product");
    problem.ExpectSame(apart, problem.Following(stream));
  }
  if (!problem.GoesBeside(stream.device)) return;
  // One after the other, as in steps: the words still hold the number of the step before.
  for (const uint32_t step : {1u, 2u, 3u, 0x80000000u}) {
    SCOPED_TRACE("beside, step " + std::to_string(step));
    problem.ExpectSame(apart, problem.InOne(step, true, stream));
  }
}

TEST(GemmLoraAfterTest, HasTheBitsOfOneAfterTheOther) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    ForEachDevice([&](Stream& stream) {
      CheckCase<float>(c, stream);
      CheckCase<Bfloat16>(c, stream);
    });
    ForFirstGpu([&](Stream& stream) { CheckCase<Float16>(c, stream); });
  }
}

// Graphs pad their launches with such empty segments.
TEST(GemmLoraAfterTest, TakesAsManySegmentsAsRows) {
  Case c{.name = "padded",
         .slices = {512},
         .k = 256,
         .ranks = {{16}, {64}},
         .segments = Segments({1, 2, 1, 8, 5}, 2, 0),
         .num_rows = 64,
         .accumulate = true};
  while (c.segments.size() < 64) c.segments.push_back({17, 17, 0});
  ForEachDevice([&](Stream& stream) { CheckCase<Bfloat16>(c, stream); });
}

// Llama-2-7B's products. Each has a tile for nearly every multiprocessor, and gate_up's last tile
// reaches beyond the gate.
TEST(GemmLoraAfterTest, FillsTheCard) {
  const std::vector<int32_t> ones(32, 1);
  std::vector<std::vector<int32_t>> ranks, ranks_of_one, ranks_of_two;
  for (int32_t i = 0; i < 32; ++i) {
    ranks.push_back({16, 16, 16});
    ranks_of_one.push_back({16});
    ranks_of_two.push_back({16, i % 3 == 0 ? 8 : 64});
  }
  const std::vector<Case> cases = {
      {"qkv", {4096, 4096, 4096}, 4096, ranks, Segments(ones, 32, 0), 32},
      {"o", {4096}, 4096, ranks_of_one, Segments(ones, 32, 0), 32, true},
      {"gate and up", {11008, 11008}, 4096, ranks_of_two, Segments(ones, 32, 7), 40, false, true},
      {"down", {4096}, 11008, ranks_of_one, Segments(ones, 32, 0), 32, true},
      {"qkv, one adapter", {4096, 4096, 4096}, 4096, ranks, {{0, 32, 5}}, 32},
      {"qkv, one row", {4096, 4096, 4096}, 4096, ranks, {{0, 1, 5}}, 1},
      {"o, 64 rows", {4096}, 4096, ranks_of_one, Segments({9, 1, 30, 8, 8}, 4, 2), 64, true},
      {"qkv, 256 rows", {4096, 1024, 1024}, 4096, ranks, {{0, 256, 5}}, 256},
      {"down, 128 rows", {4096}, 14336, ranks_of_one, {{0, 128, 5}}, 128, true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ForFirstGpu([&](Stream& stream) { CheckCase<Bfloat16>(c, stream); });
  }
}

}  // namespace gemm_lora_after_test
}  // namespace graft
