// Hashes that name the leading tokens of a prompt, page by page, the same on all machines. A runner
// tells which prefixes it has cached, and a frontend looks for those of a prompt. They only guide
// placement: if two prompts have the same name by chance, one is placed worse, and no data is
// shared. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace graft {

// Names fall into so many classes, of which a runner tells those that it has.
inline constexpr size_t kPrefixClasses = 65536;
inline constexpr size_t kPrefixClassWords = kPrefixClasses / 64;
// So many of a prompt's leading pages are looked for.
inline constexpr size_t kPrefixPagesMax = 256;
inline size_t PrefixClass(uint64_t name) { return static_cast<size_t>(name >> 48); }

// The name of no tokens, for one tenant's requests on one adapter's content ("": the base model)
// that acts from this position on, in pages of so many tokens.
uint64_t EmptyPrefixName(std::string_view tenant, std::string_view adapter_hash,
                         int32_t active_from, int32_t page_tokens);
// The name once one page of tokens follows.
uint64_t NextPrefixName(uint64_t before, std::span<const int32_t> page);

// The names of one page of `tokens`, of two, and so on, `pages_max` at most; of whole pages alone.
std::vector<uint64_t> PrefixNames(uint64_t empty, std::span<const int32_t> tokens,
                                  int32_t page_tokens, size_t pages_max);

}  // namespace graft
