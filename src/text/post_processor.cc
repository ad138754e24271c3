#include "text/post_processor.h"

#include <limits>
#include <string>

#include "text/json_field.h"

namespace graft {
namespace {

constexpr const char* kSupportedPostProcessors =
    "TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing, Sequence";

Result<int32_t> ParseId(const Json& json) {
  if (!json.is_number_integer()) return InvalidArgumentError("an id must be a whole number");
  const int64_t id = json.get<int64_t>();
  if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
    return InvalidArgumentError("id " + std::to_string(id) + " is out of range");
  }
  return static_cast<int32_t>(id);
}

// The ids of one {"SpecialToken": {"id": name}} of a template.
Result<std::vector<int32_t>> TemplateIds(const Json& special_token, const Json& special_tokens) {
  ASSIGN_OR_RETURN(const std::string name, StringField(special_token, "id", ""));
  const auto entry = special_tokens.find(name);
  if (entry == special_tokens.end() || !entry->is_object() ||
      !entry->value("ids", Json()).is_array()) {
    return InvalidArgumentError("special token '" + name + "' of the template has no ids");
  }
  std::vector<int32_t> ids;
  for (const Json& member : entry->at("ids")) {
    ASSIGN_OR_RETURN(const int32_t id, ParseId(member));
    ids.push_back(id);
  }
  return ids;
}

}  // namespace

Result<PostProcessor> PostProcessor::Parse(const Json& json) {
  PostProcessor post;
  if (json.is_null()) return post;
  ASSIGN_OR_RETURN(const std::string type, TypeOf(json, "post-processor"));
  if (type == "ByteLevel") return post;  // moves offsets only
  Status status;
  if (type == "TemplateProcessing") {
    status = post.AddTemplate(json);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    status = post.AddPair(json);
  } else if (type == "Sequence") {
    const auto list = json.find("processors");
    if (list == json.end() || !list->is_array()) {
      return InvalidArgumentError("post-processor Sequence has no list 'processors'");
    }
    for (const Json& member : *list) {
      ASSIGN_OR_RETURN(const PostProcessor inner, Parse(member));
      post.Wrap(inner.prefix_ids, inner.suffix_ids);
    }
  } else {
    return UnsupportedComponent("post-processor", type, kSupportedPostProcessors);
  }
  if (!status.ok()) return status.WithContext("post-processor " + type);
  return post;
}

Status PostProcessor::AddTemplate(const Json& json) {
  const auto single = json.find("single");
  const Json special_tokens = json.value("special_tokens", Json::object());
  if (single == json.end() || !single->is_array() || !special_tokens.is_object()) {
    return InvalidArgumentError("a template needs a list 'single' and an object 'special_tokens'");
  }
  bool text_seen = false;
  for (const Json& piece : *single) {
    const bool known = piece.is_object() && piece.size() == 1 && piece.begin()->is_object();
    if (known && piece.begin().key() == "Sequence") {
      if (text_seen) return UnimplementedError("a template with the text twice is not supported");
      text_seen = true;
    } else if (known && piece.begin().key() == "SpecialToken") {
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids, TemplateIds(*piece.begin(), special_tokens));
      std::vector<int32_t>& side = text_seen ? suffix_ids : prefix_ids;
      side.insert(side.end(), ids.begin(), ids.end());
    } else {
      return InvalidArgumentError("a template piece must be a Sequence or a SpecialToken");
    }
  }
  if (!text_seen) return UnimplementedError("a template without the text is not supported");
  return OkStatus();
}

// "cls" and "sep", each [token, id].
Status PostProcessor::AddPair(const Json& json) {
  for (const char* key : {"cls", "sep"}) {
    const auto pair = json.find(key);
    if (pair == json.end() || !pair->is_array() || pair->size() != 2) {
      return InvalidArgumentError("field '" + std::string(key) + "' must be [token, id]");
    }
    ASSIGN_OR_RETURN(const int32_t id, ParseId(pair->at(1)));
    (key[0] == 'c' ? prefix_ids : suffix_ids).push_back(id);
  }
  return OkStatus();
}

void PostProcessor::Wrap(const std::vector<int32_t>& before, const std::vector<int32_t>& after) {
  prefix_ids.insert(prefix_ids.begin(), before.begin(), before.end());
  suffix_ids.insert(suffix_ids.end(), after.begin(), after.end());
}

}  // namespace graft
