#include "sources/hub_settings.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "base/file.h"
#include "base/strings.h"

namespace graft {
namespace {

constexpr char kHubEndpoint[] = "https://huggingface.co";
constexpr int64_t kTokenBytesMax = 4096;

// "~/x" and "$HOME/x", as people write them into files of variables.
std::string Expanded(std::string path, const std::string& home) {
  if (path == "~" || path.starts_with("~/")) path.replace(0, 1, home);
  return path;
}

bool IsTrue(const std::optional<std::string>& value) {
  const std::string word = LowerCase(value.value_or(""));
  return word == "1" || word == "true" || word == "yes" || word == "on";
}

Result<Secret> ReadToken(const ReadVariable& read, const std::string& hf_home) {
  for (const char* const name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const auto token = read(name); token.has_value()) {
      return Secret(std::string(Trimmed(*token, " \t\r\n")));
    }
  }
  const std::optional<std::string> named = read("HF_TOKEN_PATH");
  const std::string path = named.value_or(hf_home + "/token");
  Result<std::string> text = ReadFile(path, kTokenBytesMax);
  if (!text.ok()) {
    if (text.status().code() == StatusCode::kNotFound && !named.has_value()) return Secret();
    return text.status().WithContext("the hub's token");
  }
  Secret token{std::string(Trimmed(*text, " \t\r\n"))};
  Secret::Wipe(&*text);
  return token;
}

// A header's line would end at what it has of these.
bool IsHeaderText(const std::string& text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7F)
      return false;
  }
  return true;
}

}  // namespace

ReadVariable ReadProcessEnvironment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

std::string HomeFolder(const ReadVariable& read) {
  if (const auto home = read("HOME"); home.has_value()) return *home;
  passwd user{};
  passwd* found = nullptr;
  std::vector<char> buffer(size_t{16} << 10);
  getpwuid_r(getuid(), &user, buffer.data(), buffer.size(), &found);
  return found == nullptr ? "/" : user.pw_dir;
}

Result<HubSettings> HubSettings::FromEnvironment(const ReadVariable& read) {
  HubSettings settings;
  const std::string home = HomeFolder(read);
  std::string caches = home + "/.cache";
  if (const auto xdg = read("XDG_CACHE_HOME"); xdg.has_value()) caches = *xdg;
  const std::string hf_home = Expanded(read("HF_HOME").value_or(caches + "/huggingface"), home);
  settings.cache = hf_home + "/hub";
  for (const char* const name : {"HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE"}) {
    if (const auto cache = read(name); cache.has_value()) settings.cache = Expanded(*cache, home);
  }
  settings.is_offline = IsTrue(read("HF_HUB_OFFLINE")) || IsTrue(read("TRANSFORMERS_OFFLINE"));
  std::string endpoint = read("HF_ENDPOINT").value_or(kHubEndpoint);
  while (endpoint.ends_with('/')) endpoint.pop_back();
  Result<WebUrl> url = ParseWebUrl(endpoint);
  if (!url.ok()) return url.status().WithContext("HF_ENDPOINT");
  settings.endpoint = *url;
  if (settings.endpoint.target == "/") settings.endpoint.target.clear();
  if (settings.endpoint.target.find('?') != std::string::npos) {
    return InvalidArgumentError("HF_ENDPOINT has a query; give https://HOST alone");
  }
  ASSIGN_OR_RETURN(settings.token, ReadToken(read, hf_home));
  if (settings.token.empty()) return settings;
  if (!IsHeaderText(settings.token.Reveal())) {
    return InvalidArgumentError("the hub's token has blanks or other characters that no token has");
  }
  LeaveNoCoreFile();
  return settings;
}

}  // namespace graft
