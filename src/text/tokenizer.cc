#include "text/tokenizer.h"

#include <algorithm>

#include "text/detokenizer.h"
#include "text/text_arena.h"
#include "text/utf8.h"

namespace graft {

namespace {

// What of the ranges lies in [begin, end), counted from there.
TextRanges RangesWithin(std::span<const TextRange> ranges, size_t begin, size_t end) {
  TextRanges within;
  auto range = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                [](size_t pos, const TextRange& r) { return pos < r.end; });
  for (; range != ranges.end() && range->begin < end; ++range) {
    AppendRange({std::max(range->begin, begin) - begin, std::min(range->end, end) - begin},
                &within);
  }
  return within;
}

}  // namespace

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, bool add_special_tokens,
                                               std::span<const TextRange> untrusted) const {
  if (text.size() > kTextBytesMax) {
    return ResourceExhaustedError("text of " + std::to_string(text.size()) +
                                  " bytes, the limit is " + std::to_string(kTextBytesMax));
  }
  if (!IsValidUtf8(text)) return InvalidArgumentError("text is not valid UTF-8");
  const AddedTokens& added = parts_.added_tokens;
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  if (add_special_tokens) ids = parts_.prefix_ids;
  for (const AddedTokens::Part& part : added.Split(text, /*normalized=*/false, untrusted)) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
      continue;
    }
    TextRanges part_untrusted;
    if (added.has_normalized_control()) {
      part_untrusted = RangesWithin(untrusted, part.begin, part.end);
    }
    RETURN_IF_ERROR(EncodePlain(text.substr(part.begin, part.end - part.begin), part.begin == 0,
                                std::move(part_untrusted), &ids));
  }
  if (add_special_tokens) {
    ids.insert(ids.end(), parts_.suffix_ids.begin(), parts_.suffix_ids.end());
  }
  return ids;
}

// A text between added tokens: normalized, searched for the added tokens that are looked for in
// normalized text, cut into words, tokenized.
Status Tokenizer::EncodePlain(std::string_view text, bool at_start, TextRanges untrusted,
                              std::vector<int32_t>* ids) const {
  std::string normalized;
  if (!parts_.normalizer.empty()) {
    normalized = text;
    bool starts_later = false;
    RETURN_IF_ERROR(untrusted.empty()
                        ? parts_.normalizer.Apply(&normalized, &starts_later)
                        : parts_.normalizer.ApplyMarked(&normalized, &untrusted, &starts_later));
    text = normalized;
    at_start = at_start && !starts_later;
  }
  TextArena arena;
  std::vector<Word> words;
  for (const AddedTokens::Part& part :
       parts_.added_tokens.Split(text, /*normalized=*/true, untrusted)) {
    if (part.token != nullptr) {
      ids->push_back(part.token->id);
      continue;
    }
    words.assign(1, {text.substr(part.begin, part.end - part.begin), at_start && part.begin == 0});
    RETURN_IF_ERROR(parts_.pre_tokenizer.Apply(&words, &arena));
    RETURN_IF_ERROR(parts_.model->Encode(words, ids));
  }
  return OkStatus();
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  Detokenizer detokenizer(*this, skip_special_tokens);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.Push(id);
  return text += detokenizer.Flush();
}

std::string Tokenizer::TokenBytes(int32_t id) const {
  const AddedToken* added = parts_.added_tokens.Find(id);
  if (added != nullptr) return added->content;
  return parts_.decoder.TokenBytes(parts_.model->Token(id));
}

bool Tokenizer::IsSpecial(int32_t id) const {
  const AddedToken* added = parts_.added_tokens.Find(id);
  return added != nullptr && added->special;
}

std::optional<int32_t> Tokenizer::TokenId(std::string_view token) const {
  const AddedToken* added = parts_.added_tokens.Find(token);
  if (added != nullptr) return added->id;
  return parts_.model->TokenId(token);
}

int32_t Tokenizer::vocab_size() const {
  return std::max(parts_.model->size(), parts_.added_tokens.id_end());
}

std::string Tokenizer::TokensBeyond(int32_t model_vocab_size) const {
  constexpr int32_t kNamedMax = 5;
  std::string names;
  int32_t num_beyond = 0;
  for (int32_t id = model_vocab_size; id < vocab_size(); ++id) {
    const std::string_view text = TokenText(id);
    if (text.empty()) continue;
    ++num_beyond;
    if (num_beyond > kNamedMax) continue;
    names += (num_beyond > 1 ? ", '" : "'") + std::string(text) + "' (" + std::to_string(id) + ")";
  }
  if (num_beyond == 0) return "";
  if (num_beyond > kNamedMax) names += ", ...";
  return "the tokenizer has " + std::to_string(num_beyond) +
         " tokens that the model's vocabulary of " + std::to_string(model_vocab_size) +
         " has not: " + names + "; prompts with them are refused";
}

std::string_view Tokenizer::TokenText(int32_t id) const {
  const AddedToken* added = parts_.added_tokens.Find(id);
  return added != nullptr ? added->decoded : parts_.model->Token(id);
}

}  // namespace graft
