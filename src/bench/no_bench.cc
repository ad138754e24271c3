// graft bench where it is left out (GRAFT_BENCH=OFF).
#include "bench/bench.h"
#include "options/left_out.h"

namespace graft {

Command BenchCommand() { return LeftOutCommand("bench", "Measure kernels and serving"); }

}  // namespace graft
