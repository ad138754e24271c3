#include "sources/hub_names.h"

#include <algorithm>

#include "base/strings.h"

namespace graft {
namespace {

constexpr size_t kNameBytesMax = 96;
constexpr size_t kRevisionNameBytesMax = 200;
constexpr size_t kPathBytesMax = 512;

bool IsNamePart(std::string_view part) {
  const bool has_letters = std::all_of(part.begin(), part.end(), [](char c) {
    return IsAsciiAlnum(c) || c == '-' || c == '_' || c == '.';
  });
  return has_letters && !part.empty() && part.size() <= kNameBytesMax &&
         part.find("--") == part.npos && part.find("..") == part.npos && part.front() != '-' &&
         part.front() != '.' && part.back() != '-' && part.back() != '.' && !part.ends_with(".git");
}

}  // namespace

bool IsSafeHubPath(std::string_view path) {
  if (path.empty() || path.size() > kPathBytesMax) return false;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\') return false;
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

bool IsCommit(std::string_view text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool LooksLikeHubName(std::string_view text) {
  const std::string_view repo = text.substr(0, text.find('@'));
  const size_t slash = repo.find('/');
  return slash != repo.npos && IsNamePart(repo.substr(0, slash)) &&
         IsNamePart(repo.substr(slash + 1));
}

Result<HubName> ParseHubName(std::string_view text) {
  HubName name;
  const size_t at = text.find('@');
  name.repo = text.substr(0, at);
  if (!LooksLikeHubName(text)) {
    return InvalidArgumentError("'" + std::string(text.substr(0, kPathBytesMax)) +
                                "' is no ORG/NAME or ORG/NAME@REVISION of a hub: both parts have "
                                "letters, digits and . _ -");
  }
  if (at == text.npos) return name;
  name.revision = text.substr(at + 1);
  const bool is_fine = IsSafeHubPath(name.revision) &&
                       name.revision.size() <= kRevisionNameBytesMax &&
                       name.revision.find_first_of(" @?#%*:") == std::string::npos;
  if (!is_fine) {
    return InvalidArgumentError("'" + name.revision +
                                "' is no revision: give a branch, a tag or a commit");
  }
  return name;
}

std::string HubRepoFolder(const std::string& repo) {
  std::string folder = "models--" + repo;
  folder.replace(folder.find('/'), 1, "--");
  return folder;
}

}  // namespace graft
