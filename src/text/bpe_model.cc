#include "text/bpe_model.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "base/unwanted_work.h"
#include "text/byte_level.h"
#include "text/utf8.h"

namespace graft {
namespace {

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Fibonacci hashing: the product's upper half depends on all bits of the key.
size_t PairHash(uint64_t pair) { return (pair * 0x9E3779B97F4A7C15) >> 32; }

constexpr std::string_view kBpeMetaspace = "\xE2\x96\x81";  // U+2581

// Where the piece of `text` that begins at `begin` ends: before a U+2581 that follows something
// else.
size_t EndBeforeMetaspace(std::string_view text, size_t begin) {
  size_t pos = begin;
  while (text.substr(pos).starts_with(kBpeMetaspace)) pos += kBpeMetaspace.size();
  return std::min(text.find(kBpeMetaspace, pos), text.size());
}

std::string ByteToken(int byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
  return text.data();
}

}  // namespace

Result<std::unique_ptr<BpeModel>> BpeModel::Build(BpeSpec spec) {
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Build(std::move(spec.vocabulary)));
  std::unique_ptr<BpeModel> model(new BpeModel(std::move(vocabulary)));
  RETURN_IF_ERROR(model->AddMerges(spec.merges));
  if (spec.unk_token.has_value()) {
    const std::optional<int32_t> unk_id = model->TokenId(*spec.unk_token);
    if (!unk_id.has_value()) {
      return InvalidArgumentError("unk_token '" + *spec.unk_token + "' is not in the vocabulary");
    }
    model->unk_id_ = *unk_id;
  }
  model->fuse_unk_ = spec.fuse_unk;
  model->byte_fallback_ = spec.byte_fallback;
  model->ignore_merges_ = spec.ignore_merges;
  model->cuts_at_metaspace_ = model->NoMergeCrossesIntoMetaspace(spec.merges);
  model->IndexCodePoints();
  return model;
}

Status BpeModel::AddMerges(const std::vector<std::pair<std::string, std::string>>& merges) {
  merges_.resize(std::bit_ceil(2 * merges.size() + 1));
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    joined.assign(left).append(right);
    const std::optional<int32_t> left_id = TokenId(left);
    const std::optional<int32_t> right_id = TokenId(right);
    const std::optional<int32_t> joined_id = TokenId(joined);
    if (!left_id || !right_id || !joined_id) {
      return InvalidArgumentError("merge " + std::to_string(rank) + " ('" + left + "', '" + right +
                                  "') is of or makes a token that the vocabulary does not hold");
    }
    InsertMerge({PairKey(*left_id, *right_id), static_cast<int32_t>(rank), *joined_id});
  }
  return OkStatus();
}

// A pair that comes twice has its last rank, as in HF's hash map.
void BpeModel::InsertMerge(const Merge& merge) {
  const size_t mask = merges_.size() - 1;
  size_t slot = PairHash(merge.pair) & mask;
  while (merges_[slot].rank != kNone && merges_[slot].pair != merge.pair) slot = (slot + 1) & mask;
  merges_[slot] = merge;
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const uint64_t pair = PairKey(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t slot = PairHash(pair) & mask; merges_[slot].rank != kNone; slot = (slot + 1) & mask) {
    if (merges_[slot].pair == pair) return &merges_[slot];
  }
  return nullptr;
}

void BpeModel::IndexCodePoints() {
  for (char32_t c = 0; c < kDirectEnd; ++c) {
    std::string text;
    AppendCodePoint(c, &text);
    direct_ids_[c] = TokenId(text).value_or(kNone);
  }
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = TokenId(ByteToken(byte)).value_or(kNone);
  }
}

bool BpeModel::NoMergeCrossesIntoMetaspace(
    const std::vector<std::pair<std::string, std::string>>& merges) const {
  const auto stays_out = [](const auto& merge) {
    return !merge.second.starts_with(kBpeMetaspace) || merge.first.ends_with(kBpeMetaspace);
  };
  // Where unknown characters leave nothing behind, the tokens on both sides of them may merge.
  return unk_id_ != kNone && TokenId(kBpeMetaspace).has_value() &&
         std::all_of(merges.begin(), merges.end(), stays_out);
}

std::optional<std::bitset<256>> BpeModel::DroppedBytes(bool byte_level) const {
  std::bitset<256> dropped;
  if (unk_id_ != kNone && !fuse_unk_) return dropped;
  for (int byte = 0; byte < 256; ++byte) {
    const bool in_utf8 = byte < 0xC0 || (byte > 0xC1 && byte < 0xF5);
    if (!byte_level && (!byte_fallback_ || byte_ids_[byte] == kNone)) return std::nullopt;
    if (!byte_level || !in_utf8) continue;
    const char character = static_cast<char>(byte);
    std::string spelled;
    AppendByteLevel({&character, 1}, &spelled);
    size_t pos = 0;
    dropped[byte] = direct_ids_[NextCodePoint(spelled, &pos)] == kNone;
  }
  return dropped;
}

