#include "text/tokenizer_convert.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <unordered_map>

#include "text/byte_level.h"
#include "text/utf8.h"

namespace graft {
namespace {

using Vocabulary64 = std::vector<std::pair<std::string, int64_t>>;
using MergeList = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json ByteLevelStep(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", false},
          {"use_regex", use_regex}};
}

Json SplitThenByteLevel(const char* pattern, bool add_prefix_space) {
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"},
          {"pretokenizers", {split, ByteLevelStep(add_prefix_space, /*use_regex=*/false)}}};
}

Json SpecialToken(const std::string& content, int64_t id) {
  return {{"id", id}, {"content", content}, {"special", true}, {"normalized", false}};
}

// The text's next line, without its end.
std::string_view TakeLine(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Result<Vocabulary64> ReadVocabulary(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  if (!json.is_object()) return InvalidArgumentError("vocab.json must hold an object");
  Vocabulary64 vocabulary;
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer()) {
      return InvalidArgumentError("vocab.json: the id of token '" + token +
                                  "' must be a whole number");
    }
    vocabulary.emplace_back(token, id.get<int64_t>());
  }
  return vocabulary;
}

// "left right" a line, most frequent first; a first line may tell the version.
Result<MergeList> ReadMerges(std::string_view text) {
  MergeList merges;
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = TakeLine(&text);
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      return InvalidArgumentError("merges.txt, line " + std::to_string(number) +
                                  ": must be \"left right\"");
    }
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

// The special tokens that have no id anywhere get the next ones, in HF's order.
Json NumberSpecialTokens(const std::vector<std::string>& names, const Vocabulary64& vocabulary,
                         const TokenizerConfig& config) {
  std::map<std::string_view, int64_t> ids;
  int64_t next = 0;
  for (const auto& [token, id] : vocabulary) {
    ids.emplace(token, id);
    next = std::max(next, id + 1);
  }
  for (const AddedToken& token : config.added_tokens) {
    ids.emplace(token.content, token.id);
    next = std::max<int64_t>(next, token.id + 1);
  }
  Json tokens = Json::array();
  for (const std::string& name : names) {
    if (name.empty()) continue;
    const auto [known, is_new] = ids.emplace(name, next);
    if (is_new) ++next;
    tokens.push_back(SpecialToken(name, known->second));
  }
  return tokens;
}

// Bytes of base64 with padding; nothing for what is none.
std::optional<std::string> DecodeBase64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes.push_back(static_cast<char>(bits >> num_bits & 0xFF));
  }
  return bytes;
}

// A line of a tiktoken file; nothing for what is none.
std::optional<std::pair<std::string, int64_t>> ReadTiktokenLine(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos) return std::nullopt;
  const std::optional<std::string> bytes = DecodeBase64(line.substr(0, space));
  int64_t rank = -1;
  const auto parsed = std::from_chars(line.data() + space + 1, line.data() + line.size(), rank);
  const bool is_rank = parsed.ec == std::errc() && parsed.ptr == line.data() + line.size();
  if (!bytes.has_value() || bytes->empty() || !is_rank || rank < 0) return std::nullopt;
  return std::pair(*bytes, rank);
}

std::string ByteLevelText(std::string_view bytes) {
  std::string text;
  AppendByteLevel(bytes, &text);
  return text;
}

// tiktoken merges the pair with the lowest rank of the joined token. As a list of merges: every way
// to make a token of two others, by its rank.
MergeList MergesOfRanks(const Vocabulary64& tokens) {
  std::unordered_map<std::string_view, int64_t> ranks;
  for (const auto& [bytes, rank] : tokens) ranks.emplace(bytes, rank);
  std::vector<std::pair<std::array<int64_t, 3>, MergeList::value_type>> ranked;
  for (const auto& [bytes, rank] : tokens) {
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const std::string_view left = std::string_view(bytes).substr(0, cut);
      const std::string_view right = std::string_view(bytes).substr(cut);
      const auto left_rank = ranks.find(left);
      const auto right_rank = ranks.find(right);
      if (left_rank == ranks.end() || right_rank == ranks.end()) continue;
      ranked.push_back({{rank, left_rank->second, right_rank->second},
                        {ByteLevelText(left), ByteLevelText(right)}});
    }
  }
  std::sort(ranked.begin(), ranked.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  MergeList merges;
  merges.reserve(ranked.size());
  for (auto& entry : ranked) merges.push_back(std::move(entry.second));
  return merges;
}

// Names of Llama 3.1's special tokens by their place behind the 128,000 of the file.
constexpr int64_t kLlama3Tokens = 128'000;
constexpr int64_t kLlama3SpecialTokens = 256;

