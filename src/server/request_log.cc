#include "server/request_log.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/json.h"
#include "base/random.h"
#include "base/server_log.h"
#include "base/strings.h"
#include "trace/trace_context.h"

namespace graft {
namespace {

constexpr size_t kIdBytesMax = 128;
constexpr size_t kTextBytesMax = 300;

bool IsIdChar(char c) {
  return IsAsciiAlnum(c) || std::string_view("._:/+=@-").find(c) != std::string_view::npos;
}

LogLevel LevelOf(const RequestRecord& record) {
  if (IsServerFailure(record)) return LogLevel::kError;
  const bool is_probe =
      IsProbe(record.route) || IsForOperators(record.route) || IsDashboard(record.route);
  return is_probe && record.status < 400 ? LogLevel::kDebug : LogLevel::kInfo;
}

}  // namespace

void LogRequest(const RequestRecord& record) {
  OrderedJson fields = {{"id", record.id},
                        {"method", record.method.substr(0, kTextBytesMax)},
                        {"path", record.path.substr(0, kTextBytesMax)},
                        {"status", record.status},
                        {"ms", std::round(record.seconds * 1e4) / 10}};
  if (!record.traceparent.empty()) fields["traceparent"] = record.traceparent;
  if (!record.key.empty()) fields["key"] = record.key;
  if (!record.tenant.empty()) fields["tenant"] = record.tenant;
  if (!record.model.empty()) fields["model"] = record.model;
  if (record.prompt_tokens >= 0) fields["prompt_tokens"] = record.prompt_tokens;
  if (record.output_tokens >= 0) fields["output_tokens"] = record.output_tokens;
  if (!record.error.empty()) fields["error"] = record.error.substr(0, kTextBytesMax);
  LogFields(LevelOf(record), "request", fields);
}

std::string RequestIdFor(const std::string& given) {
  const bool is_good = !given.empty() && given.size() <= kIdBytesMax &&
                       std::all_of(given.begin(), given.end(), IsIdChar);
  return is_good ? given : RandomName("req_");
}

std::string TraceparentFrom(const std::string& given) {
  return ParseTraceparent(given).has_value() ? given : "";
}

}  // namespace graft
