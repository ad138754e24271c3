#include "kernels/virtual_embedding/virtual_embedding.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(VirtualEmbedding, VirtualEmbeddingArgs)

namespace {

void CheckArgs(const VirtualEmbeddingArgs& args, const Stream& stream) {
  CHECK_GE(args.num_runs, 0);
  CHECK_GT(args.n, 0);
  if (args.num_runs == 0) return;
  CHECK(args.table != nullptr && args.runs != nullptr && args.out != nullptr);
  if (!stream.device.is_cpu()) return;
  for (int32_t i = 0; i < args.num_runs; ++i) {
    const VirtualRun& run = args.runs[i];
    CHECK(run.token_begin >= 0 && run.token_begin < run.token_end && run.place >= 0) << "run " << i;
    CHECK_LE(run.token_end - run.token_begin, args.run_tokens_max) << "run " << i;
    CHECK(args.table[run.adapter_slot] != nullptr)
        << "slot " << run.adapter_slot << " has no virtual tokens";
  }
}

}  // namespace

void VirtualEmbedding(const VirtualEmbeddingArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  VirtualEmbeddingOnDevice(args, stream);
}

}  // namespace graft
