// Calls that are written as in Python: name(key=value, ...) with literals as values. A list of them
// is known to be calls only at its end, so nothing of it goes on before. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/output/call_reader.h"

namespace graft {

// Follows brackets and strings of Python up to the end of the outermost bracket.
class PythonScanner {
 public:
  using Step = CallReader::Step;  // kMore, kDone, or kNoCall for what is none of Python
  Step Push(char c);

 private:
  enum class Quote { kNone, kOpened, kMaybeTriple, kSingle, kTriple };

  Step PushQuoted(char c);
  Step PushCode(char c);

  std::string brackets_;
  Quote quote_ = Quote::kNone;
  char mark_ = 0;         // of the string
  bool escaped_ = false;  // the next byte is
  int num_marks_ = 0;     // in a row, of kTriple
};

// A function's name, and its arguments as JSON.
using PythonCall = std::pair<std::string, std::string>;

// One call, or a list of them in brackets; nothing where `text` is not just that. What JSON has no
// word for (sets, bytes, numbers that are not finite) makes a text none.
std::optional<std::vector<PythonCall>> ParsePythonCalls(std::string_view text);

struct PythonReaderOptions {
  std::string_view closing_mark;  // behind the call, "" for none; it may be missing
  bool is_list = false;           // the opening bracket of a list was read already
  bool needs_known = false;       // no mark says that this is a call: it must name a tool
  bool is_builtin = false;        // the name of one call ends in ".call", which is left out
};
std::unique_ptr<CallReader> NewPythonReader(const PythonReaderOptions& options,
                                            const std::vector<ToolSpec>& tools);

}  // namespace graft
