// The sentencepiece library that lies apart from the program, and is opened at run time.
#include <dlfcn.h>

#include <filesystem>

#include "text/sentencepiece_library.h"

namespace graft {

Result<std::unique_ptr<SentencePieceLibrary>> OpenSentencePiece() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string place = (program.parent_path() / "libgraft_sentencepiece.so").string();
  if (!std::filesystem::exists(place, error)) {
    place = (program.parent_path() / "../lib/graft/libgraft_sentencepiece.so").string();
  }
  void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const entry = library == nullptr ? nullptr : dlsym(library, "graft_new_sentencepiece");
  if (entry == nullptr) {
    const char* const why = dlerror();
    return UnimplementedError(
        std::string("a sentencepiece tokenizer.model needs libgraft_sentencepiece.so beside the "
                    "program: ") +
        (why == nullptr ? "" : why));
  }
  using Make = SentencePieceLibrary* (*)();
  return std::unique_ptr<SentencePieceLibrary>(reinterpret_cast<Make>(entry)());
}

}  // namespace graft
