// Names that a hub and its cache know: repositories, revisions, commits, files. All of them come
// from users and servers and become paths, so that each is checked. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace graft {

struct HubName {
  std::string repo;               // ORG/NAME
  std::string revision = "main";  // a branch, a tag, refs/pr/7 or a commit
};

// ORG/NAME or ORG/NAME@REVISION. kInvalidArgument says what such a name may have.
Result<HubName> ParseHubName(std::string_view text);
// Whether it may be one, and no path: no dot or slash in front, one slash in it.
bool LooksLikeHubName(std::string_view text);

// 40 hexadecimal digits.
bool IsCommit(std::string_view text);
// A file's path inside a repository: relative, no part of it empty, "." or "..", no backslash or
// control character, 512 bytes at most.
bool IsSafeHubPath(std::string_view path);

// "models--ORG--NAME"
std::string HubRepoFolder(const std::string& repo);

}  // namespace graft
