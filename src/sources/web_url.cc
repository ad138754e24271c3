#include "sources/web_url.h"

#include <algorithm>
#include <charconv>

#include "base/host_port.h"
#include "base/strings.h"

namespace graft {
namespace {

constexpr uint16_t kHttpPort = 80;
constexpr uint16_t kHttpsPort = 443;

Status BadUrl(const std::string& what) {
  return InvalidArgumentError("an address that cannot be asked: " + what);
}

bool IsPlainText(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > 0x20 && static_cast<unsigned char>(c) < 0x7F &&
           c != '\\';
  });
}

Status ReadAuthority(std::string_view authority, WebUrl* url) {
  if (authority.find('@') != authority.npos) return BadUrl("it has a user or a password in it");
  std::string_view host = authority;
  std::string_view port;
  const size_t bracket = authority.rfind(']');
  const size_t colon = authority.rfind(':');
  if (colon != authority.npos && (bracket == authority.npos || colon > bracket)) {
    host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
  }
  url->port = url->scheme == "https" ? kHttpsPort : kHttpPort;
  if (!port.empty()) {
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url->port);
    if (error != std::errc() || end != port.data() + port.size() || url->port == 0) {
      return BadUrl("its port is none");
    }
  }
  url->host = LowerCase(WithoutBrackets(std::string(host)));
  // A dot at the end is the same host by another name.
  if (url->host.ends_with('.')) url->host.pop_back();
  if (url->host.empty()) return BadUrl("it has no host");
  if (url->host.find_first_of("/[]%") != std::string::npos) return BadUrl("its host is no name");
  return OkStatus();
}

}  // namespace

std::string WebUrl::Text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  const bool is_usual = port == (scheme == "https" ? kHttpsPort : kHttpPort);
  const std::string name = is_ipv6 ? "[" + host + "]" : host;
  return scheme + "://" + (is_usual ? name : HostAndPort(host, port)) + target;
}

std::string WebUrl::ForPeople() const {
  WebUrl shown = *this;
  shown.target = target.substr(0, target.find('?'));
  return shown.Text();
}

Result<WebUrl> ParseWebUrl(std::string_view text) {
  if (!IsPlainText(text)) return BadUrl("it has blanks or control characters in it");
  text = text.substr(0, text.find('#'));
  const size_t scheme_end = text.find("://");
  if (scheme_end == text.npos) return BadUrl("it begins with neither http:// nor https://");
  WebUrl url;
  url.scheme = LowerCase(text.substr(0, scheme_end));
  if (url.scheme != "http" && url.scheme != "https") {
    return BadUrl("it begins with neither http:// nor https://");
  }
  text.remove_prefix(scheme_end + 3);
  const size_t authority_end = std::min(text.find_first_of("/?"), text.size());
  RETURN_IF_ERROR(ReadAuthority(text.substr(0, authority_end), &url));
  url.target = text.substr(authority_end);
  if (!url.target.starts_with('/')) url.target = "/" + url.target;
  return url;
}

Result<WebUrl> ResolveLocation(const WebUrl& base, std::string_view location) {
  if (location.find("://") < location.find_first_of("/?#")) return ParseWebUrl(location);
  WebUrl root = base;
  root.target.clear();
  if (location.starts_with("//")) return ParseWebUrl(base.scheme + ":" + std::string(location));
  // "file:/x" and its kind: a scheme without an authority.
  const size_t colon = location.find(':');
  if (colon < location.find_first_of("/?#")) return ParseWebUrl(location);
  if (location.starts_with('/')) return ParseWebUrl(root.Text() + std::string(location));
  const std::string path = base.target.substr(0, base.target.find('?'));
  return ParseWebUrl(root.Text() + path.substr(0, path.rfind('/') + 1) + std::string(location));
}

std::string PercentEncode(std::string_view text, bool keeps_slash) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const bool stays = IsAsciiAlnum(c) || c == '-' || c == '_' || c == '.' || c == '~' ||
                       (keeps_slash && c == '/');
    if (stays) {
      encoded += c;
      continue;
    }
    encoded += '%';
    encoded += kDigits[static_cast<unsigned char>(c) >> 4];
    encoded += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return encoded;
}

std::string SortedQuery(std::vector<std::pair<std::string, std::string>> fields) {
  for (auto& [key, value] : fields) {
    key = PercentEncode(key);
    value = PercentEncode(value);
  }
  std::sort(fields.begin(), fields.end());
  return Joined(fields, "&", [](const auto& field) { return field.first + "=" + field.second; });
}

}  // namespace graft
