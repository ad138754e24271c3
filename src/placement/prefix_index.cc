#include "placement/prefix_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/prefix_hash.h"

namespace graft {
namespace {

constexpr size_t kIndexWordBits = 64;

uint64_t IndexBit(size_t idx) { return uint64_t{1} << idx % kIndexWordBits; }

}  // namespace

void PrefixIndex::SetNumRunners(size_t num_runners) {
  CHECK_GE(num_runners, num_runners_);
  num_runners_ = num_runners;
  said_.resize(num_runners);
  added_.resize(num_runners);
  const size_t width = (num_runners + kIndexWordBits - 1) / kIndexWordBits;
  if (width == width_) return;
  const size_t before = std::exchange(width_, width);
  if (rows_.empty()) return;
  const std::vector<uint64_t> narrow = std::exchange(rows_, {});
  rows_.resize(kPrefixClasses * width);
  for (size_t i = 0; i < kPrefixClasses; ++i) {
    std::copy_n(narrow.begin() + static_cast<ptrdiff_t>(i * before), before, Row(i).begin());
  }
}

void PrefixIndex::Begin(size_t runner) {
  if (rows_.empty()) rows_.resize(kPrefixClasses * width_);
  if (!said_[runner].empty()) return;
  said_[runner].resize(kPrefixClassWords);
  added_[runner].resize(kPrefixClassWords);
}

// Flips bits in one word of what the runner said.
void PrefixIndex::Flip(size_t runner, size_t word, uint64_t bits) {
  said_[runner][word] ^= bits;
  for (; bits != 0; bits &= bits - 1) {
    const size_t idx = word * kIndexWordBits + static_cast<size_t>(std::countr_zero(bits));
    Row(idx)[runner / kIndexWordBits] ^= IndexBit(runner);
  }
}

void PrefixIndex::Set(size_t runner, std::span<const uint64_t> words) {
  CHECK_EQ(words.size(), kPrefixClassWords);
  Begin(runner);
  for (size_t i = 0; i < words.size(); ++i) {
    const uint64_t has = words[i] | std::exchange(added_[runner][i], 0);
    Flip(runner, i, said_[runner][i] ^ has);
  }
}

void PrefixIndex::Add(size_t runner, std::span<const uint64_t> names) {
  if (names.empty()) return;
  Begin(runner);
  for (const uint64_t name : names) {
    const size_t word = PrefixClass(name) / kIndexWordBits;
    const uint64_t bit = IndexBit(PrefixClass(name));
    added_[runner][word] |= bit;
    if (!Has(runner, name)) Flip(runner, word, bit);
  }
}

void PrefixIndex::Clear(size_t runner) {
  if (said_[runner].empty()) return;
  for (size_t i = 0; i < kPrefixClassWords; ++i) Flip(runner, i, said_[runner][i]);
  said_[runner] = {};
  added_[runner] = {};
}

bool PrefixIndex::Has(size_t runner, uint64_t name) const {
  const std::vector<uint64_t>& said = said_[runner];
  return !said.empty() &&
         (said[PrefixClass(name) / kIndexWordBits] & IndexBit(PrefixClass(name))) != 0;
}

int32_t PrefixIndex::MatchOn(size_t runner, std::span<const uint64_t> names) const {
  int32_t num_pages = 0;
  for (const uint64_t name : names) {
    if (!Has(runner, name)) break;
    ++num_pages;
  }
  return num_pages;
}

size_t PrefixIndex::num_bytes() const {
  size_t num_words = rows_.capacity();
  for (const auto* const lists : {&said_, &added_}) {
    for (const std::vector<uint64_t>& words : *lists) num_words += words.capacity();
  }
  return num_words * sizeof(uint64_t);
}

// A runner is written once, at the page that it lacks, as all may have a prompt's first pages.
std::vector<int32_t> PrefixIndex::Match(std::span<const uint64_t> names) const {
  if (rows_.empty() || names.empty()) return {};
  const std::span<const uint64_t> first = Row(PrefixClass(names[0]));
  if (std::all_of(first.begin(), first.end(), [](uint64_t word) { return word == 0; })) return {};
  std::vector<uint64_t> having(first.begin(), first.end());
  std::vector<int32_t> pages(num_runners_, 0);
  bool has_any = true;
  for (size_t num_pages = 1; has_any; ++num_pages) {
    const bool is_last = num_pages == names.size();
    const std::span<const uint64_t> next = Row(is_last ? 0 : PrefixClass(names[num_pages]));
    has_any = false;
    for (size_t i = 0; i < width_; ++i) {
      const uint64_t keep = is_last ? 0 : having[i] & next[i];
      for (uint64_t bits = having[i] & ~keep; bits != 0; bits &= bits - 1) {
        pages[i * kIndexWordBits + static_cast<size_t>(std::countr_zero(bits))] =
            static_cast<int32_t>(num_pages);
      }
      having[i] = keep;
      has_any |= keep != 0;
    }
  }
  return pages;
}

}  // namespace graft
