// Any ids, two bytes each, through a small tokenizer with byte tokens. The pieces must be whole
// UTF-8 and join to what Decode gives. The first byte chooses the kind of decoder.
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace graft {
namespace {

constexpr const char* kDecoders[] = {
    R"({"type":"ByteLevel"})",
    R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
        {"type":"ByteFallback"},{"type":"Fuse"},
        {"type":"Strip","content":" ","start":1,"stop":2}]})",
    R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first"})",
    R"({"type":"Sequence","decoders":[{"type":"ByteFallback"},
        {"type":"Strip","content":"a","start":2,"stop":1}]})",
    "null"};

std::unique_ptr<Tokenizer> MakeTokenizer(const char* decoder) {
  Json vocabulary = Json::object();
  const auto add = [&](const std::string& token) {
    vocabulary.emplace(token, static_cast<int64_t>(vocabulary.size()));
  };
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kHex = "0123456789ABCDEF";
    add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
  }
  // The alphabet of byte-level vocabularies, and a few tokens of the other kind.
  for (char32_t c = '!'; c < 0x144; ++c) {
    std::string token;
    AppendCodePoint(c, &token);
    add(token);
  }
  for (const char* token : {"▁", "▁▁", "▁the", "aaa", "你", "<s>", " a "}) add(token);
  Json file{{"model", {{"type", "BPE"}, {"merges", Json::array()}, {"vocab", vocabulary}}}};
  file["decoder"] = Json::parse(decoder);
  auto tokenizer = Tokenizer::Parse(DumpJson(file), "");
  CHECK(tokenizer.ok()) << tokenizer.status().ToString();
  return *std::move(tokenizer);
}

void Check(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Detokenizer detokenizer(tokenizer, true);
  StopMatcher matcher(
      std::make_shared<StopStrings>(std::vector<std::string>{"never in it", "a\xEF\xBF\xBD never"}),
      false);
  std::string joined;
  std::string matched;
  const auto take = [&](const std::string& piece) {
    CHECK(IsValidUtf8(piece)) << "a piece is not UTF-8";
    joined += piece;
    const StopMatcher::Output output = matcher.Push(piece);
    CHECK(IsValidUtf8(output.text)) << "the stop matcher splits a character";
    matched += output.text;
  };
  for (const int32_t id : ids) take(detokenizer.Push(id));
  take(detokenizer.Flush());
  CHECK_EQ(joined, tokenizer.Decode(ids, true));
  matched += matcher.Flush();
  CHECK_EQ(matched, joined);
}

}  // namespace
}  // namespace graft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const tokenizers = [] {
    auto* made = new std::vector<std::unique_ptr<graft::Tokenizer>>;
    for (const char* decoder : graft::kDecoders) made->push_back(graft::MakeTokenizer(decoder));
    return made;
  }();
  if (size == 0) return 0;
  std::vector<int32_t> ids;
  for (size_t i = 1; i + 1 < size; i += 2) ids.push_back(data[i] << 8 | data[i + 1]);
  const auto& tokenizer = *(*tokenizers)[data[0] % tokenizers->size()];
  for (int32_t& id : ids) id %= tokenizer.vocab_size() + 3;
  graft::Check(tokenizer, ids);
  return 0;
}
