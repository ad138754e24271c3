#include "kernels/common/bench_ops.h"

namespace graft {
namespace {

constexpr NamedOpBench kBenches[] = {
    {"gemm", BenchGemm},
    {"lora", BenchLora},
    {"attention", BenchAttention},
    {"rms_norm", BenchRmsNorm},
    {"rope", BenchRope},
    {"kv_write", BenchKvWrite},
    {"gated_activation", BenchGatedActivation},
    {"embedding", BenchEmbedding},
    {"sampling", BenchSampling},
};

}  // namespace

std::vector<OpBenchRow> BenchOps(const std::string& filter, Stream& stream,
                                 const OpBenchOptions& options,
                                 std::span<const NamedOpBench> more) {
  OpBench bench(stream, options);
  for (const std::span<const NamedOpBench> benches :
       {std::span<const NamedOpBench>(kBenches), more}) {
    for (const NamedOpBench& named : benches) {
      if (std::string(named.op).find(filter) == std::string::npos) continue;
      bench.SetOp(named.op);
      named.run(bench);
    }
  }
  return bench.TakeRows();
}

}  // namespace graft
