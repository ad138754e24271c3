#include "document/html_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace graft {
namespace html_text_test {

using ::testing::HasSubstr;

std::string Repeated(std::string_view text, int times) {
  std::string repeated;
  for (int i = 0; i < times; ++i) repeated += text;
  return repeated;
}

struct Case {
  const char* html;
  const char* text;
};

void ExpectTexts(std::initializer_list<Case> cases, HtmlSyntax syntax = HtmlSyntax::kHtml) {
  for (const Case& one : cases) EXPECT_EQ(*HtmlText(one.html, syntax), one.text) << one.html;
}

TEST(HtmlTextTest, KeepsWhatIsShown) {
  ExpectTexts({
      {"<p>One <b>bold</b>\n  word.</p><p>Two.</p>", "One bold word.\n\nTwo.\n\n"},
      {"<head><title>T</title><style>p{a:b}</style></head><h1>Head</h1>Body", "T\n\nHead\n\nBody"},
      {"a<script>if (1 < 2) { x('</p>'); }</script>b<SCRIPT>c</ScRiPt>d", "abd"},
      {"a<!-- <p>no</p> -- > no --> b", "a b"},
      {"<ul><li>x<li>y</ul>z<br/>w<br><br><br>v", "x\ny\nz\nw\n\nv"},
      {"<table><tr><td>1</td><td>2</td></tr><tr><th>3</th></tr></table>", "1 2\n3\n"},
      {"<pre>a  b\n  c</pre> d  e<pre>\nf\n\n\ng</pre>", "a  b\n  c\nd e\nf\n\n\ng\n"},
      {"<xmp><b>x</b></xmp>y<textarea>\n1\n 2</textarea>", "<b>x</b>\ny\n1\n 2\n"},
      {"<a href=\"x>y\" title='>'>link</a>", "link"},
      {"1 < 2 and 3 > 2", "1 < 2 and 3 > 2"},
      {"x</p>y</div>z", "x\n\nyz"},
  });
}

TEST(HtmlTextTest, ReadsReferencesAsBrowsersDo) {
  ExpectTexts({
      {"it&#146;s &ecirc;tre &OElig;uvre &rarr; Reise&shy;kosten &iquest;",
       "it\u2019s \u00EAtre \u0152uvre \u2192 Reisekosten \u00BF"},
      {"Tom &amp; Jerry &lt;3 &#65;&#x42;&mdash;&nbsp;x", "Tom & Jerry <3 AB\u2014 x"},
      {"caf&eacute s &copy 2026 5 &lt 6 &AMP; &COPY;", "caf\u00E9 s \u00A9 2026 5 < 6 & \u00A9"},
      {"&#0000000233;&#9;&#10;&#13;x", "\u00E9 x"},
      {"a&#160;b&#xA0;c\u00A0d&nbsp;&#160;\u00A0e&ensp;f&thinsp;g", "a b c d e f g"},
      {"&unknown; & &; &ampx &notit;", "&unknown; & &; &x \u00ACit;"},
      {"&#0; &#xD800; &#1114112;", "\uFFFD \uFFFD \uFFFD"},
      {"e\uFB03cient &#xFB01;n \uFB05 Rei\u00ADse", "efficient fin st Reise"},
  });
}

TEST(HtmlTextTest, OnlySvgAndMathCloseThemselves) {
  ExpectTexts({
      {"<p>One</p><svg class=\"i\"/><p>Two</p>", "One\n\nTwo\n\n"},
      {"<p>One</p><svg/><p>Two</p><svg><text>no</text></svg><p>Three", "One\n\nTwo\n\nThree"},
      {"a<svg/>b<math/>c<svg><svg></svg>x</svg>y<math><mi>z</mi></math>w", "abcyw"},
      {"a<svg><title/><style/><script/><g/></svg>b", "ab"},
      {"a<svg><foreignObject><p>no</p></foreignObject></svg>b", "ab"},
      {"a<svg><g><p>out of it</p>b", "a\n\nout of it\n\nb"},  // as browsers mend a missing </svg>
      {"a<template>x<template>y</template>z</template>b", "ab"},
      {"a<template/>b", "a"},
      {"a<script src=x/>b</script>c", "ac"},
      {"a<div/>b", "a\nb"},
  });
}

TEST(HtmlTextTest, XhtmlClosesAnything) {
  ExpectTexts(
      {
          {"<?xml version=\"1.0\"?><html><head><title/><script src=\"a.js\"/><style/></head>"
           "<body><p>One</p><template/><noscript/><p/>Two</body></html>",
           "One\n\nTwo"},
          {"<p>a<![CDATA[ <b> & ]]>c</p>", "a <b> & c\n\n"},
          {"a<script>//<![CDATA[\nif (x<y && z) '</p>'\n//]]></script>b", "ab"},
          {"<title>A &amp; <![CDATA[B]]></title><textarea/>x<xmp/>y", "A & B\n\nx\ny"},
          {"<p hidden=\"hidden\"/>a<br></br>b<svg/>c", "a\nbc"},
      },
      HtmlSyntax::kXhtml);
}

TEST(HtmlTextTest, LeavesOutWhatIsHidden) {
  ExpectTexts({
      {"a<div hidden>b<p>c</p></div>d", "ad"},
      {"a<span aria-hidden=\"TRUE\">b</span><i aria-hidden=false>c</i>", "ac"},
      {"<main aria-hidden=true><p>b</p></main><table><tr><td aria-hidden=true>c</table>",
       "b\n\nc\n"},
      {"a<video src=x>b<p>c</p></video>d<canvas>e</canvas><audio>f</audio>g", "adg"},
      {"a<dialog>b<p>c</dialog>d<dialog open>e</dialog>f<div popover=auto>g</div>h", "ad\ne\nfh"},
      {"a<datalist><option>b<option>c</datalist>d", "ad"},
      {"a<b style='color:red; DISPLAY : none !important;display:block'>b</b>c", "ac"},
      {"a<b style='display:none;display:inline'>b</b><i style=\"content:'display:none'\">c</i>",
       "abc"},
      {"<p style='color:red' style='display:none'>a</p><p hidden hidden>b", "a\n\n"},
      {"a<img hidden><br hidden>b<input style=display:none>c", "abc"},
      {"<p hidden>a<p>b</p>", "b\n\n"},
      {"<ul><li hidden>a<li>b<ul><li hidden>c</ul>d</ul>", "b\nd\n"},
      {"<dl><dt hidden>a<dd>b<dt>c</dl>", "b\nc\n"},
      {"<table><tr hidden><td>1<td>2<tr><td>3<td hidden>4<td>5</table>", "3 5\n"},
      {"<div><p hidden>a</div>b", "b"},
      {"<div><span hidden>a<div>b</span>c</div>d</span>e</div>f", "e\nf"},
      {"<b hidden>a<p>b</b>c</p>d", "c\n\nd"},
      {"<select><option hidden>a<option>b</select>", "b\n"},
      {"a<noscript><p>b</noscript>c<iframe>d</iframe>e<noframes>f</noframes>g", "aceg"},
      {"<title>A</title>b<title>C</title>d", "A\n\nbd"},
  });
}

TEST(HtmlTextTest, ReadsTagsAndCommentsAsBrowsersDo) {
  ExpectTexts({
      {"<title-bar>My heading</title-bar>, <template-card>b</template-card> <svg-icon/>c "
       "<style-x>d",
       "My heading, b c d"},
      {"a<script>x = '</scripture>'; y</script>b", "ab"},
      {"<p title = \"a > b\">c</p><img alt= \"a > b\">d", "c\n\nd"},
      {"a<!--b--!>c<!-->d<!--->e", "acde"},
      {"x<o:p></o:p>y <st1:place>Rome</st1:place> <acronym>A</acronym><big>b</big><nobr>c</nobr>"
       "<strike>d</strike><x-y>e</x-y>",
       "xy Rome Abcde"},
      {"a<?php echo '>' ?>b", "a' ?>b"},
      {"a<![CDATA[b]]>c", "ac"},
  });
}

TEST(HtmlTextTest, NoPageIsTooDeepOrUnfinished) {
  EXPECT_EQ(*HtmlText(Repeated("<div><pre>", 200'000) + "x"), "x");
  for (const char* const html : {"a<", "a<b", "a<b c='", "a<!--", "a<script>b", "a</", "a<?x"}) {
    EXPECT_EQ(HtmlText(html)->substr(0, 1), "a") << html;
  }
  EXPECT_EQ(*HtmlText(""), "");
}

// Every kind of page that some reader of HTML takes long over: what is done stays within what the
// page has bytes for.
TEST(HtmlTextTest, WorkIsLinearInAnyPage) {
  constexpr int kTimes = 20'000;
  std::string fonts, names, names_in_script = "<script>", attributes;
  for (int i = 0; i < kTimes; ++i) {
    const std::string number = std::to_string(i);
    fonts += "<font color=" + number + ">";
    names += "<x-" + number + ">";
    names_in_script += "</x" + std::string(1, static_cast<char>('a' + i % 26)) +
                       std::string(static_cast<size_t>(i % 97), 'b') + ">";
    attributes += "<i a" + number + " b" + number + " c" + number + ">";
  }
  const std::string pages[] = {"<pre>x" + Repeated("\n", kTimes) + Repeated("<p>", kTimes),
                               Repeated("<pre>x\n\n\n<p>", kTimes),
                               Repeated("<div>", kTimes) + Repeated("</p>", kTimes),
                               fonts + Repeated("<p>x", kTimes),
                               Repeated("<b>", kTimes) + Repeated("</i><div>", kTimes),
                               Repeated("<p><i><b hidden><u>", kTimes),
                               Repeated("<b><p>", kTimes) + Repeated("</b>", kTimes),
                               Repeated("<table><tr><td>", kTimes) + Repeated("<li>", kTimes),
                               Repeated("<svg><g>", kTimes) + Repeated("<p>", kTimes),
                               Repeated("<br>", kTimes) + Repeated(" <br> x", kTimes),
                               Repeated("&amp &#65; &", kTimes),
                               Repeated("<", kTimes) + Repeated("<!--x--!", kTimes),
                               names,
                               names + Repeated("</x-1>", kTimes),
                               names_in_script,
                               attributes};
  for (const std::string& page : pages) {
    HtmlWork work;
    ASSERT_TRUE(HtmlText(page, HtmlSyntax::kHtml, nullptr, &work).ok());
    const auto bytes = static_cast<int64_t>(page.size());
    EXPECT_LE(work.tokens, bytes) << page.substr(0, 60);
    EXPECT_LE(work.elements, 2 * work.tokens) << page.substr(0, 60);
    EXPECT_LE(work.looks, 3 * work.tokens + bytes) << page.substr(0, 60);
    EXPECT_LE(work.names_max, 1000) << page.substr(0, 60);
  }
}

TEST(HtmlTextTest, ATagHasSoManyAttributes) {
  std::string tag = "<p";
  for (int i = 0; i < 100'000; ++i) tag += " a" + std::to_string(i);
  const Status many = HtmlText(tag + ">x").status();
  EXPECT_EQ(many.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(many.message(), HasSubstr("more than 512 attributes"));
  EXPECT_EQ(*HtmlText("<p a b=c style='display:none'>x</p>y"), "y");
}

TEST(HtmlTextTest, EndsWhereItIsNotWanted) {
  int64_t num_asked = 0;
  const auto is_wanted = [&num_asked] { return ++num_asked < 3; };
  const std::string page = Repeated("<p>x", 1 << 20);
  HtmlWork work;
  EXPECT_EQ(HtmlText(page, HtmlSyntax::kHtml, is_wanted, &work).status().code(),
            StatusCode::kCancelled);
  EXPECT_EQ(num_asked, 3);
}

}  // namespace html_text_test
}  // namespace graft
