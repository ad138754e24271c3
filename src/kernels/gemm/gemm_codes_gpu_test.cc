// Gemm of codes on a GPU has the bits of Gemm of the numbers that the codes stand for, in bf16, one
// product after the other for each range of k: with every tile, with numbers made first, with all
// that an epilogue does, and with LoRA.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "kernels/gemm/drawn_codes.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_bricks.h"
#include "kernels/gemm/gemm_codes_tiles.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_hopper_codes_tiles.h"

namespace graft {
namespace gemm_codes_gpu_test {

using testing::CodesCase;
using testing::CodesCases;
using testing::DrawnCodes;
using testing::ForFirstGpu;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;
using testing::Shared;

struct Way {
  std::string name;
  std::function<void(const GemmArgs& args, Stream& stream)> compute;
};

// Every kernel that multiplies codes. Those with LoRA inside take wide tiles alone, and no product
// with LoRA inside is by wgmma.
std::vector<Way> WaysOf(bool lora) {
  std::vector<Way> ways = {{"chosen", [](const GemmArgs& args, Stream& s) { Gemm(args, s); }}};
  if constexpr (kHasCuda) {
    for (size_t i = lora ? codes::kFirstWide : 0; i < codes::kNumTiles; ++i) {
      ways.push_back({"tile " + std::to_string(i), [i](const GemmArgs& args, Stream& stream) {
                        GemmCudaArgs cuda = CudaArgsOf(args);
                        if (args.weight->format().has_input_order) cuda = OrderX(cuda, stream);
                        GemmCodesMma(cuda, i, stream);
                      }});
    }
    for (size_t i = 0; !lora && i < codes::kNumHopperTiles; ++i) {
      ways.push_back(
          {"Hopper's tile " + std::to_string(i), [i](const GemmArgs& args, Stream& stream) {
             GemmCudaArgs cuda = CudaArgsOf(args);
             if (args.weight->format().has_input_order) cuda = OrderX(cuda, stream);
             const bool can = TraitsOf(stream.device).has_hopper_code &&
                              HopperMultipliesCodes(cuda) && codes::HasHopperTile(*args.weight, i);
             can ? GemmCodesHopper(cuda, i, stream) : GemmCodesMma(cuda, stream);
           }});
    }
    ways.push_back({"by numbers", [](const GemmArgs& args, Stream& stream) {
                      GemmCudaArgs cuda = CudaArgsOf(args);
                      if (args.weight->format().has_input_order) cuda = OrderX(cuda, stream);
                      for (const GemmCudaArgs& product : MakeNumbers(cuda, stream)) {
                        GemmMma(product, stream);
                      }
                    }});
  }
  return ways;
}

// A weight of codes, and the same numbers as a plain weight for each range of k, in the order of
// the codes.
struct Weights {
  Weights(const CodesCase& c, int64_t m_max, Stream& stream)
      : source(c),
        codes(GemmWeight::PackCodes(source, c.format, stream)),
        room(GemmRoomBytes(m_max, c.n, c.k, c.format, stream.device), stream.device) {
    std::vector<uint8_t> row(static_cast<size_t>(c.k));
    std::vector<CodeScale> scales(static_cast<size_t>(NumScales(c.format, c.k)));
    std::vector<Bfloat16> numbers;
    for (int64_t n = 0; n < c.n; ++n) {
      source.ReadRow(n, row.data(), scales.data());
      for (int64_t i = 0; i < c.k; ++i) {
        numbers.push_back(FromFloat<Bfloat16>(
            NumberOfCode(c.format, row[i], scales[i / c.format.scale_numbers])));
      }
    }
    range_k = std::min(c.k, BricksOfFirstRange(c.n, c.k) * kBrickColumns);
    for (const auto& [begin, end] : {std::pair{int64_t{0}, range_k}, {range_k, c.k}}) {
      if (begin == end) continue;
      std::vector<Bfloat16> range;
      for (int64_t n = 0; n < c.n; ++n) {
        range.insert(range.end(), numbers.begin() + n * c.k + begin,
                     numbers.begin() + n * c.k + end);
      }
      const TensorView view{range.data(), DType::kBF16, {c.n, end - begin}};
      plain.push_back(GemmWeight::Pack({&view, 1}, DType::kBF16, stream));
    }
  }

