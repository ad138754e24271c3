// graft bench and graft profile where they are left out (GRAFT_BENCH=OFF).
#include "bench/bench.h"
#include "options/left_out.h"

namespace graft {

Command BenchCommand() { return LeftOutCommand("bench", "Measure kernels and serving"); }
Command ProfileCommand() { return LeftOutCommand("profile", "Measure what steps take"); }

}  // namespace graft
