// Gemm with SwiGLU's activation gives GatedActivation of y, bit for bit, in one kernel or in two.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_ways.h"

namespace graft {
namespace gemm_silu_test {

using testing::ForEachDevice;
using testing::ForFirstGpu;
using testing::Input;
using testing::Output;

// A gate and an up of `n` columns each. compute(args) must write to args.activated what
// GatedActivation makes of y, and must write nothing around it.
template <typename T>
class Activated {
 public:
  Activated(int64_t n, int64_t k, int64_t m, bool bias, Stream& stream)
      : n_(n),
        x_(Input<T>::Normal(m * k, 1)),
        bias_(Input<float>::Normal(2 * n, 2)),
        has_bias_(bias),
        expected_(m * n),
        stream_(stream) {
    const Input<T> gate = Input<T>::Normal(n * k, 3);
    const Input<T> up = Input<T>::Normal(n * k, 4);
    const TensorView views[] = {{gate.data(), DTypeOf<T>(), {n, k}},
                                {up.data(), DTypeOf<T>(), {n, k}}};
    weight_ = GemmWeight::Pack(views, DTypeOf<T>(), stream);
    Input<float> y(m * 2 * n);
    Gemm(Args(m, y.data()), stream);
    GatedActivation({.gate_up = y.data(),
                     .out = expected_.data(),
                     .out_dtype = DTypeOf<T>(),
                     .num_tokens = m,
                     .n = n},
                    stream);
    Synchronize(stream);
  }

  int64_t num_columns() const { return weight_.n(); }

  // Runs the first m rows. Returns whether y was left alone.
  template <typename Function>
  bool ExpectSame(int64_t m, int64_t misalign, const Function& compute) const {
    Output<T> out(m * n_, misalign);
    Output<float> y(m * 2 * n_);
    GemmArgs args = Args(m, y.data());
    args.epilogue.activated = out.data();
    compute(args);
    Synchronize(stream_);
    EXPECT_TRUE(testing::BitEqual(out.data(), expected_.data(), m * n_)) << "m " << m;
    EXPECT_TRUE(out.GuardsIntact());
    EXPECT_TRUE(y.GuardsIntact());
    return y.IsUntouched(0);
  }

 private:
  GemmArgs Args(int64_t m, float* y) const {
    return {.x = x_.data(),
            .x_stride = weight_.k(),
            .m = m,
            .weight = &weight_,
            .y = y,
            .y_stride = weight_.n(),
            .epilogue = {.bias = has_bias_ ? bias_.data() : nullptr},
            .x_is_fp32 = std::is_same_v<T, float>};
  }

  const int64_t n_;
  const Input<T> x_;
  const Input<float> bias_;
  const bool has_bias_;
  GemmWeight weight_;
  Input<T> expected_;
  Stream& stream_;
};

template <typename T>
void CheckActivated() {
  const auto check = [](Stream& stream) {
    for (const auto& [n, k, m] : {std::array<int64_t, 3>{1, 1, 1},
                                  {7, 40, 3},
                                  {8, 64, 9},
                                  {77, 54, 33},
                                  {96, 33, 5},
                                  {100, 64, 70},
                                  {104, 72, 64},
                                  {504, 200, 65},
                                  {1000, 136, 330}}) {
      for (const bool bias : {false, true}) {
        SCOPED_TRACE(std::to_string(n) + " columns, k " + std::to_string(k));
        const Activated<T> activated(n, k, m, bias, stream);
        for (const int64_t rows : {m, int64_t{1}}) {
          activated.ExpectSame(rows, n % 3, [&](const GemmArgs& args) { Gemm(args, stream); });
        }
      }
    }
  };
  if constexpr (std::is_same_v<T, Float16>) {
    ForFirstGpu(check);
  } else {
    ForEachDevice(check);
  }
}

TEST(GemmSiluTest, ActivatedHasGatedActivationsBits) {
  CheckActivated<float>();
  CheckActivated<Bfloat16>();
  CheckActivated<Float16>();
}

// The last of `batches` must be the largest.
template <typename T>
void CheckActivatedTiles(int64_t n, int64_t k, const std::vector<int64_t>& batches,
                         int64_t misalign = 0) {
  ForFirstGpu([&](Stream& stream) {
    const Activated<T> activated(n, k, batches.back(), true, stream);
    for (const testing::GemmWay& way :
         testing::AllWays({.dtype = DTypeOf<T>(), .n = activated.num_columns()}, stream.device)) {
      if (!way.activates) continue;
      SCOPED_TRACE(way.name);
      for (const int64_t m : batches) {
        EXPECT_TRUE(activated.ExpectSame(m, misalign,
                                         [&](const GemmArgs& args) { way.compute(args, stream); }));
      }
    }
  });
}

TEST(GemmSiluTest, TilesDoNotChangeActivated) {
  const std::vector<int64_t> batches = {1, 20, 64, 65, 330};
  CheckActivatedTiles<Bfloat16>(1016, 392, batches);
  CheckActivatedTiles<Bfloat16>(1002, 392, batches);  // rows are not aligned
  CheckActivatedTiles<Bfloat16>(501, 392, batches);
  CheckActivatedTiles<Bfloat16>(1016, 72, {20, 330}, 1);  // no row is aligned
  // An odd number of tiles for pairs that share x, and for every kind of tile more of them than run
  // at once.
  CheckActivatedTiles<Bfloat16>(520, 72, {65, 330});
  CheckActivatedTiles<Bfloat16>(8000, 200, {330});
  CheckActivatedTiles<Float16>(1016, 392, batches);
}

}  // namespace gemm_silu_test
}  // namespace graft
