// JsonScanner reads one JSON value byte by byte. It reports where the value ends, or at once that
// it is not JSON. It accepts line feeds and other control characters within strings, which models
// write and JSON forbids; AppendStringByte writes them as escapes. One thread.
#pragma once

#include <string>
#include <string_view>

namespace graft {

class JsonScanner {
 public:
  enum class Step {
    kMore,
    kEnd,        // the byte was the value's last
    kEndBefore,  // the value, a number, ended before the byte
    kBroken,     // no JSON
  };

  Step Push(char c);
  // Whether the next byte lies in a string and is not its first.
  bool in_string() const { return state_ == State::kString; }

 private:
  enum class State {
    kValue,       // a value must come
    kValueOrEnd,  // after [
    kKeyOrEnd,    // after {
    kKey,         // after a comma in an object
    kColon,
    kCommaOrEnd,  // after a value in an object or a list
    kString,
    kEscape,
    kHex,
    kLiteral,
    kMinus,  // a number's parts, each named by what has come
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
  };

  Step PushValue(char c);
  Step PushStructure(char c);
  Step PushString(char c);
  Step PushNumber(char c);
  Step Open(char bracket);
  Step Close(char bracket);
  Step EndValue();

  State state_ = State::kValue;
  std::string brackets_;      // the open ones
  bool is_key_ = false;       // the string is a key
  int hex_left_ = 0;          // of kHex
  std::string_view literal_;  // what is left of kLiteral
};

// Adds a byte of a JSON string's inside; control characters become escapes.
void AppendStringByte(char c, std::string* out);

inline constexpr std::string_view kJsonSpace = " \t\n\r";
inline bool IsJsonSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace graft
