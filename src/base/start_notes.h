// What is to be said at a program's start before its log is there: an environment variable that no
// command knows, for one. The log that begins says it, as warnings; where none begins, whoever ends
// the program does. Main thread.
#pragma once

#include <string>
#include <vector>

namespace graft {

void NoteAtStart(std::string note);
// Those so far, which are the caller's to say.
std::vector<std::string> TakeStartNotes();

}  // namespace graft
