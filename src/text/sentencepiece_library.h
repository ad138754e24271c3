// One model of the sentencepiece library, behind an interface without the library's headers. The
// library brings a protobuf of its own and shows it to the whole process. If the process has
// another protobuf (gRPC's), the code behind this interface is in a library that is opened
// separately, libgraft_sentencepiece.so.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace graft {

// Thread-safe once loaded.
class SentencePieceLibrary {
 public:
  virtual ~SentencePieceLibrary() = default;
  // What these return says is what went wrong; "": nothing.
  virtual std::string Load(std::string_view model_bytes) = 0;
  virtual std::string Encode(std::string_view text, std::vector<int>* ids) const = 0;
  virtual std::string Encode(std::string_view text, std::vector<std::string>* pieces) const = 0;

  virtual int PieceToId(std::string_view piece) const = 0;
  virtual const std::string& IdToPiece(int id) const = 0;
  virtual int GetPieceSize() const = 0;
  virtual bool IsByte(int id) const = 0;
  virtual bool IsControl(int id) const = 0;
  virtual bool IsUnknown(int id) const = 0;
  virtual int bos_id() const = 0;
  virtual int eos_id() const = 0;
};

// kUnimplemented, with the reason, where the library is not there.
Result<std::unique_ptr<SentencePieceLibrary>> OpenSentencePiece();

}  // namespace graft

extern "C" graft::SentencePieceLibrary* graft_new_sentencepiece();
