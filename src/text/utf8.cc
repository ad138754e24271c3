#include "text/utf8.h"

#include <algorithm>
#include <cstring>

namespace graft {
namespace {

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// What stands at text[pos]: a whole code point of `bytes` bytes, the broken part of one, or the
// start of one that the end of the text cuts off.
enum class Utf8State { kWhole, kBroken, kCut };
struct Utf8Sequence {
  Utf8State state;
  size_t bytes;
};

// The Unicode standard's table of well-formed sequences (3-7): only the second byte's range varies.
Utf8Sequence ReadSequence(std::string_view text, size_t pos) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[pos + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {Utf8State::kWhole, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8State::kBroken, 1};
  const size_t length = Utf8Length(lead);
  const unsigned char second_min = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char second_max = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (pos + i == text.size()) return {Utf8State::kCut, i};
    const bool fits =
        i == 1 ? byte(1) >= second_min && byte(1) <= second_max : IsContinuation(byte(i));
    if (!fits) return {Utf8State::kBroken, i};
  }
  return {Utf8State::kWhole, length};
}

}  // namespace

void CutUtf8(size_t bytes_max, std::string* text) {
  if (text->size() <= bytes_max) return;
  constexpr size_t kContinuationsMax = 3;
  size_t end = bytes_max;
  for (size_t i = 0; i < kContinuationsMax && end > 0; ++i) {
    if ((static_cast<unsigned char>((*text)[end]) & 0xC0) != 0x80) break;
    --end;
  }
  text->resize(end);
}

bool IsAscii(std::string_view text) {
  unsigned char bits = 0;
  for (const char byte : text) bits |= static_cast<unsigned char>(byte);
  return bits < 0x80;
}

bool IsValidUtf8(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    uint64_t eight = 0;
    while (pos + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + pos, sizeof(eight));
      if ((eight & 0x8080808080808080) != 0) break;
      pos += sizeof(eight);
    }
    if (pos == text.size()) break;
    const Utf8Sequence sequence = ReadSequence(text, pos);
    if (sequence.state != Utf8State::kWhole) return false;
    pos += sequence.bytes;
  }
  return true;
}

char32_t NextCodePoint(std::string_view text, size_t* pos) {
  const auto lead = static_cast<unsigned char>(text[*pos]);
  const int length = Utf8Length(lead);
  if (length == 1) {
    ++*pos;
    return lead;
  }
  char32_t code_point = lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    code_point = code_point << 6 | (static_cast<unsigned char>(text[*pos + i]) & 0x3F);
  }
  *pos += length;
  return code_point;
}

char32_t PreviousCodePoint(std::string_view text, size_t* pos) {
  size_t start = *pos - 1;
  while (start > 0 && IsContinuation(static_cast<unsigned char>(text[start]))) --start;
  *pos = start;
  return NextCodePoint(text, &start);
}

int64_t CountCodePoints(std::string_view text) {
  return std::ranges::count_if(
      text, [](char c) { return !IsContinuation(static_cast<unsigned char>(c)); });
}

void AppendCodePoint(char32_t code_point, std::string* text) {
  const auto append = [&](char32_t byte) { text->push_back(static_cast<char>(byte)); };
  const auto append_tail = [&](int shift) { append(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xC0 | code_point >> 6);
    append_tail(0);
  } else if (code_point < 0x10000) {
    append(0xE0 | code_point >> 12);
    append_tail(6);
    append_tail(0);
  } else {
    append(0xF0 | code_point >> 18);
    append_tail(12);
    append_tail(6);
    append_tail(0);
  }
}

void Utf8Stream::Push(std::string_view bytes, std::string* out) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_.append(bytes);
    held_.clear();
    bytes = joined;
  }
  size_t pos = 0;
  while (pos < bytes.size()) {
    const Utf8Sequence sequence = ReadSequence(bytes, pos);
    if (sequence.state == Utf8State::kCut) {
      held_ = bytes.substr(pos);
      return;
    }
    out->append(sequence.state == Utf8State::kWhole ? bytes.substr(pos, sequence.bytes)
                                                    : kReplacementCharacter);
    pos += sequence.bytes;
  }
}

void Utf8Stream::Flush(std::string* out) {
  if (!held_.empty()) out->append(kReplacementCharacter);
  held_.clear();
}

}  // namespace graft
