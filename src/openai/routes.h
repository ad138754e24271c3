// Which endpoint a request is for. Pure functions; any thread.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace graft {

enum class Route {
  kUnknown,
  kStart,  // "/", for people who open the server's address
  kHealth,
  kReady,
  kMetrics,
  kScale,  // how many runners there should be
  kVersion,
  kPing,
  kLoad,
  kDashboard,
  kDashboardFile,  // what its page loads
  kDashboardData,  // what it shows
  kModels,
  kModel,  // one by name
  kCompletions,
  kChatCompletions,
  kEmbeddings,
  kResponses,
  kResponse,       // one that is stored
  kResponseItems,  // what it was asked with
  kFiles,          // documents to learn
  kFile,           // one of them
  kFileContent,
  kFineTuningJobs,
  kFineTuningJob,  // one of them
  kFineTuningCancel,
  kFineTuningEvents,
  kFineTuningCheckpoints,
  kTokenize,
  kDetokenize,
  kLoadAdapter,
  kUnloadAdapter,
};

struct RouteMatch {
  Route route = Route::kUnknown;
  std::string model;  // of kModel, decoded
  std::string file;   // of kDashboardFile
  std::string id;     // of a response, a file or a job, decoded
};

// `is_page_file`: whether the dashboard's page loads a file of this name.
RouteMatch MatchRoute(std::string_view path, bool (*is_page_file)(std::string_view name));

// The path, for logs and labels: "/v1/models/{model}".
const char* RouteName(Route route);

// One or several, as "GET, DELETE"; where GET is, HEAD is, too.
const char* RouteMethod(Route route);
bool MethodAllowed(Route route, std::string_view method);

// The requests that the engine serves, all of them POST.
inline constexpr Route kGenerationRoutes[] = {Route::kCompletions, Route::kChatCompletions,
                                              Route::kResponses, Route::kEmbeddings};
inline bool IsGeneration(Route route) {
  return std::find(std::begin(kGenerationRoutes), std::end(kGenerationRoutes), route) !=
         std::end(kGenerationRoutes);
}
// Reads or deletes what a response left.
inline bool IsStored(Route route) {
  return route == Route::kResponse || route == Route::kResponseItems;
}
// Text to tokens or back, without the engine.
inline bool IsTokenizing(Route route) {
  return route == Route::kTokenize || route == Route::kDetokenize;
}
// Files and jobs of learning.
inline bool IsLearning(Route route) {
  return route >= Route::kFiles && route <= Route::kFineTuningCheckpoints;
}
// A probe, which asks by whatever address the server has, and learns nothing.
inline bool IsProbe(Route route) {
  return route == Route::kHealth || route == Route::kReady || route == Route::kPing;
}
// Reads the list of models, which may be long.
inline bool IsListing(Route route) { return route == Route::kModels || route == Route::kModel; }
// Says how the server is, in numbers.
inline bool IsForOperators(Route route) {
  return route == Route::kMetrics || route == Route::kScale;
}
// What people look at.
inline bool IsDashboard(Route route) {
  return route == Route::kDashboard || route == Route::kDashboardFile ||
         route == Route::kDashboardData;
}
// Changes which adapters there are.
inline bool IsAdmin(Route route) {
  return route == Route::kLoadAdapter || route == Route::kUnloadAdapter;
}

}  // namespace graft
