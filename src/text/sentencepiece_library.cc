#include "text/sentencepiece_library.h"

#include <sentencepiece_processor.h>

namespace graft {
namespace {

std::string MessageOf(const sentencepiece::util::Status& status) {
  return status.ok() ? "" : std::string("sentencepiece: ") + status.message();
}

class LinkedSentencePiece : public SentencePieceLibrary {
 public:
  std::string Load(std::string_view model_bytes) override {
    return MessageOf(processor_.LoadFromSerializedProto(model_bytes));
  }
  std::string Encode(std::string_view text, std::vector<int>* ids) const override {
    return MessageOf(processor_.Encode(text, ids));
  }
  std::string Encode(std::string_view text, std::vector<std::string>* pieces) const override {
    return MessageOf(processor_.Encode(text, pieces));
  }
  int PieceToId(std::string_view piece) const override { return processor_.PieceToId(piece); }
  const std::string& IdToPiece(int id) const override { return processor_.IdToPiece(id); }
  int GetPieceSize() const override { return processor_.GetPieceSize(); }
  bool IsByte(int id) const override { return processor_.IsByte(id); }
  bool IsControl(int id) const override { return processor_.IsControl(id); }
  bool IsUnknown(int id) const override { return processor_.IsUnknown(id); }
  int bos_id() const override { return processor_.bos_id(); }
  int eos_id() const override { return processor_.eos_id(); }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace
}  // namespace graft

graft::SentencePieceLibrary* graft_new_sentencepiece() { return new graft::LinkedSentencePiece; }