Status BpeModel::Encode(std::span<const Word> words, std::vector<int32_t>* ids) const {
  constexpr size_t kWordsPerQuestion = 1024;
  Workspace workspace;
  size_t num_words = 0;
  for (const Word& word : words) {
    if (num_words++ % kWordsPerQuestion == 0 && WorkIsUnwanted()) return UnwantedWork();
    if (ignore_merges_) {
      const std::optional<int32_t> id = TokenId(word.text);
      if (id.has_value()) {
        ids->push_back(*id);
        continue;
      }
    }
    const std::string_view text = word.text;
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      end = cuts_at_metaspace_ ? EndBeforeMetaspace(text, begin) : text.size();
      EncodeCached(text.substr(begin, end - begin), &workspace, ids);
    }
  }
  return OkStatus();
}

void BpeModel::EncodeCached(std::string_view word, Workspace* workspace,
                            std::vector<int32_t>* ids) const {
  if (cache_.Find(word, ids)) return;
  const size_t before = ids->size();
  EncodeWord(word, workspace, ids);
  cache_.Insert(word, ids->data() + before, ids->size() - before);
}

void BpeModel::EncodeWord(std::string_view word, Workspace* workspace,
                          std::vector<int32_t>* ids) const {
  SplitIntoSymbols(word, &workspace->symbols);
  MergeSymbols(workspace);
  for (const Symbol& symbol : workspace->symbols) {
    if (symbol.id != kNone) ids->push_back(symbol.id);
  }
}

// An unknown token waits until the next known code point, even while byte tokens pass it by: so
// does HF's.
void BpeModel::SplitIntoSymbols(std::string_view word, std::vector<Symbol>* symbols) const {
  symbols->clear();
  bool unk_waits = false;
  for (size_t pos = 0; pos < word.size();) {
    const size_t begin = pos;
    const char32_t code_point = NextCodePoint(word, &pos);
    const std::string_view text = word.substr(begin, pos - begin);
    const int32_t id = CodePointId(text, code_point);
    if (id != kNone) {
      if (unk_waits) symbols->push_back({unk_id_});
      unk_waits = false;
      symbols->push_back({id});
    } else if (!(byte_fallback_ && AppendByteTokens(text, symbols)) && unk_id_ != kNone) {
      if (unk_waits && !fuse_unk_) symbols->push_back({unk_id_});
      unk_waits = true;
    }
  }
  if (unk_waits) symbols->push_back({unk_id_});
  const auto num_symbols = static_cast<int32_t>(symbols->size());
  for (int32_t i = 0; i < num_symbols; ++i) {
    (*symbols)[i].previous = i - 1;  // kNone for the first
    (*symbols)[i].next = i + 1 < num_symbols ? i + 1 : kNone;
  }
}

int32_t BpeModel::CodePointId(std::string_view text, char32_t code_point) const {
  if (code_point < kDirectEnd) return direct_ids_[code_point];
  return TokenId(text).value_or(kNone);
}

// False, and nothing appended, where a byte has no token.
bool BpeModel::AppendByteTokens(std::string_view text, std::vector<Symbol>* symbols) const {
  const auto has_token = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] != kNone; };
  if (!std::all_of(text.begin(), text.end(), has_token)) return false;
  for (const char byte : text) symbols->push_back({byte_ids_[static_cast<uint8_t>(byte)]});
  return true;
}

void BpeModel::MergeSymbols(Workspace* workspace) const {
  std::vector<Symbol>& symbols = workspace->symbols;
  std::vector<Candidate>& heap = workspace->heap;
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  const auto num_symbols = static_cast<int32_t>(symbols.size());
  heap.clear();
  for (int32_t i = 0; i + 1 < num_symbols; ++i) PushCandidate(i, workspace);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    const Candidate top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    Symbol& left = symbols[top.position];
    if (left.id == kNone || left.next == kNone) continue;
    Symbol& right = symbols[left.next];
    // The pair may have changed since; for HF the token that it merges into counts.
    const Merge* merge = FindMerge(left.id, right.id);
    if (merge == nullptr || merge->id != top.id) continue;
    left.id = top.id;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) symbols[left.next].previous = top.position;
    for (const int32_t position : {left.previous, top.position}) {
      const size_t before = heap.size();
      if (position != kNone) PushCandidate(position, workspace);
      if (heap.size() != before) std::push_heap(heap.begin(), heap.end(), later);
    }
  }
}

// Appends to the heap's vector what may merge at `left` and its next; the caller restores the heap.
void BpeModel::PushCandidate(int32_t left, Workspace* workspace) const {
  const int32_t right = workspace->symbols[left].next;
  if (right == kNone) return;
  const Merge* merge = FindMerge(workspace->symbols[left].id, workspace->symbols[right].id);
  if (merge != nullptr) workspace->heap.push_back({merge->rank, left, merge->id});
}

}  // namespace graft
