// A template's text cut into tokens, with Jinja's rules for white space around tags as Hugging Face
// sets them: trim_blocks and lstrip_blocks on, no trailing newline. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace graft::jinja {

enum class TokenKind : uint8_t {
  kEnd,
  kData,           // text outside of tags
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  // The final text of data and strings; names and operators as they were written.
  std::string text;
  int64_t integer = 0;
  double number = 0;

  bool Is(TokenKind wanted, std::string_view wanted_text) const {
    return kind == wanted && text == wanted_text;
  }
  bool IsOperator(std::string_view wanted) const { return Is(TokenKind::kOperator, wanted); }
  bool IsName(std::string_view wanted) const { return Is(TokenKind::kName, wanted); }
};

// The last token is kEnd. kInvalidArgument with the line for what is no template.
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace graft::jinja
