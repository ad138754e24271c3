#include "server/endpoints.h"

#include <optional>
#include <utility>

#include "dashboard/dashboard_pages.h"
#include "dashboard/vllm_metrics.h"
#include "http/cors.h"
#include "http/multipart.h"
#include "openai/model_endpoints.h"

namespace graft {
namespace {

// /scale is served only by a frontend: one process has nothing to scale. "/" is for browsers: a
// program that asks for it has forgotten a path, and is told which ones there are.
bool IsServed(const ServerState& state, Route route, const HttpRequest& request) {
  if (route == Route::kStart) return request.accept.find("text/html") != std::string::npos;
  return route != Route::kUnknown && (route != Route::kScale || state.context.fleet);
}

bool NeedsKey(const ServerState& state, Route route) {
  if (IsProbe(route)) return false;
  // The dashboard's page asks for a key itself, and sends it for the data.
  if (route == Route::kStart) return false;
  if (route == Route::kDashboard || route == Route::kDashboardFile) return false;
  return !IsForOperators(route) || state.options.metrics_need_admin;
}

bool NeedsAdmin(const ServerState& state, Route route) {
  if (route == Route::kDashboardData) {
    return state.keys.required() || state.options.metrics_need_admin;
  }
  return IsAdmin(route) || IsForOperators(route);
}

std::optional<ApiError> CheckAdmin(const ServerState& state, const ApiKey& key) {
  if (key.rights().admin) return std::nullopt;
  if (!state.keys.has_admin()) {
    return HttpError(403, "admin_disabled",
                     "This endpoint is off: it needs an admin key, and the server was started "
                     "without one (give it --admin-key, or an entry with \"admin\": true in "
                     "--api-keys).");
  }
  return HttpError(403, "admin_required", "This endpoint needs an admin key.");
}

// A page of any site may make a browser send a form, with the address of the page.
std::optional<ApiError> CheckFormOrigin(const ServerState& state, const HttpRequest& request) {
  if (request.origin.empty() || MayPagesCall(state.options.cors_allow_origin, request.origin) ||
      request.origin.ends_with("://" + request.host)) {
    return std::nullopt;
  }
  return HttpError(403, "origin_not_allowed",
                   "Pages of '" + request.origin.substr(0, 200) +
                       "' may not upload files here; start the server with --cors-allow-origin.");
}

std::optional<ApiError> CheckBodyHeaders(const ServerState& state, Route route,
                                         const HttpRequest& request) {
  const bool is_form = route == Route::kFiles;
  if (is_form && IsFormType(request.content_type)) {
    if (auto error = CheckFormOrigin(state, request)) return error;
  }
  const std::string media_type = request.content_type.substr(0, request.content_type.find(';'));
  std::string lower;
  for (const char c : media_type) {
    if (c != ' ' && c != '\t') lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  // Nothing but JSON, but for files, and no body without a word on it: what a page of any site may
  // send without asking first (no type, a form's, text) never reaches an endpoint.
  const char* const wanted = is_form ? "multipart/form-data" : "application/json";
  if (lower != wanted) {
    return HttpError(415, "unsupported_media_type",
                     "Send the body with 'Content-Type: " + std::string(wanted) + "'" +
                         (lower.empty() ? "." : ", not '" + lower.substr(0, 200) + "'."));
  }
  if (!request.content_encoding.empty() && request.content_encoding != "identity") {
    return HttpError(415, "unsupported_media_type",
                     "Content-Encoding '" + request.content_encoding + "' is not supported.");
  }
  if (!request.expect.empty() && request.expect != "100-continue") {
    return HttpError(417, "expectation_failed", "Only 'Expect: 100-continue' is supported.");
  }
  return std::nullopt;
}

HttpResponse ReadyResponse(const ServerState& state) {
  if (state.draining) return ErrorResponse(DrainingError());
  if (state.context.ready) {
    const Status status = state.context.ready();
    if (!status.ok()) {
      ApiError error = ErrorFromStatus(UnavailableError(status.message()));
      error.retry_after_s = state.context.UnavailableRetryAfterS();
      return ErrorResponse(error);
    }
  }
  return JsonResponse({{"status", "ready"}});
}

// What autoscalers read, each field a number.
HttpResponse ScaleResponse(const FleetFigures& fleet) {
  return JsonResponse({{"runners", fleet.runners},
                       {"runners_wanted", fleet.runners_wanted},
                       {"runners_spare", fleet.runners_spare},
                       {"startup_seconds", fleet.startup_seconds}});
}

// The server's own metrics, and the same under vLLM's names.
HttpResponse MetricsResponse(const ServerState& state) {
  Metrics::Families families = state.dashboard->Scrape();
  VllmFacts facts{.base_model = state.context.base_model,
                  .adapters_max = state.context.adapters_max,
                  .unix_time = UnixTimeSeconds()};
  for (const Route route : kGenerationRoutes) facts.text_routes.emplace_back(RouteName(route));
  for (prometheus::MetricFamily& family : VllmFamilies(families, state.models_in_flight, facts)) {
    families.push_back(std::move(family));
  }
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = Metrics::Render(families)};
}

}  // namespace

std::optional<ApiError> CheckHead(const ServerState& state, const RouteMatch& match,
                                  const HttpRequest& request, std::shared_ptr<ApiKey>* key) {
  if (!IsServed(state, match.route, request)) {
    return HttpError(404, "unknown_url",
                     "Unknown URL: " + request.method.substr(0, 20) + " " +
                         request.path.substr(0, 200) +
                         ". There are /v1/chat/completions, "
                         "/v1/completions, /v1/responses, /v1/embeddings, /v1/models, /v1/files, "
                         "/v1/fine_tuning/jobs, /v1/load_lora_adapter, /v1/unload_lora_adapter, "
                         "/tokenize, /detokenize, /health, /ready, "
                         "/ping, /version, /load, /metrics and /dashboard" +
                         (state.context.fleet ? ", and /scale." : "."));
  }
  if (!MethodAllowed(match.route, request.method)) {
    return HttpError(405, "method_not_allowed",
                     request.method.substr(0, 20) + " is not allowed here, use " +
                         RouteMethod(match.route) + ".");
  }
  // Also where no key is needed: a caller's key tells its tenant.
  ApiResult<std::shared_ptr<ApiKey>> caller = state.keys.Authenticate(request.authorization);
  if (NeedsKey(state, match.route)) {
    if (!caller.ok()) return caller.error();
    *key = *caller;
    if (NeedsAdmin(state, match.route)) {
      if (auto error = CheckAdmin(state, **key)) return error;
    }
  }
  if (request.method == "POST") return CheckBodyHeaders(state, match.route, request);
  return std::nullopt;
}

HttpResponse OptionsResponse(const ServerState& state, const RouteMatch& match,
                             const HttpRequest& request) {
  if (!IsServed(state, match.route, request)) {
    return ErrorResponse(HttpError(404, "unknown_url", "Unknown URL."));
  }
  const std::string method = RouteMethod(match.route);
  const std::string methods =
      method + (method.starts_with("GET") ? ", HEAD, OPTIONS" : ", OPTIONS");
  HttpResponse response{.status = 204};
  response.headers.emplace_back("Allow", methods);
  if (!state.options.cors_allow_origin.empty()) {
    response.headers.emplace_back("Access-Control-Allow-Methods", methods);
    for (auto& header : PreflightHeaders(state.options.cors_allow_origin, request)) {
      response.headers.push_back(std::move(header));
    }
  }
  return response;
}

HttpResponse AnswerGet(const ServerState& state, const RouteMatch& match, const ApiKey& key) {
  const ModelsInFlight::Counts load = state.models_in_flight.Sum();
  switch (match.route) {
    case Route::kHealth:
      return JsonResponse({{"status", "ok"}, {"version", GRAFT_VERSION}});
    case Route::kReady:
    case Route::kPing:
      return ReadyResponse(state);
    case Route::kVersion:
      return JsonResponse({{"version", GRAFT_VERSION}});
    case Route::kLoad:
      return JsonResponse({{"server_load", load.waiting + load.running}});
    case Route::kMetrics:
      return MetricsResponse(state);
    case Route::kScale:
      return ScaleResponse(state.context.fleet());
    case Route::kStart:
      return StartPage();
    case Route::kDashboard:
      return DashboardFile("dashboard.html");
    case Route::kDashboardFile:
      return DashboardFile(match.file);
    case Route::kModels:
      return AnswerModels(state.context, state.start_time, key);
    case Route::kModel:
      return AnswerModel(state.context, state.start_time, match.model, key);
    default:
      CHECK(false) << RouteName(match.route) << " is no GET";
      return {};
  }
}

}  // namespace graft
