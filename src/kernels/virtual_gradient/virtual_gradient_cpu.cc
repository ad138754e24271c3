#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"
#include "kernels/virtual_gradient/virtual_gradient.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

void AddToken(const VirtualGradientArgs& args, const VirtualGradientItem& item, int64_t token) {
  constexpr int kLanes = Vec::kLanes;
  const Vec scale = Vec::Set(args.scale);
  float* const gradient = item.gradient + token * args.gradient_stride + args.gradient_offset;
  for (int32_t i = item.place_begin; i < item.place_end; ++i) {
    const float* const x = args.x + (args.places[i] + token) * args.n;
    for (int64_t j = 0; j < args.n; j += kLanes) {
      const int lanes = args.n - j < kLanes ? static_cast<int>(args.n - j) : kLanes;
      const Vec before = Vec::LoadPartial(gradient + j, lanes);
      const Vec sum = Fma(Vec::LoadPartial(x + j, lanes), scale, before);
      sum.StorePartial(gradient + j, lanes);
    }
  }
}

}  // namespace

void VirtualGradient(const VirtualGradientArgs& args, Stream& stream) {
  for (int32_t i = 0; i < args.num_items; ++i) {
    const VirtualGradientItem& item = args.items[i];
    const int64_t row_bytes =
        int64_t{item.place_end - item.place_begin} * args.n * int64_t{sizeof(float)};
    ParallelRows(item.num_tokens, row_bytes, stream, [&](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) AddToken(args, item, token);
    });
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
