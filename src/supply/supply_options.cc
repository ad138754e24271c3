#include "supply/supply_options.h"

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/name_pattern.h"
#include "base/strings.h"

namespace graft {
namespace {

constexpr int64_t kTokensBytesMax = 16 << 20;

Status BadSource(std::string_view text, const std::string& why) {
  return InvalidArgumentError("--source '" + std::string(text.substr(0, 300)) + "' " + why +
                              "; write NAME=hf: or NAME=s3://BUCKET/PREFIX");
}

Result<std::map<std::string, Secret>> ReadTokens(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path, kTokensBytesMax));
  Result<Json> json = ParseJson(text);
  Secret::Wipe(&text);
  // A parser's message quotes what it could not read, which may be a token.
  if (!json.ok() || !json->is_object()) {
    return InvalidArgumentError("--source-tokens " + path +
                                " is no JSON object {\"TENANT\": "
                                "\"TOKEN\"}");
  }
  std::map<std::string, Secret> tokens;
  for (auto& [tenant, token] : json->items()) {
    if (!token.is_string()) {
      return InvalidArgumentError("--source-tokens " + path + ": the token of '" + tenant +
                                  "' is no text");
    }
    auto& value = token.get_ref<std::string&>();
    const bool is_plain = std::all_of(value.begin(), value.end(), [](char c) {
      return static_cast<unsigned char>(c) > 0x20 && static_cast<unsigned char>(c) < 0x7F;
    });
    if (!is_plain || value.empty()) {
      return InvalidArgumentError("--source-tokens " + path + ": the token of '" + tenant +
                                  "' is empty, or has characters that no token has");
    }
    tokens[tenant] = Secret(value);
    Secret::Wipe(&value);
  }
  return tokens;
}

}  // namespace

Result<SupplySource> ParseSupplySource(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) return BadSource(text, "names no source");
  SupplySource source{.name = std::string(text.substr(0, equals))};
  const bool is_word = std::all_of(source.name.begin(), source.name.end(), [](char c) {
    return IsAsciiAlnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (!is_word || source.name.size() > 32) {
    return BadSource(text, "has a name of other characters than letters, digits and . _ -");
  }
  const std::string_view where = text.substr(equals + 1);
  if (where == "hf:") return source;
  if (!where.starts_with("s3://")) return BadSource(text, "is of no kind that is known");
  ASSIGN_OR_RETURN(source.store, ParseS3Name(where));
  source.is_hub = false;
  return source;
}

bool IsAllowed(const SupplyOptions& options, const std::string& name) {
  return std::any_of(options.allow.begin(), options.allow.end(),
                     [&name](const std::string& pattern) { return MatchesPattern(pattern, name); });
}

const Secret* TokenOfTenant(const SupplyOptions& options, const SupplySource& source,
                            const std::string& tenant) {
  static const Secret no_token;
  if (!options.has_tenant_tokens || !source.is_hub) return nullptr;
  const auto it = options.tenant_tokens.find(tenant);
  return it == options.tenant_tokens.end() ? &no_token : &it->second;
}

Result<SupplyOptions> SupplyOptionsOf(const std::vector<std::string>& sources,
                                      const std::vector<std::string>& allow,
                                      const std::string& tokens_file) {
  SupplyOptions options;
  options.allow = allow;
  for (const std::string& text : sources) {
    ASSIGN_OR_RETURN(SupplySource source, ParseSupplySource(text));
    for (const SupplySource& other : options.sources) {
      if (other.name == source.name) return BadSource(text, "has a name that another one has");
    }
    options.sources.push_back(std::move(source));
  }
  if (sources.empty() && (!allow.empty() || !tokens_file.empty())) {
    return InvalidArgumentError(
        "--allow and --source-tokens are about sources: name one by "
        "--source NAME=hf: or NAME=s3://BUCKET/PREFIX");
  }
  if (!sources.empty() && allow.empty()) {
    return InvalidArgumentError(
        "--source needs --allow: which names may be looked up there? "
        "--allow '" +
        options.sources.front().name + "/ORG/*', for example");
  }
  if (tokens_file.empty()) return options;
  ASSIGN_OR_RETURN(options.tenant_tokens, ReadTokens(tokens_file));
  options.has_tenant_tokens = true;
  LeaveNoCoreFile();
  return options;
}

}  // namespace graft
