// Walls around a child that is about to become another program, for confined_program.h alone: what
// may be called between vfork and exec.
#pragma once

namespace graft {

// Makes the walls around files before the child starts; the caller closes the descriptor. Negative
// if the system has no such walls. Behind them the calling thread's process can open nothing in
// /proc, and nothing to write to except /dev/null.
int MakeFileWalls();
void RaiseFileWalls(int walls);

// From here on these calls fail, and the program goes on: making or using sockets; looking into,
// signalling or limiting other processes; emptying, renaming or removing files, or changing their
// rights. Does nothing if the system cannot forbid calls.
void ForbidCalls();

}  // namespace graft
