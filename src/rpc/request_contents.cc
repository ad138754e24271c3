#include "rpc/request_contents.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

namespace graft {
namespace {

constexpr size_t kSweptMin = 64;

bool IsSame(const SharedText& shared, const std::string& text) { return shared.text() == text; }
bool IsSame(const TokenSet& shared, std::span<const int32_t> tokens) {
  return std::equal(shared.begin(), shared.end(), tokens.begin(), tokens.end());
}

SharedText Make(const std::string& text) { return text; }
TokenSet Make(std::span<const int32_t> tokens) {
  return std::vector<int32_t>(tokens.begin(), tokens.end());
}

}  // namespace

template <typename Shared, typename Content>
Shared RequestContents::Find(const Content& content, size_t hash, Table<Shared>* table) {
  auto& by_hash = table->by_hash;
  const auto [begin, end] = by_hash.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    Shared shared = it->second.Lock();
    if (IsSame(shared, content)) return shared;
  }
  // Those that have gone meanwhile, each time there are twice as many as were left.
  if (by_hash.size() >= std::max(kSweptMin, 2 * table->swept_size)) {
    std::erase_if(by_hash, [](const auto& one) { return one.second.Lock().empty(); });
    table->swept_size = by_hash.size();
  }
  Shared shared = Make(content);
  by_hash.emplace(hash, typename Shared::Weak(shared));
  return shared;
}

SharedText RequestContents::TextOf(const std::string& text) {
  if (text.empty()) return {};
  return Find<SharedText>(text, std::hash<std::string>()(text), &texts_);
}

TokenSet RequestContents::TokensOf(std::span<const int32_t> tokens) {
  if (tokens.empty()) return {};
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return Find<TokenSet>(tokens, std::hash<std::string_view>()(bytes), &token_sets_);
}

}  // namespace graft
