// HTTP requests and responses as values, free of any library. Plain data; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/api_error.h"

namespace graft {

struct HttpRequest {
  std::string method;  // as sent, "GET"
  std::string path;    // without query, as sent
  std::string query;   // what follows the path's "?"
  std::string authorization;
  std::string content_type;
  std::string content_encoding;
  std::string expect;                 // in lower case
  std::string request_id;             // X-Request-Id
  std::string traceparent;            // W3C's trace context
  std::string cors_request_headers;   // Access-Control-Request-Headers
  bool cors_private_network = false;  // Access-Control-Request-Private-Network
  std::string accept;                 // Accept
  std::string origin;      // of the page that the asking script belongs to, as browsers say
  std::string host;        // the target's own if it has one, else the Host header's
  bool keep_alive = true;  // the client would send another one
  bool is_http_1_0 = false;
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides those of every response
};

HttpResponse ErrorResponse(const ApiError& error);
HttpResponse JsonResponse(const Json& json);

// ASSIGN_OR_RESPOND(Json json, ParseBody(body)): the value, or answer with the error.
#define ASSIGN_OR_RESPOND(lhs, expr) \
  ASSIGN_OR_RESPOND_INNER(GRAFT_CONCAT(assign_or_respond_, __LINE__), lhs, expr)
#define ASSIGN_OR_RESPOND_INNER(result, lhs, expr)        \
  auto result = (expr);                                   \
  if (!result.ok()) return ErrorResponse(result.error()); \
  lhs = std::move(*result)

// What differs between heads of responses besides HttpResponse itself.
struct HttpHeadOptions {
  bool keep_alive = true;
  bool is_http_1_0 = false;
  bool chunked = false;  // else Content-Length, or until the end of the connection for HTTP/1.0
  bool is_stream = false;
  std::string request_id;
  std::string cors_origin;                                       // "": no CORS headers
  std::vector<std::pair<std::string, std::string>> rate_limits;  // headers
};

// Status line and headers with the empty line after them. HEAD sends just that.
std::string FormatHead(const HttpResponse& response, const HttpHeadOptions& options);

// One chunk of a chunked body. `data` must not be empty: an empty chunk ends the body.
void AppendHttpChunk(std::string_view data, std::string* out);
inline constexpr std::string_view kLastHttpChunk = "0\r\n\r\n";

// Names and values of a query, "a=1&b=2", decoded, in their order.
std::vector<std::pair<std::string, std::string>> QueryFields(std::string_view query);

}  // namespace graft
