// The post-processor of a tokenizer.json, as far as one text goes: ids before and after it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"

namespace graft {

struct PostProcessor {
  std::vector<int32_t> prefix_ids;
  std::vector<int32_t> suffix_ids;

  // `json` may be null. kUnimplemented names a type that is not supported.
  static Result<PostProcessor> Parse(const Json& json);

 private:
  Status AddTemplate(const Json& json);
  Status AddPair(const Json& json);
  // Puts the ids around what is there.
  void Wrap(const std::vector<int32_t>& before, const std::vector<int32_t>& after);
};

}  // namespace graft
