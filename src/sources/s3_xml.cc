#include "sources/s3_xml.h"

#include <charconv>
#include <cstdint>
#include <utility>

namespace graft {
namespace {

constexpr size_t kEntityBytesMax = 12;  // "&#x0010FFFF;"

void AppendUtf8(uint32_t code, std::string* out) {
  const auto add = [out](uint32_t byte) { *out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | (code >> 18 & 7));
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

bool AppendEntity(std::string_view name, std::string* out) {
  constexpr std::pair<std::string_view, char> kEntities[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [entity, character] : kEntities) {
    if (name != entity) continue;
    *out += character;
    return true;
  }
  if (!name.starts_with('#')) return false;
  name.remove_prefix(1);
  const bool is_hex = name.starts_with('x');
  if (is_hex) name.remove_prefix(1);
  uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), code, is_hex ? 16 : 10);
  if (error != std::errc() || end != name.data() + name.size() || code == 0 || code > 0x10FFFF) {
    return false;
  }
  AppendUtf8(code, out);
  return true;
}

std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view ahead = text.substr(i, kEntityBytesMax);
    const size_t end = text[i] == '&' ? ahead.find(';') : text.npos;
    if (end != text.npos && AppendEntity(ahead.substr(1, end - 1), &out)) {
      i += end;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::vector<std::string_view> XmlElements(std::string_view xml, const std::string& tag) {
  const std::string open = "<" + tag + ">";
  const std::string close = "</" + tag + ">";
  std::vector<std::string_view> elements;
  for (size_t at = 0; (at = xml.find(open, at)) != xml.npos;) {
    const size_t begin = at + open.size();
    const size_t end = xml.find(close, begin);
    if (end == xml.npos) break;
    elements.push_back(xml.substr(begin, end - begin));
    at = end + close.size();
  }
  return elements;
}

std::string XmlText(std::string_view xml, const std::string& tag) {
  const std::string open = "<" + tag + ">";
  const size_t begin = xml.find(open);
  if (begin == xml.npos) return "";
  const size_t end = xml.find("</" + tag + ">", begin);
  if (end == xml.npos) return "";
  return Unescaped(xml.substr(begin + open.size(), end - begin - open.size()));
}

}  // namespace graft
