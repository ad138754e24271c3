#include "sources/s3_settings.h"

#include <map>
#include <sstream>

#include "base/file.h"
#include "base/strings.h"

namespace graft {
namespace {

using IniSection = std::map<std::string, std::string>;
constexpr int64_t kProfileBytesMax = 1 << 20;

// The section of an AWS file; empty where there is no such file or section.
Result<IniSection> ReadIniSection(const std::string& path, const std::string& name) {
  IniSection section;
  Result<std::string> text = ReadFile(path, kProfileBytesMax);
  if (!text.ok()) {
    return text.status().code() == StatusCode::kNotFound ? Result<IniSection>(section)
                                                         : text.status();
  }
  std::istringstream lines(*text);
  bool is_in = false;
  for (std::string line; std::getline(lines, line);) {
    const std::string_view trimmed = Trimmed(line, " \t\r");
    if (trimmed.empty() || trimmed[0] == '#' || trimmed[0] == ';') continue;
    if (trimmed[0] == '[') {
      is_in = Trimmed(trimmed.substr(1, trimmed.find(']') - 1)) == name;
      continue;
    }
    const size_t equals = trimmed.find('=');
    // Indented lines are settings below a setting, of which none is read.
    if (!is_in || equals == trimmed.npos || line[0] == ' ' || line[0] == '\t') continue;
    section[LowerCase(Trimmed(trimmed.substr(0, equals)))] = Trimmed(trimmed.substr(equals + 1));
    Secret::Wipe(&line);
  }
  Secret::Wipe(&*text);
  return section;
}

// Both files' sections; the credentials' go before the config's.
Result<IniSection> ReadProfile(const ReadVariable& read, const std::string& home) {
  const std::string profile = read("AWS_PROFILE").value_or("default");
  const std::string config = read("AWS_CONFIG_FILE").value_or(home + "/.aws/config");
  const std::string credentials =
      read("AWS_SHARED_CREDENTIALS_FILE").value_or(home + "/.aws/credentials");
  ASSIGN_OR_RETURN(IniSection section, ReadIniSection(credentials, profile));
  ASSIGN_OR_RETURN(const IniSection more,
                   ReadIniSection(config, profile == "default" ? "default" : "profile " + profile));
  section.insert(more.begin(), more.end());
  if (section.empty() && read("AWS_PROFILE").has_value()) {
    return InvalidArgumentError("AWS_PROFILE names '" + profile + "', which neither " +
                                credentials + " nor " + config + " has");
  }
  return section;
}

std::string FieldOf(const IniSection& section, const char* name) {
  const auto it = section.find(name);
  return it == section.end() ? "" : it->second;
}

Result<WebUrl> EndpointOf(std::string text, const char* what) {
  while (text.ends_with('/')) text.pop_back();
  Result<WebUrl> url = ParseWebUrl(text);
  if (!url.ok()) return url.status().WithContext(what);
  if (url->target == "/") url->target.clear();
  return url;
}

bool IsWord(const std::string& text) {
  for (const char c : text) {
    if (!IsAsciiAlnum(c) && c != '-') return false;
  }
  return !text.empty();
}

Status TakeKeys(const ReadVariable& read, const IniSection& profile, S3Settings* settings) {
  if (const auto id = read("AWS_ACCESS_KEY_ID"); id.has_value()) {
    settings->keys = {.id = *id,
                      .key = Secret(read("AWS_SECRET_ACCESS_KEY").value_or("")),
                      .session_token = Secret(read("AWS_SESSION_TOKEN").value_or(""))};
    if (!settings->keys.key.empty()) return OkStatus();
    return InvalidArgumentError("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not");
  }
  S3WebIdentity identity;
  identity.role_arn = read("AWS_ROLE_ARN").value_or(FieldOf(profile, "role_arn"));
  identity.token_file =
      read("AWS_WEB_IDENTITY_TOKEN_FILE").value_or(FieldOf(profile, "web_identity_token_file"));
  identity.session_name = read("AWS_ROLE_SESSION_NAME").value_or(identity.session_name);
  if (!identity.role_arn.empty() && !identity.token_file.empty()) {
    std::string service = read("AWS_ENDPOINT_URL_STS").value_or("");
    if (service.empty()) service = read("AWS_ENDPOINT_URL").value_or("");
    if (service.empty()) service = "https://sts." + settings->region + ".amazonaws.com";
    ASSIGN_OR_RETURN(identity.endpoint, EndpointOf(service, "AWS_ENDPOINT_URL_STS"));
    settings->identity = std::move(identity);
    return OkStatus();
  }
  settings->keys = {.id = FieldOf(profile, "aws_access_key_id"),
                    .key = Secret(FieldOf(profile, "aws_secret_access_key")),
                    .session_token = Secret(FieldOf(profile, "aws_session_token"))};
  if (!settings->keys.id.empty()) return OkStatus();
  for (const char* const way :
       {"credential_process", "sso_session", "sso_start_url", "source_profile"}) {
    if (FieldOf(profile, way).empty()) continue;
    return FailedPreconditionError(
        std::string("the AWS profile gets its keys by ") + way +
        ", which is not known here: set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
        "AWS_SESSION_TOKEN (`aws configure export-credentials` prints them)");
  }
  return OkStatus();
}

}  // namespace

Result<S3Settings> S3Settings::FromEnvironment(const ReadVariable& read) {
  S3Settings settings;
  const std::string home = HomeFolder(read);
  settings.cache = read("XDG_CACHE_HOME").value_or(home + "/.cache") + "/graft/s3";
  ASSIGN_OR_RETURN(const IniSection profile, ReadProfile(read, home));
  for (const auto& region : {read("AWS_REGION"), read("AWS_DEFAULT_REGION"),
                             std::optional<std::string>(FieldOf(profile, "region"))}) {
    if (region.value_or("").empty()) continue;
    settings.region = *region;
    break;
  }
  if (!IsWord(settings.region)) {
    return InvalidArgumentError("'" + settings.region + "' is no region (AWS_REGION)");
  }
  for (const auto& endpoint : {read("AWS_ENDPOINT_URL_S3"), read("AWS_ENDPOINT_URL"),
                               std::optional<std::string>(FieldOf(profile, "endpoint_url"))}) {
    if (endpoint.value_or("").empty()) continue;
    ASSIGN_OR_RETURN(settings.endpoint, EndpointOf(*endpoint, "AWS_ENDPOINT_URL_S3"));
    break;
  }
  RETURN_IF_ERROR(TakeKeys(read, profile, &settings));
  if (!settings.keys.id.empty() || settings.identity.has_value()) LeaveNoCoreFile();
  return settings;
}

}  // namespace graft
