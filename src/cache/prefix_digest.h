// PrefixDigest: in 8 KB, which prefixes a PrefixTree has, for a frontend that places requests.
// There is a bit for each class of prefix names (base/prefix_hash.h), set if any of the tree's
// pages is in the class. It is a Bloom filter of one hash: a bit may be another prefix's, but a
// search for several pages in a row is rarely wrong by more than one page. The engine thread
// writes, any thread reads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/prefix_hash.h"

namespace graft {

class PrefixDigest {
 public:
  PrefixDigest() : counts_(kPrefixClasses) {}

  void Add(uint64_t name) {
    const size_t idx = PrefixClass(name);
    if (counts_[idx]++ == 0) Flip(idx);
    ++num_names_;
  }
  void Remove(uint64_t name) {
    const size_t idx = PrefixClass(name);
    CHECK_GT(counts_[idx], 0u) << "a prefix that was never added";
    if (--counts_[idx] == 0) Flip(idx);
    --num_names_;
  }
  // Has and num_names are for the engine thread.
  bool Has(uint64_t name) const { return counts_[PrefixClass(name)] > 0; }
  int64_t num_names() const { return num_names_; }
  // kPrefixClassWords words, the first class in the lowest bit of the first.
  std::vector<uint64_t> Read() const {
    std::vector<uint64_t> words(kPrefixClassWords);
    for (size_t i = 0; i < words.size(); ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    return words;
  }

 private:
  void Flip(size_t idx) {
    std::atomic<uint64_t>& word = words_[idx / 64];
    word.store(word.load(std::memory_order_relaxed) ^ (uint64_t{1} << idx % 64),
               std::memory_order_relaxed);
  }

  std::vector<uint32_t> counts_;  // of names, by class; the engine thread's
  int64_t num_names_ = 0;         // the engine thread's
  std::array<std::atomic<uint64_t>, kPrefixClassWords> words_{};
};

}  // namespace graft
