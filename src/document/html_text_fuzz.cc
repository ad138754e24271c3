// Any bytes as a page; the first byte chooses HTML or XHTML. The text must be UTF-8, no longer than
// character references can make it, and the number of steps linear in the page's bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "document/html_text.h"
#include "text/utf8.h"

namespace graft {
namespace {

std::string AsUtf8(std::string_view bytes) {
  std::string text;
  Utf8Stream stream;
  stream.Push(bytes, &text);
  stream.Flush(&text);
  std::erase(text, '\0');
  return text;
}

void Fuzz(std::string_view bytes) {
  if (bytes.empty()) return;
  const HtmlSyntax syntax = bytes[0] % 2 == 0 ? HtmlSyntax::kHtml : HtmlSyntax::kXhtml;
  const std::string page = AsUtf8(bytes.substr(1));
  HtmlWork work;
  const Result<std::string> text = HtmlText(page, syntax, nullptr, &work);
  if (!text.ok()) {
    CHECK(text.status().code() == StatusCode::kInvalidArgument);
    return;
  }
  CHECK(IsValidUtf8(*text));
  // A reference of two bytes stands for three at most, and a block for two line ends.
  const auto size = static_cast<int64_t>(page.size());
  CHECK(static_cast<int64_t>(text->size()) <= 3 * size);
  CHECK(work.tokens <= 5 * size + 1);  // a CDATA section's characters may be references
  CHECK(work.elements <= 2 * work.tokens);
  CHECK(work.looks <= 3 * work.tokens + 5 * size);
  CHECK(work.names_max <= 1600);
}

}  // namespace
}  // namespace graft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  graft::Fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
