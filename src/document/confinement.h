// Walls around a child that is about to become another program, for confined_program.h alone: what
// may be called between vfork and exec.
#pragma once

namespace graft {

// Made before the child, closed by the caller; negative where the system has no such walls. With it
// ReadNoProc keeps the calling thread's process from opening anything in /proc.
int OpenFilesButProc();
void ReadNoProc(int files_but_proc);

// From here on no socket is made or used, and no other process looked into. Where the system cannot
// do it, nothing happens.
void ForbidSockets();

}  // namespace graft
