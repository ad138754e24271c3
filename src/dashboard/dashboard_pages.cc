#include "dashboard/dashboard_pages.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "dashboard/dashboard_files.h"

namespace graft {
namespace {

constexpr std::string_view kPageName = "dashboard.html";
// The page runs only its own files, asks only its own server, and cannot be put into a frame.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const EmbeddedFile* FindFile(std::string_view name) {
  for (const EmbeddedFile& file : DashboardFiles()) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

const char* ContentTypeOf(std::string_view name) {
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return name.ends_with(".css") ? "text/css; charset=utf-8" : "text/html; charset=utf-8";
}

HttpResponse PageResponse(std::string_view name, std::string_view bytes) {
  return {.content_type = ContentTypeOf(name),
          .body = std::string(bytes),
          .headers = {{"Content-Security-Policy", kContentPolicy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"X-Frame-Options", "DENY"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}}};
}

}  // namespace

bool IsDashboardFile(std::string_view name) {
  return name != kPageName && FindFile(name) != nullptr;
}

HttpResponse StartPage() {
  return PageResponse(
      kPageName,
      "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>Graft</title><h1>Graft</h1>"
      "<p>This server answers OpenAI's API below <code>/v1</code>. "
      "<a href=\"/dashboard\">The dashboard</a> shows what it does, and "
      "<a href=\"/v1/models\">/v1/models</a> lists what it serves.</p></html>\n");
}

HttpResponse DashboardFile(std::string_view name) {
  const EmbeddedFile* const file = FindFile(name);
  CHECK(file != nullptr) << name << " is not embedded";
  return PageResponse(name, file->bytes);
}

HttpResponse DashboardData(std::string json) {
  return {.body = std::move(json),
          .headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}}};
}

uint64_t SinceIn(std::string_view query) {
  constexpr std::string_view kName = "since=";
  uint64_t number = 0;
  if (query.starts_with(kName)) {
    const std::string_view digits = query.substr(kName.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
  }
  return number;
}

}  // namespace graft
