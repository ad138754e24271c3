// PrefixIndex: which runners have a prompt's leading pages cached, as far as is known. For each
// class of names (base/prefix_hash.h) it has the runners with a prefix of that class, as bits. So a
// choice looks at one row of bits for each page of the prompt, and at no runner that lacks the
// first page. Memory comes with the first prefix: 512 KB for up to 64 runners and for each 64 more,
// and 16 KB for each runner that has any prefix. It does not grow further. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace graft {

class PrefixIndex {
 public:
  void SetNumRunners(size_t num_runners);
  // All that the runner says it has, as PrefixDigest::Read gives it, instead of what was known but
  // for what was added since the last time: that may not have been computed yet.
  void Set(size_t runner, std::span<const uint64_t> words);
  // Pages that the runner is about to compute.
  void Add(size_t runner, std::span<const uint64_t> names);
  void Clear(size_t runner);

  // How many of the prompt's leading pages each runner has; empty: none has any.
  std::vector<int32_t> Match(std::span<const uint64_t> names) const;
  int32_t MatchOn(size_t runner, std::span<const uint64_t> names) const;
  // Memory that the index takes.
  size_t num_bytes() const;

 private:
  std::span<uint64_t> Row(size_t idx) { return std::span(rows_).subspan(idx * width_, width_); }
  std::span<const uint64_t> Row(size_t idx) const {
    return std::span(rows_).subspan(idx * width_, width_);
  }
  bool Has(size_t runner, uint64_t name) const;
  void Begin(size_t runner);
  void Flip(size_t runner, size_t word, uint64_t bits);

  size_t num_runners_ = 0;
  size_t width_ = 0;                          // words of a row
  std::vector<uint64_t> rows_;                // [kPrefixClasses][width_]; empty: nothing is known
  std::vector<std::vector<uint64_t>> said_;   // by runner, [kPrefixClassWords]; empty: nothing
  std::vector<std::vector<uint64_t>> added_;  // as said_, but only what was added since Set
};

}  // namespace graft
