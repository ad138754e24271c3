#include "request/adapter_name.h"

#include <algorithm>
#include <cstddef>

namespace graft {
namespace {

constexpr size_t kNameBytesMax = 200;

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

bool IsNameByte(char c) { return IsPlain(c) || c == ':' || c == '/' || c == '@'; }

}  // namespace

Status CheckAdapterName(const std::string& name) {
  if (!name.empty() && name.size() <= kNameBytesMax &&
      std::all_of(name.begin(), name.end(), IsNameByte)) {
    return OkStatus();
  }
  return InvalidArgumentError("an adapter's name has 1 to 200 letters, digits and . _ - : / @");
}

std::string AdapterNameFrom(const std::string& text) {
  std::string name = text.substr(0, kNameBytesMax);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !IsPlain(c); }, '-');
  return name;
}

}  // namespace graft
