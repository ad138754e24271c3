#include "text/tokenizer_json_reader.h"

#include <limits>

namespace graft {
namespace {

// What nlohmann's parser calls for every piece of the text; false ends the parsing.
class Reader {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  bool null() { return Scalar(nullptr); }
  bool boolean(bool value) { return Scalar(value); }
  bool number_integer(number_integer_t value) { return Scalar(value); }
  bool number_unsigned(number_unsigned_t value) {
    const bool is_id = value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (place_ != Place::kVocabulary || !is_id) return Scalar(value);
    json_.vocabulary->emplace_back(std::move(key_), static_cast<int64_t>(value));
    return true;
  }
  bool number_float(number_float_t value, const string_t&) { return Scalar(value); }
  bool binary(binary_t&) { return Fail("binary values are not JSON"); }
  bool string(string_t& value);
  bool start_object(size_t);
  bool key(string_t& key);
  bool end_object();
  bool start_array(size_t);
  bool end_array();
  bool parse_error(size_t position, const std::string&, const Json::exception&) {
    return Fail("not valid JSON at byte " + std::to_string(position));
  }

  // Call once, after the parser.
  Result<TokenizerJson> Take() {
    if (!error_.empty()) return InvalidArgumentError(error_);
    if (!json_.rest.is_object()) return InvalidArgumentError("must hold an object");
    return std::move(json_);
  }

 private:
  // Which list the parser is in; kRest is everything else.
  enum class Place { kRest, kVocabulary, kMerges, kMergePair };

  bool Scalar(Json value) {
    if (place_ != Place::kRest) return WrongMember();
    Attach(std::move(value));
    return true;
  }
  Json* Attach(Json value);
  bool Open(Json container);
  bool Close();
  bool InModelAt(const char* key) const;
  bool SplitMerge(const std::string& text);
  bool WrongMember();
  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  TokenizerJson json_;
  Place place_ = Place::kRest;
  std::vector<Json*> open_;              // containers of `rest` around the current place
  std::string key_;                      // the member of an object that comes next
  const Json* model_ = nullptr;          // rest["model"], while it is open
  std::vector<std::string> merge_pair_;  // of kMergePair
  std::string error_;
};

bool Reader::string(string_t& value) {
  switch (place_) {
    case Place::kRest:
      return Scalar(std::move(value));
    case Place::kVocabulary:
      return WrongMember();
    case Place::kMerges:
      return SplitMerge(value);
    case Place::kMergePair:
      merge_pair_.push_back(std::move(value));
      return merge_pair_.size() <= 2 || WrongMember();
  }
  return false;
}

bool Reader::start_object(size_t) {
  if (place_ != Place::kRest) return WrongMember();
  if (InModelAt("vocab")) {
    place_ = Place::kVocabulary;
    json_.vocabulary.emplace();
    return true;
  }
  return Open(Json::object());
}

bool Reader::key(string_t& key) {
  key_ = std::move(key);
  return true;
}

bool Reader::end_object() {
  if (place_ == Place::kVocabulary) {
    place_ = Place::kRest;
    return true;
  }
  return Close();
}

bool Reader::start_array(size_t) {
  if (place_ == Place::kMerges) {
    place_ = Place::kMergePair;
    merge_pair_.clear();
    return true;
  }
  if (place_ != Place::kRest) return WrongMember();
  if (InModelAt("merges")) {
    place_ = Place::kMerges;
    json_.merges.emplace();
    return true;
  }
  return Open(Json::array());
}

bool Reader::end_array() {
  if (place_ == Place::kMergePair) {
    if (merge_pair_.size() != 2) return WrongMember();
    json_.merges->emplace_back(std::move(merge_pair_[0]), std::move(merge_pair_[1]));
    place_ = Place::kMerges;
    return true;
  }
  if (place_ == Place::kMerges) {
    place_ = Place::kRest;
    return true;
  }
  return Close();
}

// Puts the value where the parser is and returns it.
Json* Reader::Attach(Json value) {
  if (open_.empty()) {
    json_.rest = std::move(value);
    return &json_.rest;
  }
  Json& container = *open_.back();
  if (container.is_array()) return &container.emplace_back(std::move(value));
  Json& member = container[key_];
  member = std::move(value);
  return &member;
}

bool Reader::Open(Json container) {
  if (open_.size() >= kJsonDepthMax) {
    return Fail("JSON nested deeper than " + std::to_string(kJsonDepthMax) + " levels");
  }
  const bool is_model = open_.size() == 1 && open_.back()->is_object() && key_ == "model";
  // The parent does not grow while its last member is open, so that the pointer holds.
  open_.push_back(Attach(std::move(container)));
  if (is_model) model_ = open_.back();
  return true;
}

bool Reader::Close() {
  if (open_.back() == model_) model_ = nullptr;
  open_.pop_back();
  return true;
}

bool Reader::InModelAt(const char* key) const {
  return model_ != nullptr && open_.back() == model_ && model_->is_object() && key_ == key;
}

// "left right"
bool Reader::SplitMerge(const std::string& text) {
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    return WrongMember();
  }
  json_.merges->emplace_back(text.substr(0, space), text.substr(space + 1));
  return true;
}

bool Reader::WrongMember() {
  if (place_ == Place::kVocabulary) {
    return Fail("vocab: the id of token '" + key_ + "' must be a whole number");
  }
  return Fail("merge " + std::to_string(json_.merges->size()) +
              " must be \"left right\" or [\"left\", \"right\"]");
}

}  // namespace

Result<TokenizerJson> ReadTokenizerJson(std::string_view text) {
  Reader reader;
  // The reader keeps its own account of what went wrong.
  static_cast<void>(Json::sax_parse(text.begin(), text.end(), &reader));
  return reader.Take();
}

}  // namespace graft
