#include "base/adapter_files.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/strings.h"

namespace graft {

std::string AdapterFilePath(const std::string& folder, const std::string& file) {
  const std::string path = folder + "/" + file;
  if (!file.ends_with(kPeftFiles[1]) || FileExists(path)) return path;
  const std::string beside = path.substr(0, path.rfind('/') + 1);
  for (const char* const other : kOtherWeightsFiles) {
    if (FileExists(beside + other)) return beside + other;
  }
  return path;
}

std::string TellAdaptersBelow(const std::string& path) {
  constexpr int kLookedAtMax = 1000;
  constexpr size_t kNamedMax = 5;
  std::vector<std::string> found;
  std::error_code error;
  int num_looked_at = 0;
  for (std::filesystem::directory_iterator it(path, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    if (++num_looked_at > kLookedAtMax) break;
    const std::string folder = it->path().string();
    if (FileExists(folder + "/" + kPeftFiles[0]) || FileExists(folder + "/" + kBundleManifest)) {
      found.push_back(it->path().filename().string());
    }
  }
  if (found.empty()) return "";
  std::sort(found.begin(), found.end());
  const size_t num_named = std::min(found.size(), kNamedMax);
  const size_t others = found.size() - num_named;
  std::string names = Joined(std::span(found).first(num_named), ", ");
  if (others > 0) names += " and " + std::to_string(others) + " more";
  return "it is no adapter, but folders in it are: " + names +
         "; name one of these, or link to it from the adapters folder";
}

}  // namespace graft
