// The sentencepiece library that is linked into the program.
#include "text/sentencepiece_library.h"

namespace graft {

Result<std::unique_ptr<SentencePieceLibrary>> OpenSentencePiece() {
  return std::unique_ptr<SentencePieceLibrary>(graft_new_sentencepiece());
}

}  // namespace graft
