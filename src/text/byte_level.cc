#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace graft {
namespace {

constexpr char32_t kAlphabetEnd = 0x144;
constexpr int16_t kNoByte = -1;

struct Alphabet {
  std::array<char32_t, 256> code_point;
  std::array<int16_t, kAlphabetEnd> byte;
};

// Printable Latin-1 stands for itself; the other bytes take the code points from U+0100 on.
constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet{};
  alphabet.byte.fill(kNoByte);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const char32_t code_point = printable ? static_cast<char32_t>(byte) : next++;
    alphabet.code_point[byte] = code_point;
    alphabet.byte[code_point] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

void AppendByteLevel(std::string_view bytes, std::string* text) {
  for (const char byte : bytes) {
    AppendCodePoint(kAlphabet.code_point[static_cast<unsigned char>(byte)], text);
  }
}

std::string BytesOfByteLevel(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const char32_t code_point = NextCodePoint(text, &pos);
    const int16_t byte = code_point < kAlphabetEnd ? kAlphabet.byte[code_point] : kNoByte;
    if (byte == kNoByte) return std::string(text);
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

}  // namespace graft
