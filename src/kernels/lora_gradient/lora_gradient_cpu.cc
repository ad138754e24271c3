#include "kernels/lora_gradient/lora_gradient.h"

#include "kernels/common/simd.h"
#include "kernels/common/unroll.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int kGradientRanks = 4;  // of a register tile
constexpr int kGradientVecs = 2;
constexpr int64_t kGradientColumns = int64_t{kGradientVecs} * Vec::kLanes;
constexpr int64_t kItemColumns = 64;  // that a thread takes at a time

// One tile: every sum has one accumulator over the rows in order.
template <int kRankCount>
void AddTile(const LoraGradientArgs& args, const LoraGradientSegment& segment, int32_t rank,
             int64_t column, int lanes_first, int lanes_second) {
  Vec sums[kRankCount][kGradientVecs];
  Unroll<kRankCount>([&](auto j) { sums[j][0] = sums[j][1] = Vec::Zero(); });
  for (int32_t row = segment.row_begin; row < segment.row_end; ++row) {
    const float* x = static_cast<const float*>(args.x) + row * args.x_stride + column;
    const float* h = args.h + row * args.h_stride + rank;
    const Vec first = lanes_first == Vec::kLanes ? Vec::Load(x) : Vec::LoadPartial(x, lanes_first);
    const Vec second = lanes_second == Vec::kLanes ? Vec::Load(x + Vec::kLanes)
                       : lanes_second > 0          ? Vec::LoadPartial(x + Vec::kLanes, lanes_second)
                                                   : Vec::Zero();
    Unroll<kRankCount>([&](auto j) {
      const Vec factor = Vec::Set(h[j]);
      sums[j][0] = Fma(factor, first, sums[j][0]);
      sums[j][1] = Fma(factor, second, sums[j][1]);
    });
  }
  const Vec scale = Vec::Set(segment.scale);
  Unroll<kRankCount>([&](auto j) {
    float* out = segment.gradient + segment.rank * args.rank_offset + (rank + j) * args.n + column;
    Fma(scale, sums[j][0], Vec::LoadPartial(out, lanes_first)).StorePartial(out, lanes_first);
    if (lanes_second == 0) return;
    out += Vec::kLanes;
    Fma(scale, sums[j][1], Vec::LoadPartial(out, lanes_second)).StorePartial(out, lanes_second);
  });
}

void AddColumns(const LoraGradientArgs& args, const LoraGradientSegment& segment, int64_t begin,
                int64_t end) {
  for (int64_t column = begin; column < end; column += kGradientColumns) {
    const int left =
        end - column < kGradientColumns ? static_cast<int>(end - column) : kGradientColumns;
    const int first = left < Vec::kLanes ? left : Vec::kLanes;
    int32_t rank = 0;
    for (; rank + kGradientRanks <= segment.rank; rank += kGradientRanks) {
      AddTile<kGradientRanks>(args, segment, rank, column, first, left - first);
    }
    for (; rank < segment.rank; ++rank) {
      AddTile<1>(args, segment, rank, column, first, left - first);
    }
  }
}

}  // namespace

void LoraGradient(const LoraGradientArgs& args, Stream& stream) {
  const int64_t tiles = (args.n + kItemColumns - 1) / kItemColumns;
  stream.cpu_threads->ParallelFor(tiles * args.num_segments, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t column = item % tiles * kItemColumns;
      const int64_t last = column + kItemColumns < args.n ? column + kItemColumns : args.n;
      AddColumns(args, args.segments[item / tiles], column, last);
    }
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
