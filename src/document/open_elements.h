// OpenElements: which of a page's elements are open, by HTML's rules of which tag ends which
// element, as far as these rules decide what is shown. An element's place in the nesting is looked
// up, not searched for, so that a tag costs a bounded number of moves in a page of any depth. One
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "document/html_tags.h"

namespace graft {

class OpenElements {
 public:
  // A tag that begins an element with content; it first ends what cannot contain it. `hides`: by an
  // attribute or by its kind it is not shown.
  void Open(HtmlTag tag, bool hides);
  // A tag that ends an element, and those in it. Returns whether that is seen: false where the
  // element was hidden or is not open.
  bool Close(HtmlTag tag);

  bool is_hidden() const { return num_hidden_ > 0; }
  bool is_preformatted() const { return num_preformatted_ > 0; }
  // Within svg or math, and not in HTML again within those.
  bool is_foreign() const;
  // Elements that began or ended.
  int64_t moves() const { return moves_; }

 private:
  struct Element {
    HtmlTag tag;
    bool hides;
    bool is_open;  // formatting elements end below others, which stay
  };
  static constexpr size_t kNumScopes = 6;

  // The place of the innermost open element, counted from 1; 0: none is open.
  size_t Last(HtmlTag tag) const;
  size_t LastOf(const std::vector<uint32_t>& places) const;
  // The tag on top, 0 if there is none.
  HtmlTag Top();
  void EndAtTop(HtmlTag tag);
  void EndImplied(HtmlTag tag, uint32_t marks);
  void EndTableParts(HtmlTag tag);
  // Ends the elements from this place on.
  void EndFrom(size_t place);
  void Leave(const Element& element);

  std::vector<Element> elements_;
  std::vector<std::vector<uint32_t>> places_;            // of each tag, the innermost last
  std::array<std::vector<uint32_t>, kNumScopes> walls_;  // of each of kWalls in the source
  int64_t num_hidden_ = 0;
  int64_t num_preformatted_ = 0;
  int64_t moves_ = 0;
};

}  // namespace graft
