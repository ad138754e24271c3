#include "openai/responses/stored_responses.h"

#include <algorithm>
#include <optional>
#include <string>

#include "http/field_reader.h"
#include "http/http_message.h"
#include "openai/generation_plan.h"
#include "openai/inner_json.h"

namespace graft {
namespace {

struct ItemsQuery {
  size_t limit = 20;
  bool is_ascending = false;
  std::string after;  // an item's id
};

ApiResult<ItemsQuery> ParseItemsQuery(std::string_view query) {
  Json fields = Json::object();
  for (const auto& [name, value] : QueryFields(query)) {
    // "include[]" and "include" ask for what texts do not have.
    if (!name.starts_with("include")) fields[name] = value;
  }
  if (const auto limit = fields.find("limit"); limit != fields.end()) {
    const Result<Json> number = ParseJson(limit->get_ref<const std::string&>());
    if (number.ok()) *limit = number.value();
  }
  ItemsQuery parsed;
  std::string order = "desc";
  int32_t limit = 20;
  FieldReader reader(fields, "");
  reader.Int("limit", 1, 100, &limit);
  if (reader.Take("order") != nullptr) order = reader.OneOf("order", {"asc", "desc"});
  reader.String("after", &parsed.after, kNameBytesMax);
  if (auto error = reader.Finish()) return *error;
  parsed.limit = static_cast<size_t>(limit);
  parsed.is_ascending = order == "asc";
  return parsed;
}

HttpResponse ItemsResponse(const StoredResponse& stored, std::string_view query) {
  ASSIGN_OR_RESPOND(const ItemsQuery parsed, ParseItemsQuery(query));
  Result<Json> read = ParseInnerJson(stored.input);
  if (!read.ok()) return ErrorResponse(ErrorFromStatus(read.status()));
  Json& items = *read;
  if (!parsed.is_ascending) std::reverse(items.begin(), items.end());
  auto begin = items.begin();
  if (!parsed.after.empty()) {
    begin = std::find_if(items.begin(), items.end(),
                         [&](const Json& item) { return item["id"] == parsed.after; });
    if (begin == items.end()) {
      return ErrorResponse(
          InvalidRequestError("after", "No item with id '" + parsed.after + "' is here."));
    }
    ++begin;
  }
  const auto left = static_cast<size_t>(items.end() - begin);
  Json data = Json::array();
  for (size_t i = 0; i < std::min(left, parsed.limit); ++i) data.push_back(*begin++);
  const Json first = data.empty() ? Json() : data.front()["id"];
  const Json last = data.empty() ? Json() : data.back()["id"];
  return JsonResponse({{"object", "list"},
                       {"data", std::move(data)},
                       {"first_id", first},
                       {"last_id", last},
                       {"has_more", left > parsed.limit}});
}

std::optional<ApiError> CheckReadQuery(std::string_view query) {
  for (const auto& [name, value] : QueryFields(query)) {
    if (name == "stream" && value == "true") {
      return InvalidRequestError("stream",
                                 "'stream' is not supported here: a stored response is whole");
    }
  }
  return std::nullopt;
}

}  // namespace

HttpResponse AnswerStored(const ApiContext& context, ResponseStore& store, const RouteMatch& match,
                          const HttpRequest& request, const ApiKey& key) {
  const std::string& tenant = key.rights().tenant;
  const ResponseStore::Entry stored = store.Find(tenant, match.id);
  if (stored == nullptr || !MayUseModel(context, key, stored->model)) {
    return ErrorResponse(HttpError(404, "not_found",
                                   "Response with id '" + match.id.substr(0, 200) +
                                       "' not found: it was not stored, was deleted, or has gone "
                                       "for its age or for want of room."));
  }
  if (match.route == Route::kResponseItems) return ItemsResponse(*stored, request.query);
  if (request.method == "DELETE") {
    store.Delete(tenant, match.id);
    return JsonResponse({{"id", match.id}, {"object", "response"}, {"deleted", true}});
  }
  if (auto error = CheckReadQuery(request.query)) return ErrorResponse(*error);
  return {.body = stored->json};
}

}  // namespace graft
