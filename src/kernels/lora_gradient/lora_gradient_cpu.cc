#include "kernels/lora_gradient/lora_gradient.h"

#include "kernels/common/simd.h"
#include "kernels/common/unroll.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int kGradientRanks = 4;  // of a register tile
constexpr int kGradientVecs = 2;
constexpr int64_t kGradientColumns = int64_t{kGradientVecs} * Vec::kLanes;
constexpr int64_t kItemColumns = 64;  // that a thread takes at a time

// A matrix of a product, for one segment.
struct GradientMatrix {
  const LoraGradientProduct& product;
  const LoraGradientSegment& segment;
  const float* h;  // rank 0 of row 0
  float* gradient;

  GradientMatrix(const LoraGradientProduct& of, const LoraGradientSegment& rows, int32_t matrix)
      : product(of),
        segment(rows),
        h(static_cast<const float*>(of.h) + matrix * of.h_matrix),
        gradient(rows.gradient + rows.rank * of.rank_offset[matrix]) {}
};

// One tile: every sum has one accumulator over the rows in order.
template <int kRankCount>
void AddTile(const GradientMatrix& matrix, int32_t rank, int64_t column, int lanes_first,
             int lanes_second) {
  const LoraGradientProduct& product = matrix.product;
  const LoraGradientSegment& segment = matrix.segment;
  Vec sums[kRankCount][kGradientVecs];
  Unroll<kRankCount>([&](auto j) { sums[j][0] = sums[j][1] = Vec::Zero(); });
  for (int32_t row = segment.row_begin; row < segment.row_end; ++row) {
    const float* x = static_cast<const float*>(product.x) + row * product.x_stride + column;
    const float* h = matrix.h + row * product.h_stride + rank;
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
    float* out = matrix.gradient + (rank + j) * product.n + column;
    Fma(scale, sums[j][0], Vec::LoadPartial(out, lanes_first)).StorePartial(out, lanes_first);
    if (lanes_second == 0) return;
    out += Vec::kLanes;
    Fma(scale, sums[j][1], Vec::LoadPartial(out, lanes_second)).StorePartial(out, lanes_second);
  });
}

void AddColumns(const GradientMatrix& matrix, int64_t begin, int64_t end) {
  const int32_t ranks = matrix.segment.rank;
  for (int64_t column = begin; column < end; column += kGradientColumns) {
    const int left =
        end - column < kGradientColumns ? static_cast<int>(end - column) : kGradientColumns;
    const int first = left < Vec::kLanes ? left : Vec::kLanes;
    int32_t rank = 0;
    for (; rank + kGradientRanks <= ranks; rank += kGradientRanks) {
      AddTile<kGradientRanks>(matrix, rank, column, first, left - first);
    }
    for (; rank < ranks; ++rank) AddTile<1>(matrix, rank, column, first, left - first);
  }
}

void AddGradientProduct(const LoraGradientArgs& args, const LoraGradientProduct& product,
                        Stream& stream) {
  const int64_t tiles = (product.n + kItemColumns - 1) / kItemColumns;
  const int64_t items = tiles * args.num_segments * product.num_matrices;
  stream.cpu_threads->ParallelFor(items, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t column = item % tiles * kItemColumns;
      const int64_t last = column + kItemColumns < product.n ? column + kItemColumns : product.n;
      const int64_t s = item / tiles % args.num_segments;
      const auto matrix = static_cast<int32_t>(item / tiles / args.num_segments);
      AddColumns(GradientMatrix(product, args.segments[s], matrix), column, last);
    }
  });
}

}  // namespace

void LoraGradient(const LoraGradientArgs& args, Stream& stream) {
  for (int32_t i = 0; i < args.num_products; ++i)
    AddGradientProduct(args, args.products[i], stream);
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
