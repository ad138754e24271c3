#include "openai/responses/stored_responses.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "http/field_reader.h"
#include "http/http_message.h"
#include "openai/generation_plan.h"
#include "openai/inner_json.h"
#include "openai/shared_fields.h"

namespace graft {
namespace {

ApiResult<PageQuery> ParseItemsQuery(std::string_view query) {
  Json fields = ListFields(query);
  // "include[]" and "include" ask for what texts do not have.
  for (auto it = fields.begin(); it != fields.end();) {
    it = it.key().starts_with("include") ? fields.erase(it) : std::next(it);
  }
  PageQuery page;
  FieldReader reader(fields, "");
  ReadPage(reader, 100, &page);
  ReadOrder(reader, &page);
  if (auto error = reader.Finish()) return *error;
  return page;
}

HttpResponse ItemsResponse(const StoredResponse& stored, std::string_view query) {
  ASSIGN_OR_RESPOND(const PageQuery page, ParseItemsQuery(query));
  Result<Json> read = ParseInnerJson(stored.input);
  if (!read.ok()) return ErrorResponse(ErrorFromStatus(read.status()));
  Json& items = *read;
  if (!page.is_ascending) std::reverse(items.begin(), items.end());
  auto begin = items.begin();
  if (!page.after.empty()) {
    begin = std::find_if(items.begin(), items.end(),
                         [&](const Json& item) { return item["id"] == page.after; });
    if (begin == items.end()) {
      return ErrorResponse(
          InvalidRequestError("after", "No item with id '" + page.after + "' is here."));
    }
    ++begin;
  }
  const auto left = static_cast<size_t>(items.end() - begin);
  const auto limit = static_cast<size_t>(page.limit);
  Json data = Json::array();
  for (size_t i = 0; i < std::min(left, limit); ++i) data.push_back(*begin++);
  return JsonResponse(ListJson(std::move(data), left > limit));
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