  // The product of plain numbers that `args` asks for of the codes, with x in their order.
  void MultiplyPlain(GemmArgs args, Stream& stream) const {
    const GemmEpilogue ends = args.epilogue;
    for (size_t i = 0; i < plain.size(); ++i) {
      const bool is_last = i + 1 == plain.size();
      args.weight = &plain[i];
      args.epilogue = ends;
      if (i > 0) {
        args.x = static_cast<const Bfloat16*>(args.x) + range_k;
        args.epilogue.accumulate = true;
      }
      if (plain.size() > 1) args.epilogue.activated = nullptr;
      if (!is_last) {
        args.epilogue.bias = nullptr;
        args.epilogue.lora = nullptr;
      }
      Gemm(args, stream);
    }
    if (plain.size() == 1 || ends.activated == nullptr) return;
    args.epilogue = ends;
    ActivateGemm(args, DType::kBF16, codes.n(), stream);
  }

  const DrawnCodes source;
  const GemmWeight codes;
  std::vector<GemmWeight> plain;
  int64_t range_k = 0;
  Buffer room;
};

// x [m, k], rows `gap` elements apart, and the same in the order of the codes.
struct Inputs {
  Inputs(const DrawnCodes& source, int64_t m, int64_t gap, int64_t misalign)
      : stride(source.k() + gap),
        x(Input<Bfloat16>::Normal(m * stride, 3, misalign)),
        ordered(m * stride, misalign) {
    std::copy_n(x.data(), x.size(), ordered.data());
    const std::span<const int32_t> order = source.InputOrder();
    for (int64_t i = 0; i < m * source.k() && !order.empty(); ++i) {
      const int64_t row = i / source.k() * stride;
      ordered[row + i % source.k()] = x[row + order[static_cast<size_t>(i % source.k())]];
    }
  }

  int64_t stride;
  Input<Bfloat16> x, ordered;
};

// Runs the product of plain numbers and that of codes, and compares y. change(args): what else is
// to be computed.
struct Compared {
  Weights& weights;
  const Inputs& inputs;
  int64_t m;
  Stream& stream;

  GemmArgs Args(bool of_codes, float* y) const {
    GemmArgs args{.x = (of_codes ? inputs.x : inputs.ordered).data(),
                  .x_stride = inputs.stride,
                  .m = m,
                  .weight = &weights.codes,
                  .y = y,
                  .y_stride = weights.codes.n()};
    if (of_codes) args.room = {weights.room.data(), weights.room.bytes()};
    return args;
  }

  void ExpectSame(const Input<float>& before, bool lora,
                  const std::function<void(GemmArgs& args)>& change) const {
    Output<float> expected(before, 0);
    GemmArgs args = Args(false, expected.data());
    change(args);
    weights.MultiplyPlain(args, stream);
    Synchronize(stream);
    for (const Way& way : WaysOf(lora)) {
      SCOPED_TRACE(way.name);
      Output<float> y(before, 0);
      args = Args(true, y.data());
      change(args);
      way.compute(args, stream);
      Synchronize(stream);
      ASSERT_TRUE(testing::BitEqual(y.data(), expected.data(), y.size()))
          << "element " << FirstDifference(y, expected);
      ASSERT_TRUE(y.GuardsIntact());
    }
  }

