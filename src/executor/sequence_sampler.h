// What the sampler remembers of one sequence between steps: its settings, how often each token
// occurred (only while a penalty asks for it) and how many tokens were drawn. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/sampling/sampling.h"
#include "step/step_plan.h"

namespace graft {

class SequenceSampler {
 public:
  // Begins a sequence, or resumes a preempted one with its output so far.
  void Start(const SequenceStart& start, int32_t vocab_size);
  // The settings of the next draw; pointers stay valid until the next call of a method but Accept.
  // `banned` and `mask` are borrowed; null: no mask.
  SamplingRow Row(std::span<const int32_t> banned, const uint32_t* mask = nullptr);
  // The settings of the draw that is num_ahead after Row's, when the tokens between are not known.
  // Not where tokens are counted. Leaves what Row gave valid if that was given no bans.
  SamplingRow RowAhead(int32_t num_ahead = 1);
  // The drawn token joins the output.
  void Accept(int32_t token);

  int32_t num_logprobs() const { return spec_.num_logprobs; }
  const std::vector<int32_t>& prompt_tokens() const { return prompt_tokens_; }
  // The position of the prompt's first token.
  int32_t prompt_position() const { return prompt_position_; }

 private:
  bool CountsTokens() const;
  TokenCount& CountOf(int32_t token);

  SamplingSpec spec_;
  // The allowed tokens as a mask, made once: what all tokens but these would be as a list goes to a
  // GPU with every draw. Empty: all are allowed.
  std::vector<uint32_t> allowed_;
  std::vector<uint32_t> allowed_in_mask_;  // of one draw
  std::vector<int32_t> prompt_tokens_;
  int32_t prompt_position_ = 0;
  uint64_t num_drawn_ = 0;
  std::vector<TokenCount> counts_;
  std::unordered_map<int32_t, size_t> count_idx_;  // token -> index in counts_
};

}  // namespace graft
