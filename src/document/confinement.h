// Walls around a child that is about to become another program, for confined_program.h alone: what
// may be called between vfork and exec.
#pragma once

namespace graft {

// Made before the child, closed by the caller; negative where the system has no such walls. Behind
// them the calling thread's process opens nothing in /proc, and nothing to write to but
// /dev/null.
int MakeFileWalls();
void RaiseFileWalls(int walls);

// From here on no socket is made or used, no other process looked into, signalled or limited, and
// no file emptied, renamed, removed or given other rights: such a call fails, and the program goes
// on. Where the system cannot do it, nothing happens.
void ForbidCalls();

}  // namespace graft
