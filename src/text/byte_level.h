// GPT-2's printable alphabet for bytes: each of the 256 bytes is one code point below U+0144, so
// that a vocabulary of byte strings can be written as text. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace graft {

// Appends the code points that stand for the bytes.
void AppendByteLevel(std::string_view bytes, std::string* text);

// The bytes that `text` stands for; a text with any other code point stands for itself.
std::string BytesOfByteLevel(std::string_view text);

}  // namespace graft
