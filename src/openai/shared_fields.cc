#include "openai/shared_fields.h"

#include <string>
#include <utility>

#include "http/http_message.h"
#include "text/utf8.h"

namespace graft {
namespace {

constexpr size_t kMetadataEntriesMax = 16;
constexpr int64_t kMetadataKeyCharactersMax = 64;
constexpr int64_t kMetadataValueCharactersMax = 512;
constexpr size_t kKeyBytesTold = 80;  // in an error

}  // namespace

void ReadMetadata(FieldReader& reader, Json* metadata) {
  const Json* json = reader.Take("metadata");
  if (json == nullptr) return;
  if (!json->is_object() || json->size() > kMetadataEntriesMax) {
    return reader.Fail("metadata", "must be an object of at most 16 strings");
  }
  for (const auto& [key, value] : json->items()) {
    const bool is_good =
        value.is_string() && CountCodePoints(key) <= kMetadataKeyCharactersMax &&
        CountCodePoints(value.get_ref<const std::string&>()) <= kMetadataValueCharactersMax;
    if (is_good) continue;
    std::string told = key;
    CutUtf8(kKeyBytesTold, &told);
    return reader.Fail("metadata." + told,
                       "must be a string of at most 512 characters, its key one of at most 64");
  }
  *metadata = *json;
}

Json ListFields(std::string_view query) {
  Json fields = Json::object();
  for (const auto& [name, value] : QueryFields(query)) fields[name] = value;
  if (const auto limit = fields.find("limit"); limit != fields.end()) {
    const Result<Json> number = ParseJson(limit->get_ref<const std::string&>());
    if (number.ok()) *limit = *number;
  }
  return fields;
}

void ReadPage(FieldReader& reader, int32_t limit_max, PageQuery* page) {
  reader.Int("limit", 1, limit_max, &page->limit);
  reader.String("after", &page->after, kNameBytesMax);
}

void ReadOrder(FieldReader& reader, PageQuery* page) {
  if (reader.Take("order") == nullptr) return;
  page->is_ascending = reader.OneOf("order", {"asc", "desc"}) == "asc";
}

Json ListJson(Json data, bool has_more) {
  const Json first = data.empty() ? Json() : data.front()["id"];
  const Json last = data.empty() ? Json() : data.back()["id"];
  return {{"object", "list"},
          {"data", std::move(data)},
          {"first_id", first},
          {"last_id", last},
          {"has_more", has_more}};
}

}  // namespace graft
