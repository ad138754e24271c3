#include "grammar/grammar_loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "base/log.h"

namespace graft {
namespace {

constexpr char kLibraryName[] = "libgraft_grammar.so";

// Of a build folder's programs it lies in its neighbour.
std::string FindLibrary() {
  if (const char* const path = std::getenv("GRAFT_GRAMMAR_LIBRARY")) return path;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path folder = program.parent_path();
  for (const auto& place : {folder / kLibraryName, folder / "../lib/graft" / kLibraryName,
                            folder / "../grammar" / kLibraryName}) {
    if (std::filesystem::exists(place, error)) return place.string();
  }
  return kLibraryName;
}

std::string LastError() {
  const char* const error = dlerror();
  return error == nullptr ? "" : error;
}

}  // namespace

Result<const GrammarLibrary*> LoadGrammarLibrary(const std::string& path) {
  void* const library =
      dlopen((path.empty() ? FindLibrary() : path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    LOG_WARN("no grammars: {}", LastError());  // with a path, which clients need not know
    return UnimplementedError(
        "answers in a given form (response_format, structured_outputs and their like) need "
        "libgraft_grammar.so beside the server's program, and `make grammar` builds it");
  }
  using Interface = int (*)();
  using Entry = const GrammarLibrary* (*)();
  const auto number = reinterpret_cast<Interface>(dlsym(library, "graft_grammar_interface"));
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "graft_grammar_library"));
  if (number == nullptr || entry == nullptr) {
    return FailedPreconditionError("libgraft_grammar.so is another program's: " + LastError());
  }
  if (number() != kGrammarInterface) {
    return FailedPreconditionError(
        "libgraft_grammar.so is of another version than the server; `make grammar` builds it anew");
  }
  return entry();
}

}  // namespace graft
