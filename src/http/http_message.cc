#include "http/http_message.h"

#include <cstdio>
#include <ctime>

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

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
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

const char* HttpStatusText(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Error";
  }
}

std::string FormatHead(const HttpResponse& response, const HttpHeadOptions& options) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " " +
                     HttpStatusText(response.status) + "\r\n";
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

std::string PercentDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace graft
