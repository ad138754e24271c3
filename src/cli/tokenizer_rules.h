// The words of --tokenizer-rules, which serve and generate share.
#pragma once

#include "options/option.h"
#include "text/tokenizer_config.h"

namespace graft {

inline constexpr OptionWord<TokenizerRules> kTokenizerRulesWords[] = {
    {TokenizerRules::kFile, "file"}, {TokenizerRules::kTransformers5, "transformers-5"}};
inline constexpr const char* kTokenizerRulesHelp =
    "LlamaTokenizers by their files, or as transformers 5 makes them";

}  // namespace graft
