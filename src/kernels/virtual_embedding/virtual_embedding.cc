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
  if (stream.device.is_cpu()) CheckVirtualRuns(args);
}

}  // namespace

void VirtualEmbedding(const VirtualEmbeddingArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  VirtualEmbeddingOnDevice(args, stream);
}

}  // namespace graft
