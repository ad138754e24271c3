#include "base/prefix_hash.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/random.h"

namespace graft {
namespace {

uint64_t NameOfText(uint64_t before, std::string_view text) {
  uint64_t name = RandomBits(before, text.size());
  for (; !text.empty(); text.remove_prefix(std::min<size_t>(8, text.size()))) {
    uint64_t word = 0;
    std::memcpy(&word, text.data(), std::min<size_t>(8, text.size()));
    name = RandomBits(name, word);
  }
  return name;
}

}  // namespace

uint64_t EmptyPrefixName(std::string_view tenant, std::string_view adapter_hash,
                         int32_t active_from, int32_t page_tokens) {
  const uint64_t sizes =
      (uint64_t{static_cast<uint32_t>(active_from)} << 32) | static_cast<uint32_t>(page_tokens);
  return RandomBits(NameOfText(NameOfText(0, tenant), adapter_hash), sizes);
}

uint64_t NextPrefixName(uint64_t before, std::span<const int32_t> page) {
  uint64_t name = RandomBits(before, page.size());
  size_t i = 0;
  for (; i + 2 <= page.size(); i += 2) {
    const uint64_t high = static_cast<uint32_t>(page[i + 1]);
    name = RandomBits(name, (high << 32) | static_cast<uint32_t>(page[i]));
  }
  return i == page.size() ? name : RandomBits(name, static_cast<uint32_t>(page[i]));
}

std::vector<uint64_t> PrefixNames(uint64_t empty, std::span<const int32_t> tokens,
                                  int32_t page_tokens, size_t pages_max) {
  CHECK_GT(page_tokens, 0);
  const auto size = static_cast<size_t>(page_tokens);
  std::vector<uint64_t> names(std::min(pages_max, tokens.size() / size));
  for (size_t i = 0; i < names.size(); ++i) {
    names[i] = NextPrefixName(i == 0 ? empty : names[i - 1], tokens.subspan(i * size, size));
  }
  return names;
}

}  // namespace graft
