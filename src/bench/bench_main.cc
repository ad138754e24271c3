#include "bench/bench_commands.h"
#include "options/parser.h"

int main(int argc, char** argv) {
  return graft::RunProgram(graft::BenchProgram(), GRAFT_VERSION, argc, argv);
}
