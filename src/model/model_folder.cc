#include "model/model_folder.h"

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/strings.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRepository = "models--";
constexpr int64_t kRevisionBytesMax = 256;

std::string RevisionsOf(const fs::path& snapshots) {
  std::error_code error;
  const std::string listed =
      Joined(fs::directory_iterator(snapshots, error), ", ",
             [](const fs::directory_entry& entry) { return entry.path().filename().string(); });
  return listed.empty() ? "none" : listed;
}

}  // namespace

Result<std::string> ResolveModelFolder(const std::string& folder) {
  const fs::path snapshots = fs::path(folder) / "snapshots";
  std::error_code error;
  if (FileExists(folder + "/config.json") || !fs::is_directory(snapshots, error)) return folder;
  const std::string missing = folder +
                              " is a repository of Hugging Face's cache without its main revision; "
                              "give the folder of another one, of " +
                              snapshots.string() + ": " + RevisionsOf(snapshots);
  Result<std::string> main = ReadFile(folder + "/refs/main", kRevisionBytesMax);
  if (!main.ok()) return NotFoundError(missing);
  while (!main->empty() && (main->back() == '\n' || main->back() == ' ')) main->pop_back();
  const bool is_name = !main->empty() && main->find('/') == std::string::npos && *main != "..";
  const fs::path revision = snapshots / *main;
  if (!is_name || !fs::is_directory(revision, error)) return NotFoundError(missing);
  return revision.string();
}

std::string ModelNameOf(const std::string& folder) {
  const fs::path path = fs::weakly_canonical(folder);
  const std::string repository = path.parent_path().parent_path().filename().string();
  const bool is_snapshot = path.parent_path().filename() == "snapshots";
  if (!is_snapshot || !repository.starts_with(kRepository)) return path.filename().string();
  std::string name = repository.substr(kRepository.size());
  const size_t org_end = name.find("--");
  if (org_end != std::string::npos) name.replace(org_end, 2, "/");
  return name;
}

}  // namespace graft
