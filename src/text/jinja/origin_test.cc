// Which bytes of a rendered text count as untrusted, for every way in which a template can make
// text.
#include "text/jinja/origin.h"

#include <gtest/gtest.h>

#include <string>

#include "text/chat/chat_template.h"

namespace graft {
namespace {

// Renders a template and puts every untrusted stretch in square brackets.
std::string RenderMarked(const std::string& source, const OrderedJson& context) {
  const auto chat_template = ChatTemplate::Parse(source);
  EXPECT_TRUE(chat_template.ok()) << chat_template.status().ToString();
  TextRanges untrusted;
  const Result<std::string> text = chat_template->Render(context, {}, &untrusted);
  if (!text.ok()) return text.status().ToString();
  EXPECT_EQ(*chat_template->Render(context), *text) << "marking changes nothing else";
  std::string marked;
  size_t done = 0;
  for (const TextRange& range : untrusted) {
    EXPECT_LT(range.begin, range.end);
    EXPECT_LE(done, range.begin);
    marked += text->substr(done, range.begin - done);
    marked += "[" + text->substr(range.begin, range.end - range.begin) + "]";
    done = range.end;
  }
  return marked + text->substr(done);
}

struct OriginCase {
  const char* source;
  const char* marked;
};

OrderedJson OriginContext() {
  return {{"c", "us er"},
          {"pad", "  pad "},
          {"lines", "l1\nl2"},
          {"list", {"x", "y"}},
          {"dict", {{"key", "v"}, {"<k>", 1}}},
          {"n", 7},
          {"bos_token", "<s>"},
          {"messages",
           {{{"role", "user"}, {"content", "hi"}}, {{"role", "us|er"}, {"content", "<|x|>"}}}}};
}

void ExpectMarked(const std::vector<OriginCase>& cases) {
  for (const OriginCase& test : cases) {
    EXPECT_EQ(RenderMarked(test.source, OriginContext()), test.marked) << test.source;
  }
}

TEST(OriginTest, TheTemplatesTextIsTrustedAndTheContextsIsNot) {
  ExpectMarked({
      {"a{{ c }}b", "a[us er]b"},
      {"{{ bos_token }}{{ c }}", "<s>[us er]"},
      {"{{ 'a' }}{{ n }}{{ n + 1 }}{{ none }}{{ true }}", "a78NoneTrue"},
      {"{{ c }}{{ c }}", "[us erus er]"},
      {"{{ c if n else 'x' }}{{ nobody | default('d') }}", "[us er]d"},
      {"{{ strftime_now('x') }}", "x"},
      {"{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}",
       "<|user|>[hi]\n<|[us|er]|>[<|x|>]\n"},
      {"{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% "
       "endfor %}",
       "<|user|>[hi]<|[us|er]|>[<|x|>]"},
  });
}

TEST(OriginTest, PartsOfATextKeepTheirOrigin) {
  ExpectMarked({
      {"<{{ pad | trim }}>", "<[pad]>"},
      {"<{{ pad.strip() }}{{ pad.lstrip(' p') }}>", "<[padad ]>"},
      {"{{ ('<|' + c + '|>')[1:4] }}", "|[us]"},
      {"{{ ('<|' + c + '|>')[::-1] }}", ">|[re su]|<"},
      {"{{ ('<|' + c + '|>') | list | join('-') }}", "<-|-[u]-[s]-[ ]-[e]-[r]-|->"},
      {"{{ ('<|' + c + '|>').split(' ') | join('_') }}", "<|[us]_[er]|>"},
      {"{{ ('<a>' + c).partition(' ')[0] }}{{ c[0] }}{{ c | first }}{{ c | "
       "last }}",
       "<a>[usuur]"},
      {"{{ lines.splitlines() | last }}", "[l2]"},
      {"{{ ('<|' + c).removeprefix('<') }}{{ (c + '|>').removesuffix('>') }}", "|[us erus er]|"},
      {"{{ c | reverse }}{{ 'ab' | reverse }}", "[re su]ba"},
      {"{{ ('<b>' + c) | truncate(5, true, '..', 0) }}", "<b>.."},
      {"{{ list | first }}{{ list | sort | last }}{{ list[0] }}{{ dict.key }}", "[xyxv]"},
      {"{{ dict | items | map('first') | join }}", "key[<k>]"},
  });
}

TEST(OriginTest, JoinedTextsKeepTheirOrigins) {
  ExpectMarked({
      {"{{ '<' ~ c ~ n ~ '>' }}", "<[us er]7>"},
      {"{{ '<' + c + '|' + bos_token + c }}", "<[us er]|<s>[us er]"},
      {"{% set t = '<' + c + '|' + c %}{{ t }}{{ t[1:] + '>' }}", "<[us er]|[us erus er]|[us er]>"},
      {"{{ ['a', '<' + c + '>' + ('!' + c)] | last }}", "<[us er]>![us er]"},
      {"{{ list | join(', ') }}", "[x], [y]"},
      {"{{ ['a', c] | join(c) }}", "a[us erus er]"},
      {"{{ '-'.join(['a', c]) }}", "a-[us er]"},
      {"{{ '-' * 3 }}{{ c[:1] * 3 }}", "---[uuu]"},
      {"{{ 'a b' | replace(' ', c) }}", "a[us er]b"},
      {"{{ c | replace(' ', '<|x|>') }}", "[us]<|x|>[er]"},
      {"{{ ('<' + c).replace('us', '') }}", "<[ er]"},
      {"{{ '<%s|%d|%5s>' | format(c, 3, 'x') }}", "<[us er]|3|    x>"},
      {"{{ '<%s>' % c }}{{ '%8s' % c }}", "<[us er]>   [us er]"},
      {"{{ '<{}|{:>7}|{!s}>'.format(c, c, 1) }}", "<[us er]|  [us er]|1>"},
      {"{{ (c + ' %s') % 'x' }}", "[us er x]"},
      {"{{ lines | indent(2) }}", "[l1]\n  [l2]"},
      {"{{ lines | indent('> ', true, true) }}", "> [l1]\n> [l2]"},
      {"{{ 'a\nb' | indent(c) }}", "a\n[us er]b"},
      {"{{ c | center(9) }}|{{ c.ljust(6, '.') }}{{ 'x'.rjust(3) }}", "  [us er]  |[us er].  x"},
      {"{{ '-7'.zfill(4) }}{{ c.zfill(6) }}", "-0070[us er]"},
      {"{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = "
       "ns.t + '<' + m.content "
       "%}{% endfor %}{{ ns.t }}",
       "<[hi]<[<|x|>]"},
  });
}

TEST(OriginTest, CapturedOutputKeepsItsOrigins) {
  ExpectMarked({
      {"{% set t %}<{{ c }}>{% endset %}{{ t }}{{ t | trim('<>') }}", "<[us er]>[us er]"},
      {"{% macro m(x) %}<|{{ x }}|>{% endmacro %}{{ m(c) }}{{ m('y') }}", "<|[us er]|><|y|>"},
      {"{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}a{{ c }}{% "
       "endcall %}",
       "<a[us er]>"},
      {"{% filter trim %} <{{ c }}> {% endfilter %}", "<[us er]>"},
  });
}

TEST(OriginTest, WhatCannotBeToldApartIsUntrusted) {
  ExpectMarked({
      {"{{ ('<a>' + c) | upper }}{{ '<a>' | upper }}", "[<A>US ER]<A>"},
      {"{{ (c + '!').title() }}{{ 'x' | capitalize }}", "[Us Er!]X"},
      {"{{ ('<' + c) | e }}{{ '<' | e }}", "[&lt;us er]&lt;"},
      {"{{ dict | tojson }}{{ {'a': 1} | tojson }}", "[{\"key\": \"v\", \"<k>\": 1}]{\"a\": 1}"},
      {"{{ list }}{{ ['t'] }}{{ ['t', c] | string }}", "[['x', 'y']]['t'][['t', 'us er']]"},
      {"{{ ('a\t' + c).expandtabs(2) }}", "[a us er]"},
  });
}

}  // namespace
}  // namespace graft
