// Messages of a program's start from before its log exists, for example about an environment
// variable that no command knows. The log writes them as warnings when it begins. If no log begins,
// the code that ends the program writes them. Main thread.
#pragma once

#include <string>
#include <vector>

namespace graft {

void NoteAtStart(std::string note);
// Those so far, which are the caller's to say.
std::vector<std::string> TakeStartNotes();

}  // namespace graft
