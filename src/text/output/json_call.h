// Parts of calls that are JSON: the arguments alone, and {"name": ..., "arguments": {...}}. What
// the model wrote goes on as it came, as soon as it is certain to be a call's. One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/output/call_reader.h"
#include "text/output/json_scanner.h"

namespace graft {

// The value of "arguments". It is held back until the function's name is known and, so that little
// is taken for a call that is none, until the first byte within an object fits.
class JsonArguments {
 public:
  JsonScanner::Step Push(char c, CallWriter* out);
  // The same where a call's JSON is its arguments alone: their end, kDone, is the call's.
  CallReader::Step PushWholeCall(char c, CallWriter* out);
  void SetName(std::string name, CallWriter* out);
  const std::string& name() const { return name_; }
  bool complete() const { return complete_; }
  // Writes what is left of the call; without arguments these are {}.
  void EndCall(CallWriter* out);

 private:
  void Flush(CallWriter* out);
  void UnwrapText();

  JsonScanner scanner_;
  std::string name_;
  std::string held_;
  bool is_object_ = false;
  bool is_certain_ = false;
  bool begun_ = false;
  bool complete_ = false;
};

// A whole object. "parameters" is another word for "arguments"; keys may come in any order.
class JsonCall {
 public:
  using Step = CallReader::Step;  // kNoCall: it is none

  // `known`, where given: no mark says that this is a call. It is one if it names one of these
  // tools, and has arguments and no key that no call has.
  explicit JsonCall(const std::vector<ToolSpec>* known = nullptr) : known_(known) {}

  Step Push(char c, CallWriter* out);
  // Writes a call that lacks only its last brackets. Whether there was one.
  bool Finish(CallWriter* out);

 private:
  enum class State { kOpen, kKeyOrEnd, kKey, kKeyText, kColon, kValue, kValueText, kCommaOrEnd };
  enum class Field { kName, kArguments, kOther };

  Step PushKeyText(char c);
  Step PushValueText(char c, CallWriter* out);
  Step PushCommaOrEnd(char c, CallWriter* out);
  Step BeginKey(char c);
  Step EndKey();
  Step EndValue(CallWriter* out);
  Step EndCall(CallWriter* out);

  const std::vector<ToolSpec>* known_;
  State state_ = State::kOpen;
  Field field_ = Field::kOther;
  JsonScanner scanner_;
  std::string text_;  // of a key or a name
  bool has_arguments_ = false;
  JsonArguments arguments_;
};

// Reads an opening mark's JSON call and the mark that closes it, which may be missing.
std::unique_ptr<CallReader> NewMarkedJsonReader(std::string_view closing_mark,
                                                const std::vector<ToolSpec>* known);

}  // namespace graft
