// One bench per op, each in its op_bench.cc; the table in bench_ops.cc names them.
#pragma once

#include "kernels/common/bench.h"

namespace graft {

void BenchAttention(OpBench& bench);
void BenchEmbedding(OpBench& bench);
void BenchGemm(OpBench& bench);
void BenchKvWrite(OpBench& bench);
void BenchLora(OpBench& bench);
void BenchRmsNorm(OpBench& bench);
void BenchRope(OpBench& bench);
void BenchSampling(OpBench& bench);
void BenchGatedActivation(OpBench& bench);

}  // namespace graft
