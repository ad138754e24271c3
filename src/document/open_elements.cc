#include "document/open_elements.h"

#include <lexbor/tag/const.h>

#include <algorithm>
#include <initializer_list>

namespace graft {
namespace {

// For each of these marks the innermost element that bears it is known at all times.
enum Wall { kScopeWall, kButtonWall, kListWall, kTableWall, kSpecialWall, kForeignWall };
constexpr uint32_t kWalls[] = {html_tag::kScope,     html_tag::kButtonScope,
                               html_tag::kListScope, html_tag::kTableScope,
                               html_tag::kSpecial,   html_tag::kForeign | html_tag::kHtmlAgain};

bool Has(HtmlTag tag, uint32_t marks) { return (HtmlTagMarks(tag) & marks) != 0; }

}  // namespace

size_t OpenElements::LastOf(const std::vector<uint32_t>& places) const {
  return places.empty() ? 0 : places.back();
}

size_t OpenElements::Last(HtmlTag tag) const {
  return tag < places_.size() ? LastOf(places_[tag]) : 0;
}

HtmlTag OpenElements::Top() {
  while (!elements_.empty() && !elements_.back().is_open) elements_.pop_back();
  return elements_.empty() ? 0 : elements_.back().tag;
}

bool OpenElements::is_foreign() const {
  const size_t place = LastOf(walls_[kForeignWall]);
  return place > 0 && Has(elements_[place - 1].tag, html_tag::kForeign);
}

void OpenElements::Leave(const Element& element) {
  const uint32_t marks = HtmlTagMarks(element.tag);
  places_[element.tag].pop_back();
  for (size_t wall = 0; wall < kNumScopes; ++wall) {
    if ((marks & kWalls[wall]) != 0) walls_[wall].pop_back();
  }
  if (element.hides) --num_hidden_;
  if ((marks & html_tag::kPreformatted) != 0) --num_preformatted_;
  ++moves_;
}

void OpenElements::EndFrom(size_t place) {
  while (elements_.size() >= place) {
    if (elements_.back().is_open) Leave(elements_.back());
    elements_.pop_back();
  }
}

void OpenElements::EndAtTop(HtmlTag tag) {
  if (Top() == tag) EndFrom(elements_.size());
}

void OpenElements::EndTableParts(HtmlTag tag) {
  const auto end = [&](std::initializer_list<HtmlTag> tags) {
    for (const HtmlTag part : tags) {
      const size_t place = Last(part);
      if (place > LastOf(walls_[kTableWall])) EndFrom(place);
    }
  };
  end({LXB_TAG_TD, LXB_TAG_TH, LXB_TAG_CAPTION});
  if (tag == LXB_TAG_TD || tag == LXB_TAG_TH) return;
  end({LXB_TAG_TR});
  if (tag == LXB_TAG_TR) return;
  end({LXB_TAG_TBODY, LXB_TAG_THEAD, LXB_TAG_TFOOT});
}

void OpenElements::EndImplied(HtmlTag tag, uint32_t marks) {
  if ((marks & html_tag::kEndsForeign) != 0) {
    while (is_foreign()) EndFrom(LastOf(walls_[kForeignWall]));
  }
  if ((marks & html_tag::kTablePart) != 0 && tag != LXB_TAG_TABLE) EndTableParts(tag);
  size_t item = 0;
  if (tag == LXB_TAG_LI) item = Last(LXB_TAG_LI);
  if (tag == LXB_TAG_DD || tag == LXB_TAG_DT) item = std::max(Last(LXB_TAG_DD), Last(LXB_TAG_DT));
  if (item > 0 && item >= LastOf(walls_[kListWall])) EndFrom(item);
  if ((marks & html_tag::kEndsP) != 0 && Last(LXB_TAG_P) > LastOf(walls_[kButtonWall])) {
    EndFrom(Last(LXB_TAG_P));
  }
  if ((marks & html_tag::kHeading) != 0 && Has(Top(), html_tag::kHeading)) {
    EndFrom(elements_.size());
  }
  if (tag == LXB_TAG_OPTION || tag == LXB_TAG_OPTGROUP) EndAtTop(LXB_TAG_OPTION);
  if (tag == LXB_TAG_OPTGROUP) EndAtTop(LXB_TAG_OPTGROUP);
  if (tag == LXB_TAG_RT || tag == LXB_TAG_RP || tag == LXB_TAG_RB) {
    for (const HtmlTag part : {LXB_TAG_RT, LXB_TAG_RP, LXB_TAG_RB}) EndAtTop(part);
  }
}

void OpenElements::Open(HtmlTag tag, bool hides) {
  const uint32_t marks = HtmlTagMarks(tag);
  EndImplied(tag, marks);
  elements_.push_back({tag, hides, true});
  const auto place = static_cast<uint32_t>(elements_.size());
  if (tag >= places_.size()) places_.resize(tag + 1);
  places_[tag].push_back(place);
  for (size_t wall = 0; wall < kNumScopes; ++wall) {
    if ((marks & kWalls[wall]) != 0) walls_[wall].push_back(place);
  }
  if (hides) ++num_hidden_;
  if ((marks & html_tag::kPreformatted) != 0) ++num_preformatted_;
  ++moves_;
}

bool OpenElements::Close(HtmlTag tag) {
  const uint32_t marks = HtmlTagMarks(tag);
  const size_t place = Last(tag);
  // A page's body has no end before the page's. An end alone is nothing, but an empty paragraph.
  if (place == 0 || tag == LXB_TAG_BODY || tag == LXB_TAG_HTML) {
    return tag == LXB_TAG_P && !is_hidden();
  }
  size_t wall = 0;
  if ((marks & html_tag::kTablePart) != 0) {
    wall = LastOf(walls_[kTableWall]);
  } else if (tag == LXB_TAG_P) {
    wall = LastOf(walls_[kButtonWall]);
  } else if ((marks & (html_tag::kLeftOut | html_tag::kHtmlAgain)) == 0) {
    wall =
        LastOf(walls_[(marks & (html_tag::kSpecial | html_tag::kFormatting)) != 0 ? kScopeWall
                                                                                  : kSpecialWall]);
  }
  if (place < wall) return tag == LXB_TAG_P && !is_hidden();
  if ((marks & html_tag::kFormatting) != 0 && place < elements_.size()) {
    Element& element = elements_[place - 1];
    const bool hides = element.hides;
    Leave(element);
    element.is_open = false;
    return !hides && !is_hidden();
  }
  EndFrom(place + 1);
  const bool was_shown = !is_hidden();
  EndFrom(place);
  return was_shown;
}

}  // namespace graft
