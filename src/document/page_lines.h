// PageLines: a page's text as it grows: lines, blank ones, and one space where a page has many. One
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace graft {

class PageLines {
 public:
  // Valid UTF-8. In preformatted text white space stays; elsewhere it is one space.
  void Add(std::string_view text, bool is_preformatted);
  // Ends the line if there is one, so that `num_ends` line ends stand there: 1, or 2 with a blank
  // line.
  void Begin(int num_ends);
  // One more line end, but no second blank line.
  void Break();

  std::string Take();
  // How many characters were looked at again.
  int64_t looks() const { return looks_; }

 private:
  void AddSpace(char c, bool is_preformatted);
  // Line ends at the end, 2 at most.
  int NumEnds();

  std::string text_;
  int64_t looks_ = 0;
};

}  // namespace graft
