#include "text/output/json_scanner.h"

#include <cctype>

#include "base/json.h"
#include "base/strings.h"

namespace graft {
void AppendStringByte(char c, std::string* out) {
  if (static_cast<unsigned char>(c) >= 0x20) {
    *out += c;
    return;
  }
  const std::string quoted = JsonString({&c, 1});
  out->append(quoted, 1, quoted.size() - 2);
}

JsonScanner::Step JsonScanner::Push(char c) {
  switch (state_) {
    case State::kString:
    case State::kEscape:
    case State::kHex:
      return PushString(c);
    case State::kLiteral:
      if (c != literal_.front()) return Step::kBroken;
      literal_.remove_prefix(1);
      return literal_.empty() ? EndValue() : Step::kMore;
    case State::kValue:
    case State::kValueOrEnd:
      return PushValue(c);
    case State::kKeyOrEnd:
    case State::kKey:
    case State::kColon:
    case State::kCommaOrEnd:
      return PushStructure(c);
    default:
      return PushNumber(c);
  }
}

JsonScanner::Step JsonScanner::PushValue(char c) {
  if (IsJsonSpace(c)) return Step::kMore;
  if (c == ']' && state_ == State::kValueOrEnd) return Close('[');
  if (c == '{' || c == '[') return Open(c);
  if (c == '"') {
    is_key_ = false;
    state_ = State::kString;
    return Step::kMore;
  }
  for (const std::string_view literal : {"true", "false", "null"}) {
    if (c != literal.front()) continue;
    literal_ = literal.substr(1);
    state_ = State::kLiteral;
    return Step::kMore;
  }
  if (c == '-') {
    state_ = State::kMinus;
  } else if (IsAsciiDigit(c)) {
    state_ = c == '0' ? State::kZero : State::kInteger;
  } else {
    return Step::kBroken;
  }
  return Step::kMore;
}

JsonScanner::Step JsonScanner::PushStructure(char c) {
  if (IsJsonSpace(c)) return Step::kMore;
  if (state_ == State::kColon) {
    state_ = State::kValue;
    return c == ':' ? Step::kMore : Step::kBroken;
  }
  if (state_ == State::kCommaOrEnd) {
    const bool is_object = brackets_.back() == '{';
    if (c == (is_object ? '}' : ']')) return Close(brackets_.back());
    state_ = is_object ? State::kKey : State::kValue;
    return c == ',' ? Step::kMore : Step::kBroken;
  }
  if (c == '}' && state_ == State::kKeyOrEnd) return Close('{');
  is_key_ = true;
  state_ = State::kString;
  return c == '"' ? Step::kMore : Step::kBroken;
}

JsonScanner::Step JsonScanner::PushString(char c) {
  if (state_ == State::kHex) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return Step::kBroken;
    if (--hex_left_ == 0) state_ = State::kString;
  } else if (state_ == State::kEscape) {
    if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) return Step::kBroken;
    hex_left_ = 4;
    state_ = c == 'u' ? State::kHex : State::kString;
  } else if (c == '\\') {
    state_ = State::kEscape;
  } else if (c == '"') {
    if (!is_key_) return EndValue();
    state_ = State::kColon;
  }
  return Step::kMore;
}

JsonScanner::Step JsonScanner::PushNumber(char c) {
  const State state = state_;
  const bool is_digit = IsAsciiDigit(c);
  if (state == State::kMinus && is_digit) {
    state_ = c == '0' ? State::kZero : State::kInteger;
    return Step::kMore;
  }
  if (state == State::kPoint && is_digit) state_ = State::kFraction;
  if ((state == State::kExponent || state == State::kExponentSign) && is_digit) {
    state_ = State::kExponentDigits;
  }
  if (is_digit && state != State::kZero) return Step::kMore;
  if (state == State::kExponent && (c == '+' || c == '-')) {
    state_ = State::kExponentSign;
    return Step::kMore;
  }
  const bool is_integer = state == State::kZero || state == State::kInteger;
  if (is_integer && c == '.') {
    state_ = State::kPoint;
    return Step::kMore;
  }
  if ((is_integer || state == State::kFraction) && (c == 'e' || c == 'E')) {
    state_ = State::kExponent;
    return Step::kMore;
  }
  // The number ends here, or is none.
  if (!is_integer && state != State::kFraction && state != State::kExponentDigits) {
    return Step::kBroken;
  }
  if (EndValue() == Step::kEnd) return Step::kEndBefore;
  return Push(c);
}

JsonScanner::Step JsonScanner::Open(char bracket) {
  brackets_ += bracket;
  state_ = bracket == '{' ? State::kKeyOrEnd : State::kValueOrEnd;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::Close(char bracket) {
  if (brackets_.back() != bracket) return Step::kBroken;
  brackets_.pop_back();
  return EndValue();
}

JsonScanner::Step JsonScanner::EndValue() {
  if (brackets_.empty()) return Step::kEnd;
  state_ = State::kCommaOrEnd;
  return Step::kMore;
}

}  // namespace graft
