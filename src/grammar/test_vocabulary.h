// A vocabulary for tests and fuzzers of masks: every byte, some runs of bytes as tokenizers have
// them, an end token, and words beyond the vocabulary's last 32. For tests only.
#pragma once

#include <string>

#include "grammar/grammar.h"

namespace graft {

inline constexpr int32_t kTestEndToken = 0;

inline GrammarVocabulary TestVocabulary() {
  GrammarVocabulary vocabulary;
  std::vector<std::string>& bytes = vocabulary.token_bytes;
  bytes.emplace_back();  // the end
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  for (const char* run :
       {"{\"",          "\"}",     "\": ",     "\":",      "\", \"",    ", ",   "\",",
        "},",           "}}",      "[]",       "{}",       "[{",        "}]",   "[\"",
        "\"]",          "true",    "false",    "null",     "tr",        "ue",   "nul",
        "10",           "00",      "1.5",      "-1",       "0.",        "e+",   "  ",
        "\n",           "\n  ",    "ab",       "abc",      "name",      "type", "the",
        "\\u00",        "\\\"",    "\\n",      "\xc3\xa9", "\xe2\x82",  "\xac", "<tool_call>",
        "</tool_call>", "<think>", "</think>", "\"name\"", "arguments", "a\"",  "1}",
        "1,",           "1]",      "\"\""}) {
    bytes.emplace_back(run);
  }
  vocabulary.vocab_size = static_cast<int32_t>(bytes.size()) + 5;  // ids that no token has
  vocabulary.end_tokens = {kTestEndToken};
  return vocabulary;
}

}  // namespace graft
