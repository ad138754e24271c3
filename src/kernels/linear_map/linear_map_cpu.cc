#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"
#include "kernels/linear_map/linear_map.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int kMapLanes = Vec::kLanes;

int MapLanesAt(int64_t column, int64_t n) {
  return n - column < kMapLanes ? static_cast<int>(n - column) : kMapLanes;
}

}  // namespace

void LinearMap(const LinearMapArgs& args, Stream& stream) {
  const int64_t map_bytes = args.k * args.n * int64_t{sizeof(float)};
  ParallelRows(args.num_rows, map_bytes, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const x = args.x + row * args.k;
      for (int64_t column = 0; column < args.n; column += kMapLanes) {
        const int lanes = MapLanesAt(column, args.n);
        const float* const map = args.map + column;
        Vec sum = Vec::LoadPartial(map + args.k * args.n, lanes);
        for (int64_t j = 0; j < args.k; ++j) {
          sum = Fma(Vec::Set(x[j]), Vec::LoadPartial(map + j * args.n, lanes), sum);
        }
        sum.StorePartial(args.y + row * args.n + column, lanes);
      }
    }
  });
}

void LinearMapGradient(const LinearMapGradientArgs& args, Stream& stream) {
  const int64_t y_bytes = args.num_rows * args.n * int64_t{sizeof(float)};
  ParallelRows(args.k + 1, y_bytes, stream, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      float* const d_map = args.d_map + j * args.n;
      for (int64_t column = 0; column < args.n; column += kMapLanes) {
        const int lanes = MapLanesAt(column, args.n);
        Vec sum = Vec::LoadPartial(d_map + column, lanes);
        for (int64_t row = 0; row < args.num_rows; ++row) {
          const Vec x = Vec::Set(j < args.k ? args.x[row * args.k + j] : 1.0f);
          sum = Fma(x, Vec::LoadPartial(args.d_y + row * args.n + column, lanes), sum);
        }
        sum.StorePartial(d_map + column, lanes);
      }
    }
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
