// Reads the text of a tokenizer.json in one pass. The two long lists, which are most of the file,
// go straight into vectors, and the rest becomes a small Json. A tree of the whole file would take
// several times as long to build.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace graft {

struct TokenizerJson {
  Json rest;  // the file without the two below; an object
  std::optional<std::vector<std::pair<std::string, int64_t>>> vocabulary;  // model.vocab
  std::optional<std::vector<std::pair<std::string, std::string>>> merges;  // model.merges
};

// kInvalidArgument where the text is not JSON, nests too deep or has a list that is not what it
// should be.
Result<TokenizerJson> ReadTokenizerJson(std::string_view text);

}  // namespace graft
