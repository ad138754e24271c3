#include "kernels/common/bench_ops.h"

namespace graft {
namespace {

struct NamedBench {
  const char* op;
  void (*run)(OpBench&);
};

constexpr NamedBench kBenches[] = {
    {"gemm", BenchGemm},
    {"lora", BenchLora},
    {"lora_merge", BenchLoraMerge},
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
                                 const OpBenchOptions& options) {
  OpBench bench(stream, options);
  for (const NamedBench& named : kBenches) {
    if (std::string(named.op).find(filter) == std::string::npos) continue;
    bench.SetOp(named.op);
    named.run(bench);
  }
  return bench.TakeRows();
}

}  // namespace graft
