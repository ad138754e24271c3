#include "document/html_text.h"

#include <gtest/gtest.h>

#include <string>

namespace graft {
namespace {

TEST(HtmlTextTest, KeepsWhatIsShown) {
  const struct {
    const char* html;
    const char* text;
  } cases[] = {
      {"<p>One <b>bold</b>\n  word.</p><p>Two.</p>", "One bold word.\n\nTwo.\n\n"},
      {"<head><title>T</title><style>p{a:b}</style></head><h1>Head</h1>Body", "Head\n\nBody"},
      {"a<script>if (1 < 2) { x('</p>'); }</script>b<SCRIPT>c</ScRiPt>d", "abd"},
      {"a<!-- <p>no</p> -- > no --> b", "a b"},
      {"<ul><li>x<li>y</ul>z<br/>w", "x\ny\nz\nw"},
      {"<table><tr><td>1</td><td>2</td></tr><tr><th>3</th></tr></table>", "1 2\n3\n"},
      {"<pre>a  b\n  c</pre> d  e", "a  b\n  c\nd e"},
      {"<a href=\"x>y\" title='>'>link</a>", "link"},
      {"Tom &amp; Jerry &lt;3 &#65;&#x42;&mdash;&nbsp;x", "Tom & Jerry <3 AB\u2014 x"},
      {"&unknown; & &; &#0; &#xD800; &#1114112;", "&unknown; & &; &#0; &#xD800; &#1114112;"},
      {"1 < 2 and 3 > 2", "1 < 2 and 3 > 2"},
  };
  for (const auto& c : cases) EXPECT_EQ(HtmlText(c.html), c.text) << c.html;
}

TEST(HtmlTextTest, NoPageIsTooDeepOrUnfinished) {
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += "<div><pre>";
  EXPECT_EQ(HtmlText(deep + "x"), "x");
  for (const char* const html : {"a<", "a<b", "a<b c='", "a<!--", "a<script>b", "a</", "a<?x"}) {
    EXPECT_EQ(HtmlText(html).substr(0, 1), "a") << html;
  }
  EXPECT_EQ(HtmlText(""), "");
}

}  // namespace
}  // namespace graft
