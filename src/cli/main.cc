#include "cli/commands.h"
#include "options/parser.h"

int main(int argc, char** argv) {
  return graft::RunProgram(graft::GraftProgram(), GRAFT_VERSION, argc, argv);
}
