// What is to be said at a program's start before its log is there: an environment variable that no
// command knows, for one. The log writes it as warnings when it begins; if none begins, the code
// that ends the program does. Main thread.
#pragma once

#include <string>
#include <vector>

namespace graft {

void NoteAtStart(std::string note);
// Those so far, which are the caller's to say.
std::vector<std::string> TakeStartNotes();

}  // namespace graft
