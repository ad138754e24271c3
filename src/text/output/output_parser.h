// An assistant's output as a stream: text in, content, reasoning and calls out, as soon as they are
// certain. How the text is cut into pieces changes nothing of what comes out. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/output/call_parser.h"
#include "text/output/output_format.h"
#include "text/output/output_part.h"
#include "text/output/reasoning_splitter.h"

namespace graft {

struct OutputOptions {
  ToolFormat tool_format = ToolFormat::kNone;
  ReasoningFormat reasoning_format = ReasoningFormat::kNone;
  bool in_reasoning = false;     // the prompt ends with the opening mark
  bool drops_reasoning = false;  // it is left out
  bool has_one_call = false;     // the first call is the last
  std::vector<ToolSpec> tools;   // without any there are no calls
};

class OutputParser {
 public:
  // Several choices share the options, which do not change.
  explicit OutputParser(std::shared_ptr<const OutputOptions> options);
  OutputParser(const OutputParser&) = delete;
  OutputParser& operator=(const OutputParser&) = delete;

  void Push(std::string_view text, OutputParts* parts);
  // The text ends.
  void Finish(OutputParts* parts);
  // Whole calls so far.
  int num_calls() const { return num_calls_; }

 private:
  // Text without its outer white space, which belongs to the marks around it.
  struct Channel {
    std::string blanks;  // that may turn out to be the last
    bool has_text = false;
  };

  void AddText(OutputPart::Kind kind, std::string_view text, Channel* channel);
  void AddCall(OutputPart part);

  const std::shared_ptr<const OutputOptions> options_;
  CallParser calls_;
  ReasoningSplitter splitter_;
  OutputParts* parts_ = nullptr;  // of the Push or Finish that runs
  Channel content_;
  Channel reasoning_;
  bool had_reasoning_ = false;
  int num_begun_ = 0;
  int num_calls_ = 0;
};

}  // namespace graft
