// Finds the calls of tools in a text, byte by byte, and passes on what is none. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/output/call_reader.h"

namespace graft {

class CallParser {
 public:
  // Where text and calls go, in their order.
  struct Output {
    std::function<void(std::string_view text)> text;
    std::function<void(OutputPart part)> call;
  };

  CallParser(std::vector<CallOpener> openers, Output output);

  void Push(char c);
  // What comes next belongs to what may be a call.
  bool is_reading() const { return reader_ != nullptr; }
  // The text ends. Nothing may be pushed behind it.
  void Finish();

 private:
  void PushText(char c);
  void PushToReader(char c);
  // `raw_` turned out to be no call, or the end of one that is dropped.
  void GiveRaw(bool at_end);
  void CloseReader();
  // Passes the reader's parts on. Whether a call was completed.
  bool TakeParts();

  const std::vector<CallOpener> openers_;
  const Output output_;
  std::string held_;  // what may become an opening mark
  // What is read since the last whole call, with its opening mark.
  std::string raw_;
  bool is_control_ = false;  // the mark that began `reader_` is one
  OutputParts parts_;
  CallWriter writer_{&parts_};
  std::unique_ptr<CallReader> reader_;
};

}  // namespace graft
