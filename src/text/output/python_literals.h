// Python's literals as JSON. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

namespace graft {

// Reads a text of Python from its start. Each function takes what it names and the white space
// behind it, and gives false where something else comes.
class PythonText {
 public:
  explicit PythonText(std::string_view text) : rest_(text) { SkipSpace(); }

  bool Take(char c);
  bool Peek(char c) const { return !rest_.empty() && rest_.front() == c; }
  bool at_end() const { return rest_.empty(); }
  // Letters, digits, and what else the names of tools have.
  bool TakeName(std::string* name);
  // Strings, numbers, True, False, None, lists, tuples and dicts; JSON's words for them, too.
  bool TakeValue(std::string* json, int depth = 0);

 private:
  void SkipSpace();
  bool TakeString(std::string* text);
  bool TakeEscape(std::string* text);
  bool TakeHex(size_t digits, std::string* text, bool is_byte);
  bool TakeNumber(std::string* json);
  bool TakeWord(std::string* json);
  bool TakeSequence(char open, char close, std::string* json, int depth);
  bool TakeDict(std::string* json, int depth);

  std::string_view rest_;
};

}  // namespace graft
