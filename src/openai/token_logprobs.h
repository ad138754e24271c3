// Log-probabilities of tokens as OpenAI's JSON. Text is appended to a string rather than built as a
// JSON tree, since it happens per token. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "openai/choice.h"
#include "text/tokenizer.h"

namespace graft {

// What is between the items of a list.
void AppendComma(size_t idx, std::string* out);

// Null for NaN, and no lower than OpenAI goes: JSON has no minus infinity.
void AppendLogprob(float logprob, std::string* out);

// A token's bytes as completions show them: text, or "bytes:\xe2\x80" where they are not UTF-8.
std::string CompletionTokenText(const std::string& bytes);

// A token's name: its text, or "token_id:17".
std::string TokenName(const Tokenizer& tokenizer, int32_t token, bool shows_id);

// The tokens of a piece as chats and responses have them, with commas between:
// {"token","logprob","bytes","top_logprobs":[{"token","logprob","bytes"}]}.
void AppendTokenLogprobs(const Tokenizer& tokenizer, const ChoicePiece& piece, bool shows_ids,
                         std::string* out);

// The prompt's, as vLLM has them: [null, {"17": {"logprob","rank","decoded_token"}, ...}, ...], the
// prompt's own token first. A rank that is not known is null.
void AppendPromptLogprobs(const Tokenizer& tokenizer, const ChoicePiece& piece, std::string* out);

}  // namespace graft
