// What reads the calls of a format: a reader gets the bytes behind a format's opening mark one by
// one and says when they are a call, or that they are none. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/output/output_part.h"

namespace graft {

// Takes calls from a reader as parts.
class CallWriter {
 public:
  explicit CallWriter(OutputParts* parts) : parts_(*parts) {}

  void Begin(std::string_view name);
  void Arguments(std::string_view json) { AppendPart(OutputPart::Kind::kArguments, json, &parts_); }
  // The call is whole: no byte of it is text any more.
  void End();
  // A whole call at once.
  void Call(std::string_view name, std::string_view arguments);

  // The call that has begun is none.
  void Drop() { is_open_ = false; }
  bool is_open() const { return is_open_; }  // between Begin and End

 private:
  OutputParts& parts_;
  bool is_open_ = false;
};

class CallReader {
 public:
  enum class Step {
    kMore,
    kDone,         // the byte was the last of what the reader reads
    kNoCall,       // what came since the last whole call is text; the byte is looked at anew
    kEndedBefore,  // all that came since the last whole call is looked at anew
  };

  virtual ~CallReader() = default;
  virtual Step Push(char c, CallWriter* out) = 0;
  // The text ends: a call that lacks only its closing mark is written. Whether no text is left of
  // what came since the last whole call.
  virtual bool Finish(CallWriter* out) = 0;
};

// Where a reader begins.
struct CallOpener {
  std::string_view mark;
  // Whether the mark belongs to calls alone, so that half a call after it is not shown.
  bool is_control = true;
  std::function<std::unique_ptr<CallReader>()> make;
};

// Reads white space and then `mark`, or ends before both.
class ClosingMark {
 public:
  explicit ClosingMark(std::string_view mark) : mark_(mark) {}

  CallReader::Step Push(char c);

 private:
  std::string_view mark_;
  size_t num_read_ = 0;
};

// Openers of the formats. `tools` must outlive them: where no mark says that a text is a call, it
// is one only if it names one of them.
std::vector<CallOpener> HermesOpeners();
std::vector<CallOpener> LlamaOpeners(const std::vector<ToolSpec>& tools);
std::vector<CallOpener> MistralOpeners();
std::vector<CallOpener> DeepSeekOpeners();
std::vector<CallOpener> PythonicOpeners(const std::vector<ToolSpec>& tools);
std::vector<CallOpener> GemmaOpeners(const std::vector<ToolSpec>& tools);
std::vector<CallOpener> QwenCoderOpeners(const std::vector<ToolSpec>& tools);
std::vector<CallOpener> GlmOpeners(const std::vector<ToolSpec>& tools);

}  // namespace graft
