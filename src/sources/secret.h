// Secret: a token or a key of a source. It has no way into a log or a message but Reveal, and
// what calls that hands it to libcurl; its memory is wiped when it goes. Plain data.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graft {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(const Secret&) = default;
  Secret(Secret&&) = default;
  Secret& operator=(const Secret&) = default;
  Secret& operator=(Secret&&) = default;
  ~Secret() { Wipe(&text_); }

  bool empty() const { return text_.empty(); }
  const std::string& Reveal() const { return text_; }

  // Overwrites what a text holds, its spare room too, and empties it.
  static void Wipe(std::string* text);

 private:
  std::string text_;
};

// What a server said, fit for a message: without control characters, cut, and with "***" in the
// place of each of `secrets`, which a server may have sent back.
std::string ForPeople(std::string_view text, const std::vector<const Secret*>& secrets);

// From now on this process and its children leave no core file: their memory, the environment among
// it, has secrets.
void LeaveNoCoreFile();

}  // namespace graft
