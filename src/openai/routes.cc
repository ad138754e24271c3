#include "openai/routes.h"

#include <algorithm>

#include "base/strings.h"

namespace graft {
namespace {

struct Entry {
  const char* path;
  Route route;
  const char* method;
};

constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::string_view kDashboardPrefix = "/dashboard/";
constexpr Entry kRoutes[] = {
    {"/", Route::kStart, "GET"},
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
    {"/v1/models/{model}", Route::kModel, "GET, DELETE"},
    {"/v1/completions", Route::kCompletions, "POST"},
    {"/v1/chat/completions", Route::kChatCompletions, "POST"},
    {"/v1/embeddings", Route::kEmbeddings, "POST"},
    {"/v1/responses", Route::kResponses, "POST"},
    {"/v1/responses/{id}", Route::kResponse, "GET, DELETE"},
    {"/v1/responses/{id}/input_items", Route::kResponseItems, "GET"},
    {"/v1/files", Route::kFiles, "GET, POST"},
    {"/v1/files/{id}", Route::kFile, "GET, DELETE"},
    {"/v1/files/{id}/content", Route::kFileContent, "GET"},
    {"/v1/fine_tuning/jobs", Route::kFineTuningJobs, "GET, POST"},
    {"/v1/fine_tuning/jobs/{id}", Route::kFineTuningJob, "GET"},
    {"/v1/fine_tuning/jobs/{id}/cancel", Route::kFineTuningCancel, "POST"},
    {"/v1/fine_tuning/jobs/{id}/events", Route::kFineTuningEvents, "GET"},
    {"/v1/fine_tuning/jobs/{id}/checkpoints", Route::kFineTuningCheckpoints, "GET"},
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

// What stands in a pattern's "{id}", without slashes; "" if the path is no such.
std::string_view IdIn(std::string_view path, std::string_view pattern) {
  constexpr std::string_view kPlace = "{id}";
  const size_t at = pattern.find(kPlace);
  if (at == std::string_view::npos) return "";
  const std::string_view suffix = pattern.substr(at + kPlace.size());
  if (!path.starts_with(pattern.substr(0, at)) || !path.ends_with(suffix) ||
      path.size() <= at + suffix.size()) {
    return "";
  }
  const std::string_view id = path.substr(at, path.size() - at - suffix.size());
  return id.find('/') == std::string_view::npos ? id : "";
}

}  // namespace

RouteMatch MatchRoute(std::string_view path, bool (*is_page_file)(std::string_view name)) {
  for (const Entry& entry : kRoutes) {
    const bool is_pattern = std::string_view(entry.path).find('{') != std::string_view::npos;
    if (path == entry.path && !is_pattern) return {.route = entry.route};
  }
  // A model's name may hold slashes, escaped or not.
  if (path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size()) {
    return {.route = Route::kModel, .model = PercentDecode(path.substr(kModelPrefix.size()))};
  }
  for (const Entry& entry : kRoutes) {
    const std::string_view id = IdIn(path, entry.path);
    if (!id.empty()) return {.route = entry.route, .id = PercentDecode(id)};
  }
  if (path.starts_with(kDashboardPrefix)) {
    const std::string file(path.substr(kDashboardPrefix.size()));
    if (is_page_file(file)) return {.route = Route::kDashboardFile, .file = file};
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
  std::string_view allowed = RouteMethod(route);
  if (method == "HEAD") return allowed.starts_with("GET");
  constexpr std::string_view kComma = ", ";
  while (!allowed.empty()) {
    const std::string_view one = allowed.substr(0, allowed.find(kComma));
    if (method == one) return true;
    allowed.remove_prefix(std::min(one.size() + kComma.size(), allowed.size()));
  }
  return false;
}

}  // namespace graft
