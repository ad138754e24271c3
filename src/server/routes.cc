#include "server/routes.h"

#include "server/dashboard_pages.h"
#include "server/http_message.h"

namespace graft {
namespace {

struct Entry {
  const char* path;
  Route route;
  const char* method;
};

constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::string_view kResponsePrefix = "/v1/responses/";
constexpr std::string_view kItemsSuffix = "/input_items";
constexpr std::string_view kDashboardPrefix = "/dashboard/";
constexpr Entry kRoutes[] = {
    {"/health", Route::kHealth, "GET"},
    {"/ready", Route::kReady, "GET"},
    {"/metrics", Route::kMetrics, "GET"},
    {"/scale", Route::kScale, "GET"},
    {"/version", Route::kVersion, "GET"},
    {"/ping", Route::kPing, "GET"},
    {"/load", Route::kLoad, "GET"},
    {"/dashboard", Route::kDashboard, "GET"},
    {"/dashboard/data", Route::kDashboardData, "GET"},
    {"/dashboard/{file}", Route::kDashboardFile, "GET"},
    {"/v1/models", Route::kModels, "GET"},
    {"/v1/models/{model}", Route::kModel, "GET"},
    {"/v1/completions", Route::kCompletions, "POST"},
    {"/v1/chat/completions", Route::kChatCompletions, "POST"},
    {"/v1/embeddings", Route::kEmbeddings, "POST"},
    {"/v1/responses", Route::kResponses, "POST"},
    {"/v1/responses/{id}", Route::kResponse, "GET, DELETE"},
    {"/v1/responses/{id}/input_items", Route::kResponseItems, "GET"},
    {"/tokenize", Route::kTokenize, "POST"},
    {"/detokenize", Route::kDetokenize, "POST"},
    {"/v1/load_lora_adapter", Route::kLoadAdapter, "POST"},
    {"/v1/unload_lora_adapter", Route::kUnloadAdapter, "POST"},
};

const Entry* FindEntry(Route route) {
  for (const Entry& entry : kRoutes) {
    if (entry.route == route) return &entry;
  }
  return nullptr;
}

}  // namespace

RouteMatch MatchRoute(std::string_view path) {
  for (const Entry& entry : kRoutes) {
    const bool is_pattern = std::string_view(entry.path).find('{') != std::string_view::npos;
    if (path == entry.path && !is_pattern) return {.route = entry.route};
  }
  // A model's name may hold slashes, escaped or not.
  if (path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size()) {
    return {.route = Route::kModel, .model = PercentDecode(path.substr(kModelPrefix.size()))};
  }
  if (path.starts_with(kResponsePrefix)) {
    std::string_view id = path.substr(kResponsePrefix.size());
    const bool is_items = id.ends_with(kItemsSuffix);
    if (is_items) id.remove_suffix(kItemsSuffix.size());
    if (id.empty() || id.find('/') != std::string_view::npos) return {};
    return {.route = is_items ? Route::kResponseItems : Route::kResponse, .id = PercentDecode(id)};
  }
  if (path.starts_with(kDashboardPrefix)) {
    const std::string file(path.substr(kDashboardPrefix.size()));
    if (IsDashboardFile(file)) return {.route = Route::kDashboardFile, .file = file};
  }
  return {};
}

const char* RouteName(Route route) {
  const Entry* entry = FindEntry(route);
  return entry == nullptr ? "unknown" : entry->path;
}

const char* RouteMethod(Route route) {
  const Entry* entry = FindEntry(route);
  return entry == nullptr ? "GET" : entry->method;
}

bool MethodAllowed(Route route, std::string_view method) {
  const std::string_view allowed = RouteMethod(route);
  if (method == "HEAD") return allowed.starts_with("GET");
  return method == allowed || (allowed == "GET, DELETE" && (method == "GET" || method == "DELETE"));
}

}  // namespace graft
