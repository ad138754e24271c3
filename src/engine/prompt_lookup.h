// PromptLookup predicts a sequence's next tokens without a model (prompt lookup decoding): where
// the last few tokens stood before in its own prompt or output, the text may go on as it did there.
// It costs a hash and a comparison a token. Every prediction is compared with the drawn token,
// whether or not it became a draft, so the class knows how often it is right. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace graft {

class PromptLookup {
 public:
  // So many tokens in a row must have stood before.
  static constexpr int32_t kGramTokens = 3;

  // How many of the tokens that one call took in were foreseen, and how many rightly.
  struct Forecasts {
    int32_t num = 0;
    int32_t num_right = 0;
  };

  // `tokens` has grown since the last call, and is what it was before it grew. Those from
  // num_prompt on were drawn, and tell how good the last forecasts were.
  Forecasts Extend(std::span<const int32_t> tokens, int32_t num_prompt);
  // The last tokens stood before.
  bool has_match() const { return match_ >= 0; }
  // The chance that the next token is the one that is foreseen: a moving average that begins at
  // `at_first`, the chance before anything is known of this sequence.
  double Acceptance(double at_first) const { return own_ + first_weight_ * at_first; }
  // Appends the next `count` tokens as they are foreseen; `tokens` are the last call's. Only where
  // there is a match. A match that overlaps the end goes on in turns.
  void Draft(std::span<const int32_t> tokens, int32_t count, std::vector<int32_t>* drafts) const;

 private:
  size_t SlotOf(std::span<const int32_t> tokens, int32_t end) const;
  void Grow(std::span<const int32_t> tokens);
  int32_t Find(std::span<const int32_t> tokens) const;

  // By the hash of a gram, where the last one ends that fell there; 0: none. A power of two.
  std::vector<int32_t> ends_;
  int32_t num_tokens_ = 0;  // that were taken in
  int32_t match_ = -1;      // where the next token stood before; -1: no match
  double own_ = 0.0;        // the average's part of this sequence's forecasts
  double first_weight_ = 1.0;
};

}  // namespace graft
