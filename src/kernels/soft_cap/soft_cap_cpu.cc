// c tanh(x / c) = c - 2 c / (1 + e^(2 x / c)), within a few last places of c.
#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"
#include "kernels/soft_cap/soft_cap.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int64_t kGrain = 4096;  // elements of a task

inline Vec Capped(Vec x, Vec cap, Vec to_exponent) {
  return cap - (cap + cap) / (Vec::Set(1.0f) + Exp(x * to_exponent));
}

}  // namespace

void SoftCap(const SoftCapArgs& args, Stream& stream) {
  constexpr int kLanes = Vec::kLanes;
  const int64_t num_tasks = (args.n + kGrain - 1) / kGrain;
  ParallelRows(num_tasks, int64_t{2} * kGrain * sizeof(float), stream,
               [&](int64_t begin, int64_t end) {
                 const Vec cap = Vec::Set(args.cap);
                 const Vec to_exponent = Vec::Set(2.0f / args.cap);
                 const int64_t last = end * kGrain < args.n ? end * kGrain : args.n;
                 for (int64_t i = begin * kGrain; i < last; i += kLanes) {
                   float* x = args.x + i;
                   if (last - i >= kLanes) {
                     Capped(Vec::Load(x), cap, to_exponent).Store(x);
                   } else {
                     const int left = static_cast<int>(last - i);
                     Capped(Vec::LoadPartial(x, left), cap, to_exponent).StorePartial(x, left);
                   }
                 }
               });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
