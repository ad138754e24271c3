// The sentencepiece library that lies apart from the program, and is opened at run time.
#include <dlfcn.h>

#include "base/shared_library.h"
#include "text/sentencepiece_library.h"

namespace graft {

Result<std::unique_ptr<SentencePieceLibrary>> OpenSentencePiece() {
  const std::string place = FindSharedLibrary("libgraft_sentencepiece.so");
  void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const entry = library == nullptr ? nullptr : dlsym(library, "graft_new_sentencepiece");
  if (entry == nullptr) {
    return UnimplementedError(
        "a sentencepiece tokenizer.model needs libgraft_sentencepiece.so beside the program: " +
        SharedLibraryError());
  }
  using Make = SentencePieceLibrary* (*)();
  return std::unique_ptr<SentencePieceLibrary>(reinterpret_cast<Make>(entry)());
}

}  // namespace graft
