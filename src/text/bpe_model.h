// BpeModel: byte-pair encoding as HF's `tokenizers` does it. A word's code points are merged pair
// by pair in the order of the merge ranks. It uses a heap over a linked list, so that a word of n
// code points costs n log n. Immutable except for a cache of words, which has its own locks; any
// thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/token_model.h"
#include "text/vocabulary.h"
#include "text/word_cache.h"

namespace graft {

// The "model" of a tokenizer.json.
struct BpeSpec {
  std::vector<std::pair<std::string, int64_t>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  std::optional<std::string> unk_token;
  bool fuse_unk = false;       // neighbouring unknowns become one token
  bool byte_fallback = false;  // an unknown code point becomes its bytes' tokens, <0x00> to <0xFF>
  bool ignore_merges = false;  // a word that is a token needs no merges
};

class BpeModel : public TokenModel {
 public:
  static Result<std::unique_ptr<BpeModel>> Build(BpeSpec spec);

  Status Encode(std::span<const Word> words, std::vector<int32_t>* ids) const override;
  std::optional<int32_t> TokenId(std::string_view token) const override {
    return vocabulary_.Id(token);
  }
  std::string_view Token(int32_t id) const override { return vocabulary_.Token(id); }
  int32_t size() const override { return vocabulary_.size(); }
  std::optional<std::bitset<256>> DroppedBytes(bool byte_level) const override;

 private:
  static constexpr int32_t kNone = -1;
  static constexpr char32_t kDirectEnd = 0x180;  // covers the byte-level alphabet

  struct Merge {
    uint64_t pair;  // left id, right id
    int32_t rank = kNone;
    int32_t id = kNone;
  };
  // A token of the word being merged; its neighbours by index, kNone at the ends.
  struct Symbol {
    int32_t id;  // kNone once merged into its left neighbour
    int32_t previous;
    int32_t next;
  };
  // A merge that may happen at a symbol and its next.
  struct Candidate {
    int32_t rank;
    int32_t position;
    int32_t id;
  };
  // Reused from word to word of one Encode.
  struct Workspace {
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  explicit BpeModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  Status AddMerges(const std::vector<std::pair<std::string, std::string>>& merges);
  void InsertMerge(const Merge& merge);
  const Merge* FindMerge(int32_t left, int32_t right) const;
  void IndexCodePoints();
  bool NoMergeCrossesIntoMetaspace(
      const std::vector<std::pair<std::string, std::string>>& merges) const;

  void EncodeCached(std::string_view word, Workspace* workspace, std::vector<int32_t>* ids) const;
  void EncodeWord(std::string_view word, Workspace* workspace, std::vector<int32_t>* ids) const;
  void SplitIntoSymbols(std::string_view word, std::vector<Symbol>* symbols) const;
  int32_t CodePointId(std::string_view text, char32_t code_point) const;
  bool AppendByteTokens(std::string_view text, std::vector<Symbol>* symbols) const;
  void MergeSymbols(Workspace* workspace) const;
  void PushCandidate(int32_t left, Workspace* workspace) const;

  Vocabulary vocabulary_;
  std::vector<Merge> merges_;  // open addressing, a power of two, at most half full
  std::array<int32_t, kDirectEnd> direct_ids_;
  std::array<int32_t, 256> byte_ids_;
  int32_t unk_id_ = kNone;
  bool fuse_unk_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;
  // No token goes on into a U+2581 after another character, so texts can be cut there into words. A
  // sentencepiece-style vocabulary takes a whole text as one word and needs such cuts.
  bool cuts_at_metaspace_ = false;
  mutable WordCache cache_;
};

}  // namespace graft
