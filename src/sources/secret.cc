#include "sources/secret.h"

#include <sys/prctl.h>

#include <algorithm>

namespace graft {
namespace {

constexpr size_t kPeopleBytesMax = 300;

}  // namespace

void Secret::Wipe(std::string* text) {
  volatile char* const bytes = text->data();
  for (size_t i = 0; i < text->capacity(); ++i) bytes[i] = 0;
  text->clear();
}

std::string ForPeople(std::string_view text, const std::vector<const Secret*>& secrets) {
  std::string said(text.substr(0, 4096));
  for (const Secret* const secret : secrets) {
    if (secret == nullptr || secret->empty()) continue;
    const std::string& hidden = secret->Reveal();
    for (size_t at = 0; (at = said.find(hidden, at)) != std::string::npos; at += 3) {
      said.replace(at, hidden.size(), "***");
    }
  }
  std::replace_if(
      said.begin(), said.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  if (said.size() > kPeopleBytesMax) said = said.substr(0, kPeopleBytesMax) + " ...";
  return said;
}

void LeaveNoCoreFile() { prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

}  // namespace graft
