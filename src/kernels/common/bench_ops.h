// One bench per op, each in its op_bench.cc; the table in bench_ops.cc names them.
#pragma once

#include "kernels/common/bench.h"

namespace graft {

void BenchGemm(OpBench& bench);
void BenchLora(OpBench& bench);

}  // namespace graft
