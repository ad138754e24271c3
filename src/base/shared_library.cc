#include "base/shared_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

namespace graft {

std::string FindSharedLibrary(const std::string& name, const std::string& build_folder) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path folder = program.parent_path();
  std::vector<std::filesystem::path> places = {folder / name, folder / "../lib/graft" / name};
  if (!build_folder.empty()) places.push_back(folder / ".." / build_folder / name);
  for (const std::filesystem::path& place : places) {
    if (std::filesystem::exists(place, error)) return place.string();
  }
  return name;
}

std::string SharedLibraryError() {
  const char* const error = dlerror();
  return error == nullptr ? "" : error;
}

}  // namespace graft
