// For Gemm's device bench: products of codes, with every tile and by numbers, beside those of bf16
// of the same shape.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/common/cuda_bench.cuh"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_codes_tiles.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_hopper_codes_tiles.h"
#include "kernels/gemm/repeated_codes.h"

namespace graft::codes_bench {

struct Format {
  const char* name;
  WeightFormat format;
};
constexpr DType kBf16 = DType::kBF16;
constexpr Format kFormats[] = {{"bf16", kBf16},
                               {"int4", WeightFormat::Integers(kBf16, 4, 128, false, kBf16)},
                               {"int4-zeros", WeightFormat::Integers(kBf16, 4, 128, true)},
                               {"int8", WeightFormat::Integers(kBf16, 8, 128, false, kBf16)},
                               {"nf4", WeightFormat::Normal4(kBf16)}};

// Enough copies of a weight that none of them is in the cache when it is read again.
inline std::vector<GemmWeight> ColdWeights(int64_t n, int64_t k, const WeightFormat& format,
                                           Stream& stream) {
  const int64_t bytes = GemmWeight::BytesFor(n, k, format, stream.device);
  std::vector<GemmWeight> weights;
  for (int64_t i = 0; i < cuda_bench::NumColdCopies(bytes); ++i) {
    const DrawnRows part{n, static_cast<uint64_t>(i)};
    weights.push_back(format.is_plain()
                          ? GemmWeight::Random({&part, 1}, k, 0.02f, kBf16, stream)
                          : GemmWeight::PackCodes(RepeatedCodes(n, k, format), format, stream));
  }
  return weights;
}

struct Operands {
  const Buffer& x;
  Buffer& y;
  Buffer& activated;
  Buffer& room;
};

// Prints what each way takes, and returns what the chosen one does. bf16_us: what bf16 takes.
inline double BenchShape(const char* name, const Format& format, int64_t n, int64_t k, int64_t m,
                         bool activates, bool all_ways, double bf16_us,
                         const std::vector<GemmWeight>& weights, const Operands& operands,
                         Stream& stream) {
  const auto count = static_cast<int>(weights.size());
  const auto time = [&](const auto& launch) {
    return cuda_bench::MicrosecondsPerLaunch(
        stream, std::max(count, cuda_bench::kLaunchesPerGraph), [&](int i) {
          GemmArgs args{.x = operands.x.data(),
                        .x_stride = k,
                        .m = m,
                        .weight = &weights[static_cast<size_t>(i % count)],
                        .y = operands.y.as<float>(),
                        .y_stride = n,
                        .room = {operands.room.data(), operands.room.bytes()}};
          if (activates) args.epilogue.activated = operands.activated.data();
          launch(args);
        });
  };
  const auto bytes = static_cast<double>(weights[0].bytes());
  const auto report = [&](double us, const std::string& way) {
    std::printf(
        "codes %-10s %-8s m %4lld %8.2f us %5.0f GB/s %4.0f TFLOP/s, bf16 over it %5.2f, %s\n",
        format.name, name, static_cast<long long>(m), us, bytes * 1e-3 / us,
        2e-6 * static_cast<double>(m * n * k) / us, bf16_us / us, way.c_str());
  };
  const double chosen = time([&](const GemmArgs& args) { Gemm(args, stream); });
  if (bf16_us == 0.0) bf16_us = chosen;
  report(chosen, "chosen");
  if (format.format.is_plain() || !all_ways) return chosen;
  for (size_t i = 0; i < codes::kNumTiles; ++i) {
    const codes::Tile& tile = codes::kTiles[i];
    report(time([&](const GemmArgs& args) { GemmCodesMma(CudaArgsOf(args), i, stream); }),
           std::to_string(tile.rows) + " x " + std::to_string(tile.columns));
  }
  for (size_t i = 0; i < codes::kNumHopperTiles; ++i) {
    const codes::HopperTile& tile = codes::kHopperTiles[i];
    if (!TraitsOf(stream.device).has_hopper_code || !codes::HasHopperTile(weights[0], i)) continue;
    report(time([&](const GemmArgs& args) { GemmCodesHopper(CudaArgsOf(args), i, stream); }),
           "wgmma " + std::to_string(tile.rows) + " x " + std::to_string(tile.groups * 64));
  }
  report(time([&](const GemmArgs& args) {
           for (const GemmCudaArgs& product : MakeNumbers(CudaArgsOf(args), stream)) {
             GemmCuda(product, stream);
           }
         }),
         "by numbers");
  return chosen;
}

}  // namespace graft::codes_bench
