// The grammars of a model's answers, over its tokenizer's tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "grammar/grammar_store.h"
#include "model/config.h"
#include "text/tokenizer.h"

namespace graft {

// Special tokens are in no grammar, but for those that open and close calls and reasoning.
GrammarVocabulary GrammarVocabularyOf(const Tokenizer& tokenizer, int32_t vocab_size,
                                      const std::vector<int32_t>& end_tokens);

// Reads the tokenizer of `folder` when the first grammar is asked for. Without a tokenizer, or
// without the library for grammars, asking for one gives kUnimplemented.
std::unique_ptr<GrammarStore> MakeGrammarStore(const std::string& folder, int32_t vocab_size,
                                               const ModelConfig& config);

}  // namespace graft
