#include "document/html_tags.h"

#include <lexbor/tag/const.h>

#include <array>
#include <initializer_list>

namespace graft {
namespace {

using namespace html_tag;  // NOLINT(google-build-using-namespace): the table below is of its names

using Tags = std::initializer_list<uint32_t>;
using Table = std::array<uint32_t, LXB_TAG__LAST_ENTRY>;

constexpr void Mark(Table& table, uint32_t marks, Tags tags) {
  for (const uint32_t tag : tags) table[tag] |= marks;
}

constexpr void MarkLines(Table& table) {
  Mark(table, kBlock | kEndsP | kSpecial,
       {LXB_TAG_ADDRESS, LXB_TAG_ARTICLE, LXB_TAG_ASIDE,  LXB_TAG_BLOCKQUOTE, LXB_TAG_CENTER,
        LXB_TAG_DETAILS, LXB_TAG_DIALOG,  LXB_TAG_DIR,    LXB_TAG_DIV,        LXB_TAG_DL,
        LXB_TAG_DD,      LXB_TAG_DT,      LXB_TAG_LI,     LXB_TAG_FIELDSET,   LXB_TAG_FIGCAPTION,
        LXB_TAG_FIGURE,  LXB_TAG_FOOTER,  LXB_TAG_FORM,   LXB_TAG_HEADER,     LXB_TAG_HGROUP,
        LXB_TAG_HR,      LXB_TAG_LISTING, LXB_TAG_MAIN,   LXB_TAG_MENU,       LXB_TAG_NAV,
        LXB_TAG_OL,      LXB_TAG_P,       LXB_TAG_SEARCH, LXB_TAG_SECTION,    LXB_TAG_SUMMARY,
        LXB_TAG_TABLE,   LXB_TAG_UL,      LXB_TAG_H1,     LXB_TAG_H2,         LXB_TAG_H3,
        LXB_TAG_H4,      LXB_TAG_H5,      LXB_TAG_H6,     LXB_TAG_PLAINTEXT,  LXB_TAG_PRE,
        LXB_TAG_XMP});
  Mark(table, kBlock | kSpecial,
       {LXB_TAG_BODY, LXB_TAG_CAPTION, LXB_TAG_FRAMESET, LXB_TAG_HEAD, LXB_TAG_HTML, LXB_TAG_SELECT,
        LXB_TAG_TBODY, LXB_TAG_TEXTAREA, LXB_TAG_TFOOT, LXB_TAG_THEAD, LXB_TAG_TR, LXB_TAG_TITLE});
  Mark(table, kBlock, {LXB_TAG_LEGEND, LXB_TAG_OPTGROUP, LXB_TAG_OPTION});
  Mark(table, kParagraph,
       {LXB_TAG_P, LXB_TAG_H1, LXB_TAG_H2, LXB_TAG_H3, LXB_TAG_H4, LXB_TAG_H5, LXB_TAG_H6,
        LXB_TAG_TITLE});
  Mark(table, kHeading, {LXB_TAG_H1, LXB_TAG_H2, LXB_TAG_H3, LXB_TAG_H4, LXB_TAG_H5, LXB_TAG_H6});
  Mark(table, kCell | kSpecial, {LXB_TAG_TD, LXB_TAG_TH});
  Mark(table, kPreformatted,
       {LXB_TAG_LISTING, LXB_TAG_PLAINTEXT, LXB_TAG_PRE, LXB_TAG_TEXTAREA, LXB_TAG_XMP});
}

constexpr void MarkContents(Table& table) {
  Mark(table, kVoid,
       {LXB_TAG_AREA, LXB_TAG_BASE, LXB_TAG_BASEFONT, LXB_TAG_BGSOUND, LXB_TAG_BR, LXB_TAG_COL,
        LXB_TAG_EMBED, LXB_TAG_FRAME, LXB_TAG_HR, LXB_TAG_IMAGE, LXB_TAG_IMG, LXB_TAG_INPUT,
        LXB_TAG_KEYGEN, LXB_TAG_LINK, LXB_TAG_META, LXB_TAG_PARAM, LXB_TAG_SOURCE, LXB_TAG_TRACK,
        LXB_TAG_WBR});
  Mark(table, kLeftOut | kSpecial,
       {LXB_TAG_IFRAME, LXB_TAG_NOEMBED, LXB_TAG_NOFRAMES, LXB_TAG_NOSCRIPT, LXB_TAG_SCRIPT,
        LXB_TAG_STYLE, LXB_TAG_TEMPLATE});
  // What stands in these is for browsers that do not know them, or for a menu of the page.
  Mark(table, kLeftOut, {LXB_TAG_AUDIO, LXB_TAG_CANVAS, LXB_TAG_DATALIST, LXB_TAG_VIDEO});
  Mark(table, kFormatting,
       {LXB_TAG_A, LXB_TAG_B, LXB_TAG_BIG, LXB_TAG_CODE, LXB_TAG_EM, LXB_TAG_FONT, LXB_TAG_I,
        LXB_TAG_NOBR, LXB_TAG_S, LXB_TAG_SMALL, LXB_TAG_STRIKE, LXB_TAG_STRONG, LXB_TAG_TT,
        LXB_TAG_U});
  Mark(table, kSpecial, {LXB_TAG_APPLET, LXB_TAG_BUTTON, LXB_TAG_MARQUEE, LXB_TAG_OBJECT});
}

constexpr void MarkForeign(Table& table) {
  Mark(table, kForeign | kLeftOut, {LXB_TAG_MATH, LXB_TAG_SVG});
  Mark(table, kHtmlAgain | kScope | kButtonScope | kListScope | kSpecial,
       {LXB_TAG_ANNOTATION_XML, LXB_TAG_DESC, LXB_TAG_FOREIGNOBJECT, LXB_TAG_MI, LXB_TAG_MN,
        LXB_TAG_MO, LXB_TAG_MS, LXB_TAG_MTEXT});
  Mark(table, kEndsForeign,
       {LXB_TAG_B,      LXB_TAG_BIG,    LXB_TAG_BLOCKQUOTE, LXB_TAG_BODY,  LXB_TAG_BR,
        LXB_TAG_CENTER, LXB_TAG_CODE,   LXB_TAG_DD,         LXB_TAG_DIV,   LXB_TAG_DL,
        LXB_TAG_DT,     LXB_TAG_EM,     LXB_TAG_EMBED,      LXB_TAG_H1,    LXB_TAG_H2,
        LXB_TAG_H3,     LXB_TAG_H4,     LXB_TAG_H5,         LXB_TAG_H6,    LXB_TAG_HEAD,
        LXB_TAG_HR,     LXB_TAG_I,      LXB_TAG_IMG,        LXB_TAG_LI,    LXB_TAG_LISTING,
        LXB_TAG_MENU,   LXB_TAG_META,   LXB_TAG_NOBR,       LXB_TAG_OL,    LXB_TAG_P,
        LXB_TAG_PRE,    LXB_TAG_RUBY,   LXB_TAG_S,          LXB_TAG_SMALL, LXB_TAG_SPAN,
        LXB_TAG_STRIKE, LXB_TAG_STRONG, LXB_TAG_SUB,        LXB_TAG_SUP,   LXB_TAG_TABLE,
        LXB_TAG_TT,     LXB_TAG_U,      LXB_TAG_UL,         LXB_TAG_VAR});
}

constexpr void MarkScopes(Table& table) {
  Mark(table, kTablePart,
       {LXB_TAG_CAPTION, LXB_TAG_TABLE, LXB_TAG_TBODY, LXB_TAG_TD, LXB_TAG_TFOOT, LXB_TAG_TH,
        LXB_TAG_THEAD, LXB_TAG_TR});
  Mark(table, kScope | kButtonScope | kListScope,
       {LXB_TAG_APPLET, LXB_TAG_CAPTION, LXB_TAG_HTML, LXB_TAG_MARQUEE, LXB_TAG_OBJECT,
        LXB_TAG_TABLE, LXB_TAG_TD, LXB_TAG_TEMPLATE, LXB_TAG_TH});
  Mark(table, kButtonScope, {LXB_TAG_BUTTON});
  Mark(table, kTableScope, {LXB_TAG_HTML, LXB_TAG_TABLE, LXB_TAG_TEMPLATE});
  for (uint32_t& marks : table) {
    if ((marks & kSpecial) != 0) marks |= kListScope;
  }
  for (const uint32_t tag : {LXB_TAG_ADDRESS, LXB_TAG_DIV, LXB_TAG_P}) table[tag] &= ~kListScope;
}

constexpr Table MakeTable() {
  Table table = {};
  MarkLines(table);
  MarkContents(table);
  MarkForeign(table);
  MarkScopes(table);
  return table;
}
constexpr Table kTable = MakeTable();

}  // namespace

const HtmlTag kCustomTag = LXB_TAG__LAST_ENTRY;

uint32_t HtmlTagMarks(HtmlTag tag) { return tag < kTable.size() ? kTable[tag] : 0; }

}  // namespace graft
