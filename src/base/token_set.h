// A set of token ids that its copies share: a request's choices, their samplers and what is sent to
// a runner hold one list, however many they are. Immutable; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace graft {

class TokenSet {
 public:
  TokenSet() = default;
  // In whatever order, and as often as they come.
  TokenSet(std::vector<int32_t> tokens) {  // NOLINT: implicit by design
    if (tokens.empty()) return;
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    tokens.shrink_to_fit();
    tokens_ = std::make_shared<const std::vector<int32_t>>(std::move(tokens));
  }
  TokenSet(std::initializer_list<int32_t> tokens) : TokenSet(std::vector<int32_t>(tokens)) {}

  bool empty() const { return tokens_ == nullptr; }
  size_t size() const { return empty() ? 0 : tokens_->size(); }
  // Ascending, each once.
  const int32_t* begin() const { return empty() ? nullptr : tokens_->data(); }
  const int32_t* end() const { return begin() + size(); }

  // Finds the set again while a copy of it lives.
  class Weak {
   public:
    explicit Weak(const TokenSet& set) : tokens_(set.tokens_) {}
    // Empty: none does any more.
    TokenSet Lock() const {
      TokenSet set;
      set.tokens_ = tokens_.lock();
      return set;
    }

   private:
    std::weak_ptr<const std::vector<int32_t>> tokens_;
  };

  friend bool operator==(const TokenSet& a, const TokenSet& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::shared_ptr<const std::vector<int32_t>> tokens_;  // shared, since copies are; null: no token
};

}  // namespace graft
