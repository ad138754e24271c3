// For Gemm's tests: every way in which a GPU can compute a product of 16 bits. All have the same
// bits, so those of mma.sync have Hopper's on a Hopper card.
#pragma once

#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_hopper_tiles.h"
#include "kernels/gemm/gemm_mma_tiles.h"
#include "tensor/device_traits.h"

namespace graft::testing {

struct GemmWay {
  std::string name;
  bool activates = true;
  std::function<void(const GemmArgs& args, Stream& stream)> compute;
};

// What the products have.
struct GemmWayNeeds {
  DType dtype = DType::kBF16;
  int64_t n = 0;  // columns of y
  bool lora = false;
  bool transposed = false;
};

// With every tile of mma.sync, which all cards have.
inline std::vector<GemmWay> MmaWays(const GemmWayNeeds& needs) {
  std::vector<GemmWay> ways;
  if constexpr (kHasCuda) {
    for (size_t i = needs.lora || needs.transposed ? mma::kFirstWide : 0; i < mma::kNumTiles; ++i) {
      ways.push_back(
          {.name = mma::kTiles[i].ToString(), .compute = [i](const GemmArgs& args, Stream& stream) {
             GemmMma(CudaArgsOf(args), i, stream);
           }});
    }
  }
  return ways;
}

// And with every tile of Hopper's, where this card has its code.
inline std::vector<GemmWay> AllWays(const GemmWayNeeds& needs, const Device& device) {
  std::vector<GemmWay> ways = MmaWays(needs);
  if constexpr (kHasCuda) {
    if (!TraitsOf(device).has_hopper_code) return ways;
    std::vector<GemmTile> tiles = HopperGemmTiles(needs.dtype);
    if (needs.transposed) {
      tiles.assign(std::begin(hopper::kTransposingTiles), std::end(hopper::kTransposingTiles));
    }
    for (const GemmTile& tile : tiles) {
      ways.push_back({.name = tile.ToString(),
                      .activates = tile.activates(needs.n),
                      .compute = [tile](const GemmArgs& args, Stream& stream) {
                        GemmHopper(CudaArgsOf(args), tile, stream);
                      }});
    }
  }
  return ways;
}

}  // namespace graft::testing
