#include "text/sentencepiece_model.h"

#include "text/sentencepiece_library.h"
#include "text/tokenizer_json.h"

namespace graft {
namespace {

// normalizer_spec { add_dummy_prefix: false } of sentencepiece's ModelProto. Appended to a file it
// overrides the file's: protobuf joins messages that come twice, and the last value of a field
// wins.
constexpr std::string_view kNoDummyPrefix("\x1A\x02\x18\x00", 4);
constexpr const char* kPieceMetaspace = "\xE2\x96\x81";  // U+2581

// Reads a protobuf message field by field; only of the kinds that a ModelProto has.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : rest_(bytes) {}

  // The next field; false at the end or where the message is broken.
  bool Next() {
    uint64_t key = 0;
    if (rest_.empty() || !Varint(&key)) return false;
    field_ = key >> 3;
    number_ = 0;
    bytes_ = {};
    switch (key & 7) {
      case 0:
        return Varint(&number_);
      case 1:
        return Take(8);
      case 2:
        return Varint(&number_) && Take(number_);
      case 5:
        return Take(4);
      default:
        return Fail();
    }
  }
  uint64_t field() const { return field_; }
  uint64_t number() const { return number_; }  // of a varint
  std::string_view bytes() const { return bytes_; }
  bool broken() const { return broken_; }

 private:
  bool Fail() {
    broken_ = true;
    return false;
  }
  bool Varint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      *value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return Fail();
  }
  bool Take(uint64_t bytes) {
    if (bytes > rest_.size()) return Fail();
    bytes_ = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return true;
  }

  std::string_view rest_;
  uint64_t field_ = 0;
  uint64_t number_ = 0;
  std::string_view bytes_;
  bool broken_ = false;
};

// Whether the model's normalizer leaves the text as it is but for the space that it may put before:
// by normalizer_spec, field 3 of a ModelProto.
bool KeepsText(std::string_view model_bytes) {
  constexpr uint64_t kNormalizerSpec = 3, kCharsMap = 2, kRemoveExtraWhitespaces = 4;
  bool maps_characters = false;
  bool removes_spaces = true;
  ProtoReader model(model_bytes);
  while (model.Next()) {
    if (model.field() != kNormalizerSpec) continue;
    ProtoReader spec(model.bytes());
    while (spec.Next()) {
      if (spec.field() == kCharsMap) maps_characters = !spec.bytes().empty();
      if (spec.field() == kRemoveExtraWhitespaces) removes_spaces = spec.number() != 0;
    }
    if (spec.broken()) return false;
  }
  return !model.broken() && !maps_characters && !removes_spaces;
}

class SentencePieceModel : public TokenModel {
 public:
  Status Load(std::string_view bytes) {
    keeps_text_ = KeepsText(bytes);
    if (processor_ == nullptr) {
      ASSIGN_OR_RETURN(processor_, OpenSentencePiece());
    }
    const std::string wrong = processor_->Load(bytes);
    if (wrong.empty()) return OkStatus();
    return InvalidArgumentError("not a sentencepiece model: " + wrong);
  }

  Status Encode(std::span<const Word> words, std::vector<int32_t>* ids) const override {
    std::vector<int> word_ids;
    for (const Word& word : words) {
      const std::string wrong = processor_->Encode(word.text, &word_ids);
      if (!wrong.empty()) return InternalError(wrong);
      ids->insert(ids->end(), word_ids.begin(), word_ids.end());
    }
    return OkStatus();
  }
  std::optional<int32_t> TokenId(std::string_view token) const override {
    const int id = processor_->PieceToId(token);
    // What it does not know has the id of the unknown piece.
    if (id < 0 || id >= size() || processor_->IdToPiece(id) != token) return std::nullopt;
    return id;
  }
  std::string_view Token(int32_t id) const override {
    return id >= 0 && id < size() ? std::string_view(processor_->IdToPiece(id)) : "";
  }
  int32_t size() const override { return processor_->GetPieceSize(); }
  std::optional<std::bitset<256>> DroppedBytes(bool /*byte_level*/) const override {
    // Without a piece for every byte, a run of unknown characters is one piece.
    int num_bytes = 0;
    for (int id = 0; id < size(); ++id) num_bytes += processor_->IsByte(id) ? 1 : 0;
    if (!keeps_text_ || num_bytes < 256) return std::nullopt;
    return std::bitset<256>();
  }

  // Whether a text gets a space before it.
  bool AddsDummyPrefix() const {
    std::vector<std::string> pieces;
    const bool encoded = processor_->Encode("a", &pieces).empty();
    return encoded && !pieces.empty() && pieces.front().starts_with(kPieceMetaspace);
  }

  std::vector<AddedToken> SpecialTokens() const {
    std::vector<AddedToken> tokens;
    for (int id = 0; id < size(); ++id) {
      const bool special = processor_->IsControl(id) || processor_->IsUnknown(id);
      if (special)
        tokens.push_back({.id = id, .content = processor_->IdToPiece(id), .special = true});
    }
    return tokens;
  }
  std::string BosToken() const { return std::string(Token(processor_->bos_id())); }
  std::string EosToken() const { return std::string(Token(processor_->eos_id())); }

 private:
  std::unique_ptr<SentencePieceLibrary> processor_;
  bool keeps_text_ = false;
};

}  // namespace

Result<TokenizerParts> ParseSentencePieceModel(std::string bytes, const TokenizerConfig& config) {
  auto model = std::make_unique<SentencePieceModel>();
  RETURN_IF_ERROR(model->Load(bytes));
  const bool adds_prefix = model->AddsDummyPrefix();
  TokenizerParts parts;
  const bool rebuilds = config.rules == TokenizerRules::kTransformers5;
  if (adds_prefix && (rebuilds || !config.legacy.value_or(true))) {
    // The space is put before by Metaspace: before the start of the text alone, or, of old, before
    // what follows a special token, too.
    const std::string scheme = rebuilds ? config.PrependScheme() : "first";
    ASSIGN_OR_RETURN(parts.pre_tokenizer, PreTokenizer::Parse({{"type", "Metaspace"},
                                                               {"replacement", kPieceMetaspace},
                                                               {"prepend_scheme", scheme},
                                                               {"split", false}}));
    RETURN_IF_ERROR(model->Load(bytes.append(kNoDummyPrefix)));
  }
  parts.bos_token = config.bos_token.empty() ? model->BosToken() : config.bos_token;
  parts.eos_token = config.eos_token.empty() ? model->EosToken() : config.eos_token;
  ASSIGN_OR_RETURN(parts.added_tokens,
                   JoinAddedTokens(model->SpecialTokens(), config, *model, parts.normalizer));
  const AddedToken* bos = parts.added_tokens.Find(parts.bos_token);
  const AddedToken* eos = parts.added_tokens.Find(parts.eos_token);
  if (config.add_bos_token.value_or(true) && bos != nullptr) parts.prefix_ids = {bos->id};
  if (config.add_eos_token.value_or(false) && eos != nullptr) parts.suffix_ids = {eos->id};
  parts.decoder = Decoder::Metaspace(adds_prefix);
  parts.model = std::move(model);
  return parts;
}

}  // namespace graft
