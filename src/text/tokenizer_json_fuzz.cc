// Any bytes as a tokenizer.json, and behind the first zero byte a text. A tokenizer that loads must
// encode valid UTF-8, and the text's pieces must join to what it decodes.
#include <algorithm>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(std::min(zero + 1, input.size()));
  const auto tokenizer = graft::Tokenizer::Parse(input.substr(0, zero), "");
  if (!tokenizer.ok()) return 0;
  const auto ids = (*tokenizer)->Encode(text, true);
  if (!ids.ok()) return 0;
  CHECK(graft::IsValidUtf8(text)) << "encoded a text that is not UTF-8";
  graft::Detokenizer detokenizer(**tokenizer, false);
  std::string joined;
  for (const int32_t id : *ids) {
    const std::string piece = detokenizer.Push(id);
    CHECK(graft::IsValidUtf8(piece)) << "a piece is not UTF-8";
    joined += piece;
    static_cast<void>((*tokenizer)->TokenBytes(id));
  }
  joined += detokenizer.Flush();
  CHECK_EQ(joined, (*tokenizer)->Decode(*ids, false));
  return 0;
}
