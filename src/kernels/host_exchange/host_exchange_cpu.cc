#include "kernels/common/simd.h"
#include "kernels/host_exchange/host_exchange.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

void AddRow(float scale, const float* delta, int64_t n, float* y) {
  const Vec factor = Vec::Set(scale);
  int64_t i = 0;
  for (; i + Vec::kLanes <= n; i += Vec::kLanes) {
    Fma(factor, Vec::Load(delta + i), Vec::Load(y + i)).Store(y + i);
  }
  if (i < n) {
    const int left = static_cast<int>(n - i);
    Fma(factor, Vec::LoadPartial(delta + i, left), Vec::LoadPartial(y + i, left))
        .StorePartial(y + i, left);
  }
}

}  // namespace

void HostExport(const HostExportArgs& args, Stream&) {
  const int64_t element_bytes = DTypeBytes(args.dtype);
  const int64_t row_bytes = args.k * element_bytes;
  for (int32_t i = 0; i < args.rows.count; ++i) {
    const HostSegments::Segment& segment = args.rows.segments[i];
    for (int64_t row = segment.row_begin; row < segment.row_end; ++row) {
      __builtin_memcpy(static_cast<char*>(args.out) + row * row_bytes,
                       static_cast<const char*>(args.x) + row * args.x_stride * element_bytes,
                       static_cast<size_t>(row_bytes));
    }
  }
}

void HostAdd(const HostAddArgs& args, Stream&) {
  for (int32_t i = 0; i < args.rows.count; ++i) {
    const HostSegments::Segment& segment = args.rows.segments[i];
    for (int64_t row = segment.row_begin; row < segment.row_end; ++row) {
      for (int32_t s = 0; s < args.num_slices; ++s) {
        if (segment.scale[s] == 0.0f) continue;
        AddRow(segment.scale[s], args.delta + row * args.delta_stride + args.slice_begin[s],
               args.slice_n[s], args.y + row * args.y_stride + args.slice_begin[s]);
      }
    }
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
