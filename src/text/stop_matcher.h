// Watches a stream of text for stop strings, which may lie across its pieces: what may be the start
// of a stop is held back until it is known not to be. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft {

class StopMatcher {
 public:
  // Empty stop strings are ignored. `include_stop_text`: the stop that matched ends the output.
  StopMatcher(std::vector<std::string> stops, bool include_stop_text);

  struct Output {
    std::string text;  // safe to send
    bool stopped;      // a stop has matched; whatever follows is dropped
  };
  // The stop that is complete first counts and, of stops that end together, the longest. So the
  // result does not depend on how the text is cut into pieces.
  Output Push(std::string_view text);
  // The text held back, at the end of a stream that did not stop.
  std::string Flush();

 private:
  size_t HeldBytes(std::string_view text) const;

  std::vector<std::string> stops_;
  bool include_stop_text_;
  bool stopped_ = false;
  std::string held_;
};

}  // namespace graft
