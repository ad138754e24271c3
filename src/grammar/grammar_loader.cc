#include "grammar/grammar_loader.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/log.h"
#include "base/shared_library.h"

namespace graft {
namespace {

std::string FindLibrary() {
  const char* const path = std::getenv("GRAFT_GRAMMAR_LIBRARY");
  return path != nullptr ? path : FindSharedLibrary("libgraft_grammar.so", "grammar");
}

}  // namespace

Result<const GrammarLibrary*> LoadGrammarLibrary(const std::string& path) {
  void* const library =
      dlopen((path.empty() ? FindLibrary() : path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    LOG_WARN("no grammars: {}", SharedLibraryError());  // with a path, which clients need not know
    return UnimplementedError(
        "answers in a given form (response_format, structured_outputs and their like) need "
        "libgraft_grammar.so beside the server's program, and `make grammar` builds it");
  }
  using Interface = int (*)();
  using Entry = const GrammarLibrary* (*)();
  const auto number = reinterpret_cast<Interface>(dlsym(library, "graft_grammar_interface"));
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "graft_grammar_library"));
  if (number == nullptr || entry == nullptr) {
    return FailedPreconditionError("libgraft_grammar.so is another program's: " +
                                   SharedLibraryError());
  }
  if (number() != kGrammarInterface) {
    return FailedPreconditionError(
        "libgraft_grammar.so is of another version than the server; `make grammar` builds it anew");
  }
  return entry();
}

}  // namespace graft
