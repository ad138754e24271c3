// Older kinds of tokenizer files, as the tokenizer.json that HF's conversion makes of them. Pure
// functions.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_json_reader.h"

namespace graft {

// vocab.json and merges.txt. What else there is to such a tokenizer is its class's own knowledge:
// kUnimplemented, with a way out, for other classes than Qwen2Tokenizer and GPT2Tokenizer.
Result<TokenizerJson> ConvertVocabAndMerges(std::string_view vocab, std::string_view merges,
                                            const TokenizerConfig& config);

// Whether a tokenizer.model is tiktoken's: lines of a base64 string and its rank.
bool IsTiktoken(std::string_view model);
// Such a file, with Llama 3's pattern. A file of Llama 3's size also gets its special tokens, where
// `config` names none of that id, and begins texts with <|begin_of_text|>.
Result<TokenizerJson> ConvertTiktoken(std::string_view model, const TokenizerConfig& config);

}  // namespace graft
