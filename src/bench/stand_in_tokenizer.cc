#include "bench/stand_in_tokenizer.h"

#include <string>

#include "base/json.h"

namespace graft {
namespace {

// What a byte-level vocabulary writes for a space.
constexpr char kSpace[] = "\xC4\xA0";

std::string WordOfId(int32_t id) {
  std::string word = kSpace;
  for (int32_t rest = id;; rest = rest / 26 - 1) {
    word += static_cast<char>('a' + rest % 26);
    if (rest < 26) return word;
  }
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeStandInTokenizer(int32_t vocab_size) {
  Json vocab = Json::object();
  for (int32_t id = 0; id < vocab_size; ++id) vocab[WordOfId(id)] = id;
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json json = {{"added_tokens", Json::array()},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  return Tokenizer::Parse(json.dump(), "");
}

}  // namespace graft
