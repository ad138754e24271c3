// assist-worker: one worker process of the CPU assist, started by the program itself
// (AssistWorkerCommand). Every program with servers has this command. Main thread.
#pragma once

#include "options/command.h"

namespace graft {

// Hidden from help.
Command AssistCommand();

}  // namespace graft