std::string Llama3SpecialToken(int64_t place) {
  static constexpr std::array<std::string_view, 11> kNames = {"<|begin_of_text|>",
                                                              "<|end_of_text|>",
                                                              "",
                                                              "",
                                                              "<|finetune_right_pad_id|>",
                                                              "",
                                                              "<|start_header_id|>",
                                                              "<|end_header_id|>",
                                                              "<|eom_id|>",
                                                              "<|eot_id|>",
                                                              "<|python_tag|>"};
  const auto index = static_cast<size_t>(place);
  if (index < kNames.size() && !kNames[index].empty()) return std::string(kNames[index]);
  // The reserved ones are numbered without those that have names.
  const auto end = kNames.begin() + static_cast<ptrdiff_t>(std::min(index, kNames.size()));
  const auto num_named =
      std::count_if(kNames.begin(), end, [](auto name) { return !name.empty(); });
  return "<|reserved_special_token_" + std::to_string(place - num_named) + "|>";
}

}  // namespace

Result<TokenizerJson> ConvertVocabAndMerges(std::string_view vocab, std::string_view merges,
                                            const TokenizerConfig& config) {
  const bool is_qwen = config.tokenizer_class.starts_with("Qwen2Tokenizer");
  if (!is_qwen && !config.tokenizer_class.starts_with("GPT2Tokenizer")) {
    return UnimplementedError(
        "vocab.json and merges.txt of a '" + config.tokenizer_class +
        "' cannot be read, only of a Qwen2Tokenizer or GPT2Tokenizer; save the tokenizer with "
        "transformers' save_pretrained, which writes a tokenizer.json");
  }
  TokenizerJson file;
  ASSIGN_OR_RETURN(file.vocabulary, ReadVocabulary(vocab));
  ASSIGN_OR_RETURN(file.merges, ReadMerges(merges));
  const auto or_end_of_text = [](const std::string& token) {
    return token.empty() ? std::string("<|endoftext|>") : token;
  };
  std::vector<std::string> special = {is_qwen ? config.bos_token : or_end_of_text(config.bos_token),
                                      or_end_of_text(config.eos_token),
                                      or_end_of_text(config.unk_token), config.pad_token};
  special.insert(special.end(), config.special_tokens.begin(), config.special_tokens.end());
  const bool add_prefix_space = config.add_prefix_space.value_or(false);
  file.rest = {{"model", {{"type", "BPE"}}},
               {"added_tokens", NumberSpecialTokens(special, *file.vocabulary, config)},
               {"pre_tokenizer", ByteLevelStep(add_prefix_space, /*use_regex=*/true)},
               {"decoder", {{"type", "ByteLevel"}}}};
  if (is_qwen) {
    file.rest["normalizer"] = {{"type", "NFC"}};
    file.rest["pre_tokenizer"] = SplitThenByteLevel(kQwen2Pattern, add_prefix_space);
  }
  return file;
}

bool IsTiktoken(std::string_view model) { return ReadTiktokenLine(TakeLine(&model)).has_value(); }

Result<TokenizerJson> ConvertTiktoken(std::string_view model, const TokenizerConfig& config) {
  Vocabulary64 tokens;
  for (size_t number = 1; !model.empty(); ++number) {
    const std::string_view line = TakeLine(&model);
    if (line.empty()) continue;
    auto token = ReadTiktokenLine(line);
    if (!token.has_value()) {
      return InvalidArgumentError("tiktoken file, line " + std::to_string(number) +
                                  ": must be a base64 string and its rank");
    }
    tokens.push_back(*std::move(token));
  }
  TokenizerJson file;
  file.merges = MergesOfRanks(tokens);
  file.vocabulary.emplace();
  for (const auto& [bytes, rank] : tokens) {
    file.vocabulary->emplace_back(ByteLevelText(bytes), rank);
  }
  Json special = Json::array();
  if (tokens.size() == kLlama3Tokens) {
    std::set<int64_t> named;
    for (const AddedToken& token : config.added_tokens) named.insert(token.id);
    for (int64_t place = 0; place < kLlama3SpecialTokens; ++place) {
      const int64_t id = kLlama3Tokens + place;
      if (!named.contains(id)) special.push_back(SpecialToken(Llama3SpecialToken(place), id));
    }
    const Json bos = {
        {"id", "<|begin_of_text|>"}, {"ids", {kLlama3Tokens}}, {"tokens", {"<|begin_of_text|>"}}};
    file.rest["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<|begin_of_text|>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"special_tokens", {{"<|begin_of_text|>", bos}}}};
  }
  file.rest["model"] = {{"type", "BPE"}, {"ignore_merges", true}};
  file.rest["added_tokens"] = std::move(special);
  file.rest["pre_tokenizer"] = SplitThenByteLevel(kLlama3Pattern, /*add_prefix_space=*/false);
  file.rest["decoder"] = {{"type", "ByteLevel"}};
  return file;
}

}  // namespace graft