  static int64_t FirstDifference(const Output<float>& a, const Output<float>& b) {
    for (int64_t i = 0; i < a.size(); ++i) {
      if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return i;
    }
    return -1;
  }
};

TEST(GemmCodesGpuTest, SumsAreThoseOfTheNumbers) {
  for (const CodesCase& c : CodesCases()) {
    SCOPED_TRACE(c.name);
    ForFirstGpu([&](Stream& stream) {
      constexpr int64_t kRows = 19;
      Weights weights(c, kRows, stream);
      const Inputs inputs(weights.source, kRows, 0, 0);
      const std::vector<float> numbers = weights.source.Numbers();
      for (const Way& way : WaysOf(false)) {
        SCOPED_TRACE(way.name);
        Output<float> y(kRows * c.n);
        way.compute(Compared{weights, inputs, kRows, stream}.Args(true, y.data()), stream);
        Synchronize(stream);
        for (int64_t i = 0; i < kRows * c.n; ++i) {
          Reference expected;
          for (int64_t j = 0; j < c.k; ++j) {
            const float number = numbers[static_cast<size_t>(i % c.n * c.k + j)];
            expected.Add(inputs.x.At(i / c.n * c.k + j) *
                         static_cast<double>(ToFloat(FromFloat<Bfloat16>(number))));
          }
          ASSERT_TRUE(IsClose(y[i], expected, 1e-6 + 1e-7 * static_cast<double>(c.k))) << i;
        }
        ASSERT_TRUE(y.GuardsIntact());
      }
    });
  }
}

TEST(GemmCodesGpuTest, BitsAreThoseOfPlainNumbers) {
  for (const CodesCase& c : CodesCases()) {
    SCOPED_TRACE(c.name);
    ForFirstGpu([&](Stream& stream) {
      constexpr int64_t kRowsMax = 150;
      Weights weights(c, kRowsMax, stream);
      const Input<float> bias = Input<float>::Normal(c.n, 6, 1);
      for (const int64_t m : {int64_t{1}, int64_t{9}, int64_t{64}, kRowsMax}) {
        SCOPED_TRACE(m);
        const int64_t gap = m % 2 * 8;
        const Inputs inputs(weights.source, m, gap, 0);
        const Compared compared{weights, inputs, m, stream};
        const Input<float> before = Input<float>::Normal(m * c.n, 7);
        compared.ExpectSame(before, false, [](GemmArgs&) {});
        compared.ExpectSame(before, false, [&](GemmArgs& args) {
          args.epilogue = {.bias = bias.data(), .accumulate = true, .scale = 0.22f};
        });
      }
    });
  }
}

// Where cp.async cannot bring x: rows off borders of 16 bytes, by their beginning or their stride.
TEST(GemmCodesGpuTest, RowsOffBordersHaveTheSameBits) {
  for (const CodesCase& c : CodesCases()) {
    SCOPED_TRACE(c.name);
    ForFirstGpu([&](Stream& stream) {
      constexpr int64_t kRows = 70;
      Weights weights(c, kRows, stream);
      for (const int64_t misalign : {0, 1}) {
        const Inputs inputs(weights.source, kRows, 3, misalign);
        const Compared compared{weights, inputs, kRows, stream};
        compared.ExpectSame(Input<float>(kRows * c.n), false, [](GemmArgs&) {});
      }
    });
  }
}

TEST(GemmCodesGpuTest, ARowDoesNotKnowItsBatch) {
  const DType bf16 = DType::kBF16;
  for (const WeightFormat& format :
       {WeightFormat::Integers(bf16, 4, 128, false, bf16), WeightFormat::Normal4(bf16)}) {
    const CodesCase c = {"", format, 520, 1288};
    ForFirstGpu([&](Stream& stream) {
      constexpr int64_t kRows = 600;  // more than are multiplied without numbers
      Weights weights(c, kRows, stream);
      const Inputs inputs(weights.source, kRows, 0, 0);
      const Compared compared{weights, inputs, kRows, stream};
      Output<float> alone(kRows * c.n), y(kRows * c.n);
      for (int64_t row = 0; row < kRows; ++row) {
        GemmArgs args = compared.Args(true, alone.data() + row * c.n);
        args.x = inputs.x.data() + row * c.k;
        args.m = 1;
        Gemm(args, stream);
      }
      for (const int64_t m : {2, 8, 9, 16, 17, 33, 64, 65, 128, 129, 255, 256, 257, 600}) {
        const int64_t first = kRows - m;
        GemmArgs args = compared.Args(true, y.data());
        args.x = inputs.x.data() + first * c.k;
        args.m = m;
        Gemm(args, stream);
        Synchronize(stream);
        EXPECT_TRUE(testing::BitEqual(y.data(), alone.data() + first * c.n, m * c.n)) << m;
      }
    });
  }
}

TEST(GemmCodesGpuTest, ActivatedIsThatOfPlainNumbers) {
  const DType bf16 = DType::kBF16;
  for (const WeightFormat& format :
       {WeightFormat::Integers(bf16, 4, 64, true, bf16), WeightFormat::Integers(bf16, 8, 128),
        WeightFormat::Normal4(bf16)}) {
    for (const int64_t n : {16, 208, 264, 1000}) {
      const CodesCase c = {"", format, n, 200};
      ForFirstGpu([&](Stream& stream) {
        constexpr int64_t kRows = 70;
        Weights weights(c, kRows, stream);
        const Inputs inputs(weights.source, kRows, 0, 0);
        const Input<float> bias = Input<float>::Normal(n, 6);
        for (const int64_t m : {int64_t{1}, int64_t{12}, kRows}) {
          const Compared compared{weights, inputs, m, stream};
          const auto activate = [&](bool of_codes, const Way& way, Output<Bfloat16>& out) {
            Output<float> y(m * n);
            GemmArgs args = compared.Args(of_codes, y.data());
            args.epilogue = {.bias = bias.data(), .activated = out.data()};
            of_codes ? way.compute(args, stream) : weights.MultiplyPlain(args, stream);
            Synchronize(stream);
            EXPECT_TRUE(y.GuardsIntact());
          };
          const std::vector<Way> ways = WaysOf(false);
          Output<Bfloat16> expected(m * n / 2);
          activate(false, ways[0], expected);
          for (const Way& way : ways) {
            if (&way != &ways[0] && !CodesActivate(n, c.k)) continue;
            SCOPED_TRACE(way.name + ", n " + std::to_string(n) + ", m " + std::to_string(m));
            Output<Bfloat16> out(m * n / 2);
            activate(true, way, out);
            ASSERT_TRUE(testing::BitEqual(out.data(), expected.data(), out.size()));
            ASSERT_TRUE(out.GuardsIntact());
          }
        }
      });
    }
  }
}

// Adapters of mixed ranks over slices of y, and h as LoraShrink would leave it.
class Adapters {
 public:
  Adapters(const std::vector<std::vector<int32_t>>& ranks, const std::vector<int64_t>& slices,
           const std::vector<LoraSegment>& segments, int32_t num_rows, int64_t k)
      : segments_(segments), matrices_(std::vector<LoraMatrix>(ranks.size() * slices.size())) {
    const auto num_slices = static_cast<int32_t>(slices.size());
    uint64_t seed = 20;
    for (size_t slot = 0; slot < ranks.size(); ++slot) {
      for (size_t s = 0; s < slices.size(); ++s) {
        const int32_t rank = ranks[slot][s];
        const int64_t stride = (slices[s] + 7) / 8 * 8;
        const auto& b = b_.emplace_back(Input<Bfloat16>::Normal(rank * stride, ++seed));
        std::vector<const void*> rows;
        for (int32_t j = 0; j < rank; ++j) rows.push_back(b.data() + j * stride);
        matrices_[slot * slices.size() + s] = {
            .b_rows = rows_.emplace_back(rows).data(), .rank = rank, .scale = 0.75f};
      }
    }
    h_ = Input<float>::Normal(
        LoraScratchFloats({DeviceKind::kCuda, 0}, int64_t{num_slices} * num_rows, kRankMax), 5);
    args_ = {.dtype = DType::kBF16,
             .segments = segments_.data(),
             .num_segments = static_cast<int32_t>(segments_.size()),
             .matrices = matrices_.data(),
             .matrices_stride = num_slices,
             .num_slices = num_slices,
             .k = k,
             .h = h_.data(),
             .h_stride = kRankMax,
             .num_rows = num_rows};
    for (int32_t s = 0; s < num_slices; ++s) {
      args_.slice_begin[s] = args_.y_stride;
      args_.slice_n[s] = slices[s];
      args_.y_stride += slices[s];
    }
  }

