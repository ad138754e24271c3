#include "base/start_notes.h"

#include <utility>

namespace graft {
namespace {

std::vector<std::string>& Notes() {
  static std::vector<std::string> notes;
  return notes;
}

}  // namespace

void NoteAtStart(std::string note) { Notes().push_back(std::move(note)); }

std::vector<std::string> TakeStartNotes() { return std::exchange(Notes(), {}); }

}  // namespace graft
