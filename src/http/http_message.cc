#include "http/http_message.h"

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <cstdio>
#include <ctime>

#include "base/strings.h"
#include "http/cors.h"

namespace graft {
namespace {

void AppendHeader(std::string_view name, std::string_view value, std::string* out) {
  out->append(name).append(": ").append(value).append("\r\n");
}

std::string HttpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  const size_t length = std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return std::string(text, length);
}

}  // namespace

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response{.status = error.http_status, .body = DumpJson(error.ToJson())};
  if (error.retry_after_s > 0) {
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  }
  if (error.http_status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse JsonResponse(const Json& json) { return {.body = DumpJson(json)}; }

std::string FormatHead(const HttpResponse& response, const HttpHeadOptions& options) {
  const std::string_view words =
      boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(response.status));
  std::string head =
      "HTTP/1.1 " + std::to_string(response.status) + " " + std::string(words) + "\r\n";
  AppendHeader("Server", "graft/" GRAFT_VERSION, &head);
  AppendHeader("Date", HttpDate(), &head);
  AppendHeader("X-Request-Id", options.request_id, &head);
  if (response.status != 204) AppendHeader("Content-Type", response.content_type, &head);
  if (options.chunked) {
    AppendHeader("Transfer-Encoding", "chunked", &head);
  } else if (!options.is_stream && response.status != 204) {
    AppendHeader("Content-Length", std::to_string(response.body.size()), &head);
  }
  if (options.is_stream) {
    AppendHeader("Cache-Control", "no-cache", &head);
    AppendHeader("X-Accel-Buffering", "no", &head);  // nginx would collect the events
  }
  if (!options.keep_alive) {
    AppendHeader("Connection", "close", &head);
  } else if (options.is_http_1_0) {
    AppendHeader("Connection", "keep-alive", &head);
  }
  if (!options.cors_origin.empty()) {
    AppendHeader("Access-Control-Allow-Origin", options.cors_origin, &head);
    AppendHeader("Access-Control-Expose-Headers", kCorsExposedHeaders, &head);
    if (options.cors_origin != "*") AppendHeader("Vary", "Origin", &head);
  }
  for (const auto& [name, value] : options.rate_limits) AppendHeader(name, value, &head);
  for (const auto& [name, value] : response.headers) AppendHeader(name, value, &head);
  return head + "\r\n";
}

void AppendHttpChunk(std::string_view data, std::string* out) {
  CHECK(!data.empty()) << "an empty chunk would end the body";
  char size[24];
  std::snprintf(size, sizeof(size), "%zx\r\n", data.size());
  out->append(size).append(data).append("\r\n");
}

std::vector<std::pair<std::string, std::string>> QueryFields(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> fields;
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(field.size() + 1, query.size()));
    const size_t equals = std::min(field.find('='), field.size());
    if (field.empty()) continue;
    const std::string_view value = field.substr(std::min(equals + 1, field.size()));
    fields.emplace_back(PercentDecode(field.substr(0, equals)), PercentDecode(value));
  }
  return fields;
}

}  // namespace graft
