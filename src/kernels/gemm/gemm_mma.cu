// Chooses a tile for the GEMM by mma.sync, from what the card has.
#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <numeric>

#include "kernels/common/cuda_vector.cuh"
#include "kernels/gemm/gemm_mma_tiles.h"
#include "kernels/lora/lora.h"
#include "tensor/device_traits.h"

namespace graft {
namespace mma {
namespace {

// A tile of more sums per thread than this takes as many of a multiprocessor's registers as two
// blocks of 128 threads may have.
constexpr int kManySums = 64;
constexpr int kRegisters = 65536;

int RegistersOf(const Tile& tile) {
  return tile.columns * tile.rows / tile.threads() > kManySums ? 255 : 128;
}

// Blocks of it that a multiprocessor runs at once.
int BlocksAtOnce(const Tile& tile, const TileWeight& w, const DeviceTraits& traits) {
  constexpr int kReserved = 1 << 10;  // shared memory that each block takes beside its own
  return std::min({traits.shared_bytes_of_multiprocessor / (w.block_bytes + kReserved),
                   traits.threads_of_multiprocessor / tile.threads(),
                   kRegisters / (tile.threads() * RegistersOf(tile))});
}

// Cycles of a product of 16 x 8 x 16 on all tensor cores of a multiprocessor. Those of 8.0, 8.7,
// 9.0 and 10.x make 1,024 multiplications in a cycle, those of other capabilities half as many.
double ProductCycles(const DeviceTraits& traits) {
  const int compute = traits.compute;
  const bool is_large = compute == 80 || compute == 87 || compute / 10 == 9 || compute / 10 == 10;
  return is_large ? 2.0 : 4.0;
}

// Together: the slowest, and a part of the others, as nothing overlaps wholly.
double Overlapped(std::initializer_list<double> cycles) {
  constexpr double kSeen = 0.2;
  const double slowest = std::max(cycles);
  return slowest + kSeen * (std::accumulate(cycles.begin(), cycles.end(), 0.0) - slowest);
}

}  // namespace

// A rough estimate in clock cycles of a multiprocessor. A piece of 16 columns of k takes the tensor
// cores, shared memory, and the path from the second-level cache. All of W has to come from memory,
// which takes longer where too little of it is on its way. The constants are data sheets' and what
// was measured of caches (workshop/cuda_gemm_ampere.md); only the order of the results matters.
double PredictCycles(const Tile& tile, const TileWeight& w, int64_t m, int64_t n, int64_t k,
                     const DeviceTraits& traits) {
  constexpr double kSharedBytesPerCycle = 128.0;
  constexpr double kCacheBytesPerCycle = 47.0;
  constexpr double kMemoryBytesPerCycle = 14.5;
  constexpr double kBytesOnWay = 24 << 10;  // that keep memory busy
  constexpr double kChainCycles = 40.0;     // from one product to the next of the same sums
  constexpr double kStoreCyclesPerElement = 0.15;
  constexpr double kTileCycles = 1500.0;  // its ends, beside which no other block works
  constexpr double kPieceBytes = 32.0;    // of a row of x
  constexpr double kLanesPerCycle = 128.0;
  const auto processors = static_cast<double>(traits.num_multiprocessors);
  const int64_t items = CeilDiv(m, tile.rows) * CeilDiv(n, tile.columns);
  const auto rounds = static_cast<double>(CeilDiv(items, traits.num_multiprocessors));
  const double at_once = std::min<double>(rounds, BlocksAtOnce(tile, w, traits));
  const double columns = tile.columns;
  const double rows = static_cast<double>(std::min<int64_t>(tile.rows, CeilDiv(m, 8) * 8));
  const double pieces = static_cast<double>(CeilDiv(k, 16));
  const double multiply = columns / 16.0 * tile.rows / 8.0 * ProductCycles(traits);
  const double w_bytes = columns * 16.0 * w.number_bytes;
  const double x_bytes = rows * kPieceBytes;
  const double read = w_bytes * tile.row_warps + tile.rows * tile.column_warps * kPieceBytes;
  const double share = (read + w_bytes + x_bytes) / kSharedBytesPerCycle;
  const double load = (w_bytes + x_bytes) / kCacheBytesPerCycle;
  const double make = columns * 16.0 * tile.row_warps * w.number_instructions / kLanesPerCycle;
  const double piece = std::max(Overlapped({multiply, share, load, make}), kChainCycles / at_once);
  const double work = rounds * (pieces * piece + kStoreCyclesPerElement * columns * rows);
  const double on_way = std::min(static_cast<double>(items) / processors, at_once) *
                        (tile.stages - 1) * tile.depth * columns * w.number_bytes;
  const double memory = static_cast<double>(n) * static_cast<double>(k) * w.number_bytes /
                        (processors * kMemoryBytesPerCycle * std::min(1.0, on_way / kBytesOnWay));
  return Overlapped({work, memory}) + kTileCycles * (at_once < 2.0 ? rounds : 1.0);
}

bool FitsOnCard(const Tile& tile, const TileWeight& w, const DeviceTraits& traits) {
  return BlocksAtOnce(tile, w, traits) > 0;
}

namespace {

Launcher LauncherFor(const GemmCudaArgs& args, size_t tile) {
  const GemmArgs& gemm = args.gemm;
  const LoraArgs* const lora = LoraAt(gemm, LoraPlace::kInside);
  CHECK(lora == nullptr || (args.dtype == DType::kBF16 && lora->dtype == DType::kBF16))
      << "LoRA inside " << DTypeName(args.dtype);
  CHECK(LoraAt(gemm, LoraPlace::kBeside) == nullptr) << "LoRA beside a product by mma.sync";
  // Where cp.async cannot bring rows of x as pieces of 16 bytes.
  const bool off_border = !IsVectorAligned(gemm.x) || (gemm.m > 1 && gemm.x_stride % 8 != 0);
  const bool copies = off_border || args.k % 8 != 0;
  if (gemm.transposed) {
    CHECK(args.dtype == DType::kBF16 && gemm.epilogue.activated == nullptr && !off_border);
    return lora != nullptr ? TransposingBf16Lora(tile) : TransposingBf16(tile);
  }
  if (args.dtype == DType::kF16) return copies ? CopyingF16() : F16(tile);
  CHECK(args.dtype == DType::kBF16) << DTypeName(args.dtype);
  if (lora != nullptr) return copies ? CopyingBf16Lora() : Bf16Lora(tile);
  return copies ? CopyingBf16() : Bf16(tile);
}

}  // namespace

size_t ChooseTile(int64_t m, int64_t n, int64_t k, bool is_wide, const DeviceTraits& traits) {
  size_t best = kFirstWide;
  double best_cycles = std::numeric_limits<double>::max();
  for (size_t i = is_wide ? kFirstWide : 0; i < kNumTiles; ++i) {
    const TileWeight w{.block_bytes = kTiles[i].ring_bytes()};
    if (!FitsOnCard(kTiles[i], w, traits)) continue;
    const double cycles = PredictCycles(kTiles[i], w, m, n, k, traits);
    if (cycles >= best_cycles) continue;
    best_cycles = cycles;
    best = i;
  }
  return best;
}

}  // namespace mma

void GemmMma(const GemmCudaArgs& args, size_t tile, Stream& stream) {
  CHECK_LT(tile, mma::kNumTiles);
  mma::LauncherFor(args, tile)(args, stream);
}

void GemmMma(const GemmCudaArgs& args, Stream& stream) {
  const bool is_wide = args.gemm.transposed || LoraAt(args.gemm, LoraPlace::kInside) != nullptr;
  GemmMma(args, mma::ChooseTile(args.gemm.m, args.n, args.k, is_wide, TraitsOf(stream.device)),
          stream);
}

}  // namespace graft