  LoraArgs Of(float* y, float scale) const {
    LoraArgs args = args_;
    args.y = y;
    args.scale = scale;
    return args;
  }

 private:
  static constexpr int64_t kRankMax = 32;
  std::deque<Input<Bfloat16>> b_;
  std::deque<Shared<const void*>> rows_;
  Shared<LoraSegment> segments_;
  Shared<LoraMatrix> matrices_;
  Input<float> h_{0};
  LoraArgs args_;
};

// Adapters in segments that are empty, that repeat, and that leave rows out.
const std::vector<LoraSegment> kSegments = {{0, 1, 0},   {1, 1, 1},   {1, 20, 2},
                                            {24, 40, 0}, {40, 41, 1}, {66, 90, 2}};

TEST(GemmCodesGpuTest, LoraInsideAndAfterIsThatOfPlainNumbers) {
  const DType bf16 = DType::kBF16;
  WeightFormat ordered = WeightFormat::Integers(bf16, 4, 32, true);
  ordered.has_input_order = true;
  for (const WeightFormat& format :
       {WeightFormat::Integers(bf16, 4, 128, false, bf16),
        WeightFormat::Integers(bf16, 8, 64, true), WeightFormat::Normal4(bf16), ordered}) {
    for (const bool odd : {false, true}) {
      const std::vector<int64_t> slices =
          odd ? std::vector<int64_t>{70, 33, 9} : std::vector<int64_t>{128, 64, 64};
      const CodesCase c = {"", format, odd ? 115 : 256, odd ? 160 : 704};
      ForFirstGpu([&](Stream& stream) {
        constexpr int64_t kRows = 90;
        Weights weights(c, kRows, stream);
        const Inputs inputs(weights.source, kRows, odd ? 1 : 0, 0);
        const Adapters adapters({{16, 1, 17}, {8, 32, 0}, {3, 16, 30}}, slices, kSegments, kRows,
                                c.k);
        const Input<float> bias = Input<float>::Normal(c.n, 6);
        const Compared compared{weights, inputs, kRows, stream};
        for (const LoraPlace place : {LoraPlace::kInside, LoraPlace::kAfter}) {
          LoraArgs lora;
          const auto add = [&](GemmArgs& args) {
            lora = adapters.Of(args.y, 0.5f);
            lora.y_stride = c.n;
            args.epilogue = {.bias = bias.data(), .accumulate = true, .scale = 0.5f};
            args.epilogue.lora = &lora;
            args.epilogue.lora_place = place;
          };
          const Input<float> before = Input<float>::Normal(kRows * c.n, 7);
          if (place == LoraPlace::kInside) {
            compared.ExpectSame(before, true, add);
            continue;
          }
          Output<float> expected(before, 0), y(before, 0);
          GemmArgs args = compared.Args(false, expected.data());
          add(args);
          weights.MultiplyPlain(args, stream);
          args = compared.Args(true, y.data());
          add(args);
          Gemm(args, stream);
          Synchronize(stream);
          EXPECT_TRUE(testing::BitEqual(y.data(), expected.data(), y.size()));
        }
      });
    }
  }
}

// A step's prompts: LoRA inside, gate and up activated, drawn rows of y kept and all rounded.
TEST(GemmCodesGpuTest, LoraInsideBesideAnActivationKeepsRows) {
  const CodesCase c = {"", WeightFormat::Integers(DType::kBF16, 4, 128, false, DType::kBF16), 416,
                       264};
  ForFirstGpu([&](Stream& stream) {
    constexpr int64_t kRows = 90;
    Weights weights(c, kRows, stream);
    const Inputs inputs(weights.source, kRows, 0, 0);
    const Adapters adapters({{16, 1}, {8, 32}, {3, 16}}, {208, 208}, kSegments, kRows, c.k);
    const Compared compared{weights, inputs, kRows, stream};
    const auto run = [&](bool of_codes, const Way& way, Output<float>& y, Output<Bfloat16>& out,
                         Output<Bfloat16>& rounded) {
      GemmArgs args = compared.Args(of_codes, y.data());
      const LoraArgs lora = adapters.Of(y.data(), 1.0f);
      args.epilogue.lora = &lora;
      args.epilogue.lora_place = LoraPlace::kInside;
      args.epilogue.activated = out.data();
      args.epilogue.rounded = rounded.data();
      args.epilogue.kept_rows = {70, 80};
      of_codes ? way.compute(args, stream) : weights.MultiplyPlain(args, stream);
      Synchronize(stream);
    };
    const std::vector<Way> ways = WaysOf(true);
    Output<float> expected_y(kRows * c.n);
    Output<Bfloat16> expected(kRows * c.n / 2), expected_rounded(kRows * c.n);
    run(false, ways[0], expected_y, expected, expected_rounded);
    for (const Way& way : ways) {
      SCOPED_TRACE(way.name);
      Output<float> y(kRows * c.n);
      Output<Bfloat16> out(kRows * c.n / 2), rounded(kRows * c.n);
      run(true, way, y, out, rounded);
      EXPECT_TRUE(testing::BitEqual(y.data() + 70 * c.n, expected_y.data() + 70 * c.n, 10 * c.n));
      EXPECT_TRUE(testing::BitEqual(out.data(), expected.data(), out.size()));
      EXPECT_TRUE(testing::BitEqual(rounded.data(), expected_rounded.data(), rounded.size()));
    }
  });
}

TEST(GemmCodesGpuTest, WhatIsNoNumberStaysInItsRow) {
  const CodesCase c = {"", WeightFormat::Normal4(DType::kBF16), 72, 384};
  ForFirstGpu([&](Stream& stream) {
    Weights weights(c, 20, stream);
    Inputs inputs(weights.source, 20, 0, 0);
    inputs.x[5 * c.k + 200] = FromFloat<Bfloat16>(NAN);
    for (const Way& way : WaysOf(false)) {
      Output<float> y(20 * c.n);
      way.compute(Compared{weights, inputs, 20, stream}.Args(true, y.data()), stream);
      Synchronize(stream);
      for (int64_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i / c.n == 5) << i;
    }
  });
}

// Few rows go to narrow tiles, and all formats' tiles fit the least of cards.
TEST(GemmCodesGpuTest, TilesAreChosenByWhatTheCardHas) {
  const DeviceTraits l4 = {.compute = 89,
                           .num_multiprocessors = 58,
                           .shared_bytes_max = 99 << 10,
                           .shared_bytes_of_multiprocessor = 100 << 10,
                           .threads_of_multiprocessor = 1536};
  DeviceTraits h100 = l4;
  h100.compute = 90;
  h100.num_multiprocessors = 132;
  h100.shared_bytes_of_multiprocessor = 228 << 10;
  h100.threads_of_multiprocessor = 2048;
  if constexpr (kHasCuda) {
    for (const DeviceTraits& card : {l4, h100}) {
      for (const CodesCase& c : CodesCases()) {
        const auto rows_of = [&](int64_t m) {
          return codes::kTiles[codes::ChooseTile(c.format, m, 4096, 4096, false, card)].rows;
        };
        EXPECT_LE(rows_of(1), 16) << c.name;
        EXPECT_LE(rows_of(16), 32) << c.name;
        EXPECT_GE(rows_of(64), 16) << c.name;
        EXPECT_GE(rows_of(1024), 64) << c.name;
        EXPECT_GE(codes::ChooseTile(c.format, 1, 4096, 4096, true, card), codes::kFirstWide);
      }
    }
  }
}

}  // namespace gemm_codes_gpu_test
}  // namespace graft
