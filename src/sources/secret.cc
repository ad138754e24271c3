#include "sources/secret.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>

namespace graft {
namespace {

constexpr size_t kPeopleBytesMax = 300;

// How many bytes of a secret `text` begins with; of the longest one, where several fit.
size_t HiddenBytes(std::string_view text, const std::vector<const Secret*>& secrets) {
  size_t bytes = 0;
  for (const Secret* const secret : secrets) {
    if (secret == nullptr || !text.starts_with(secret->Reveal())) continue;
    bytes = std::max(bytes, secret->Reveal().size());
  }
  return bytes;
}

}  // namespace

void Secret::Wipe(std::string* text) {
  volatile char* const bytes = text->data();
  for (size_t i = 0; i < text->capacity(); ++i) bytes[i] = 0;
  text->clear();
}

std::string ForPeople(std::string_view text, const std::vector<const Secret*>& secrets) {
  std::string said;
  // Secrets are looked for in the whole text: a cut before that could leave a part of one.
  for (size_t i = 0; i < text.size() && said.size() <= kPeopleBytesMax;) {
    const size_t hidden = HiddenBytes(text.substr(i), secrets);
    const bool is_control = static_cast<unsigned char>(text[i]) < 0x20 || text[i] == 0x7F;
    said += hidden > 0 ? "***" : std::string(1, is_control ? ' ' : text[i]);
    i += std::max<size_t>(hidden, 1);
  }
  if (said.size() > kPeopleBytesMax) said = said.substr(0, kPeopleBytesMax) + " ...";
  return said;
}

void LeaveNoCoreFile() {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // An exec makes a process dumpable again, and its environment has the same secrets.
  const rlimit none{};
  setrlimit(RLIMIT_CORE, &none);
}

}  // namespace graft
