#include "bench/lora_merge/lora_merge.h"

#include <algorithm>

#include "base/check.h"
#include "bench/lora_merge/lora_merge_work.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/gemm/gemm_layout.h"

namespace graft {

GRAFT_OP(LoraMerge, LoraMergeWork)

namespace {

void CheckArgs(const LoraMergeArgs& args, const Stream& stream) {
  CHECK(args.base != nullptr && args.base->state() != nullptr) << "the weight is not packed";
  CHECK(args.merged != nullptr && args.merged->state() != nullptr) << "nowhere to merge to";
  CHECK(args.matrices != nullptr);
  CHECK(args.num_slices >= 1 && args.num_slices <= kLoraSlicesMax) << args.num_slices;
  const GemmWeight::State& base = *args.base->state();
  const GemmWeight::State& merged = *args.merged->state();
  CHECK(base.panels.device() == stream.device && merged.panels.device() == stream.device);
  CHECK(merged.n == base.n && merged.k == base.k && merged.format == base.format &&
        merged.panels.bytes() == base.panels.bytes())
      << "a weight of another shape";
  int64_t n = 0;
  for (int32_t s = 0; s < args.num_slices; ++s) {
    CHECK_GE(args.slice_n[s], 0);
    n += args.slice_n[s];
    if (!stream.device.is_cpu()) continue;  // what a GPU's arrays hold is the caller's word
    CHECK(args.matrices[s].rank >= 0 && args.matrices[s].rank <= kLoraRankMax)
        << args.matrices[s].rank;
  }
  CHECK_EQ(n, base.n);
}

}  // namespace

void LoraMerge(const LoraMergeArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  const GemmWeight::State& base = *args.base->state();
  LoraMergeWork work{.base = base.panels.data(),
                     .merged = args.merged->mutable_state()->panels.data(),
                     .n = base.n,
                     .k = base.k,
                     .dtype = base.dtype(),
                     .matrices = args.matrices,
                     .num_slices = args.num_slices};
  std::copy_n(args.slice_n, args.num_slices, work.slice_n);
  LoraMergeOnDevice(work, stream);
}

}  // namespace graft
