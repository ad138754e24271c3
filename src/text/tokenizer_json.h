// Reads a tokenizer.json. Pure functions.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_json_reader.h"

namespace graft {

// kInvalidArgument where the file is wrong, kUnimplemented where it uses what is not supported.
Result<TokenizerParts> ParseTokenizerJson(std::string_view text, const TokenizerConfig& config);

// The same of a file that was read already.
Result<TokenizerParts> BuildTokenizer(TokenizerJson file, const TokenizerConfig& config);

// The added tokens of the tokenizer's own file with those that `config` has beyond them. A token of
// the model's vocabulary keeps the model's id.
Result<AddedTokens> JoinAddedTokens(std::vector<AddedToken> tokens, const TokenizerConfig& config,
                                    const TokenModel& model, const Normalizer& normalizer);

}  // namespace graft
