#include "cli/cluster_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

namespace graft {
namespace {

constexpr char kLibraryName[] = "libgraft_cluster.so";

// Beside the program, or where packages keep libraries.
std::string FindLibrary() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path folder = program.parent_path();
  for (const auto& place : {folder / kLibraryName, folder / "../lib/graft" / kLibraryName}) {
    if (std::filesystem::exists(place, error)) return place.string();
  }
  return kLibraryName;
}

std::string LastError() {
  const char* const error = dlerror();
  return error == nullptr ? "" : error;
}

}  // namespace

Result<const ClusterLibrary*> LoadClusterLibrary() {
  void* const library = dlopen(FindLibrary().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return UnimplementedError(
        "serving with several machines needs libgraft_cluster.so beside the program, and gRPC "
        "(`make build` makes it): " +
        LastError());
  }
  using Version = const char* (*)();
  using Entry = const ClusterLibrary* (*)();
  const auto version = reinterpret_cast<Version>(dlsym(library, "graft_cluster_library_version"));
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "graft_cluster_library"));
  if (version == nullptr || entry == nullptr) {
    return FailedPreconditionError("libgraft_cluster.so is another program's: " + LastError());
  }
  if (std::string(version()) != GRAFT_VERSION) {
    return FailedPreconditionError(std::string("libgraft_cluster.so is of version ") + version() +
                                   ", this program of " GRAFT_VERSION "; install both anew");
  }
  return entry();
}

}  // namespace graft
