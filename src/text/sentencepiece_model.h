// A sentencepiece tokenizer.model run by the sentencepiece library, set up as transformers'
// LlamaTokenizer does it. The one door to that library.
#pragma once

#include <string>

#include "base/status.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

namespace graft {

// `bytes` is the file. kInvalidArgument where it is not a sentencepiece model.
Result<TokenizerParts> ParseSentencePieceModel(std::string bytes, const TokenizerConfig& config);

}  // namespace graft
