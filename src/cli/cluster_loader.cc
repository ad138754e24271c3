#include "cli/cluster_loader.h"

#include <dlfcn.h>

#include <string>

#include "base/shared_library.h"

namespace graft {
Result<const ClusterLibrary*> LoadClusterLibrary() {
  void* const library =
      dlopen(FindSharedLibrary("libgraft_cluster.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return UnimplementedError(
        "serving with several machines needs libgraft_cluster.so beside the program, and gRPC "
        "(`make build` makes it): " +
        SharedLibraryError());
  }
  using Version = const char* (*)();
  using Entry = const ClusterLibrary* (*)();
  const auto version = reinterpret_cast<Version>(dlsym(library, "graft_cluster_library_version"));
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "graft_cluster_library"));
  if (version == nullptr || entry == nullptr) {
    return FailedPreconditionError("libgraft_cluster.so is another program's: " +
                                   SharedLibraryError());
  }
  if (std::string(version()) != GRAFT_VERSION) {
    return FailedPreconditionError(std::string("libgraft_cluster.so is of version ") + version() +
                                   ", this program of " GRAFT_VERSION "; install both anew");
  }
  return entry();
}

}  // namespace graft
