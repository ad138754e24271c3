// The interpreter against jinja2: every feature, with what jinja2 renders
// (tests/data/jinja_cases.json). Also what no template may do to the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/long_tests.h"
#include "text/chat/chat_template.h"

namespace graft {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNow = 1'700'000'000;  // the time at which the cases were made

Result<std::string> Render(const std::string& source, const OrderedJson& context) {
  ASSIGN_OR_RETURN(const ChatTemplate chat_template, ChatTemplate::Parse(source));
  RenderOptions options;
  options.now = kNow;
  return chat_template.Render(context, options);
}

Status FailureOf(const std::string& source, const OrderedJson& context = OrderedJson::object()) {
  return Render(source, context).status();
}

TEST(JinjaTest, RendersAsJinja2Does) {
  setenv("TZ", "UTC", 1);
  tzset();
  const std::string path =
      std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/tests/data/jinja_cases.json";
  const Result<std::string> text = ReadFile(path);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const OrderedJson file = OrderedJson::parse(*text);
  std::map<std::string, int> num_by_group;
  for (const OrderedJson& test_case : file["cases"]) {
    const std::string source = test_case["template"];
    SCOPED_TRACE(source);
    ++num_by_group[test_case["group"]];
    const Result<std::string> rendered = Render(source, file["context"]);
    if (test_case.contains("error")) {
      EXPECT_FALSE(rendered.ok()) << "jinja2 raises " << test_case["error"] << ", Graft renders "
                                  << *rendered;
    } else {
      ASSERT_TRUE(rendered.ok()) << rendered.status().ToString();
      EXPECT_EQ(*rendered, test_case["text"].get<std::string>());
    }
  }
  EXPECT_EQ(num_by_group.size(), 9u);
  EXPECT_GE(num_by_group["statements"], 100);
}

TEST(JinjaTest, UnknownConstructsAreNamedWithTheirLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {"a\n{% include 'x' %}", "line 2: the tag 'include'"},
      {"{{ a | urlize }}", "the filter 'urlize'"},
      {"{{ 1 is weird }}", "the test 'weird'"},
      {"a\n{% block b required %}{% endblock %}", "line 2: a required block"},
      {"{{ self.b() }}", "the function 'self'"},
      {"{{ ''.encode() }}", "the method 'encode' of 'str'"},
      {"\n\n{{ lipsum(1) }}", "line 3: the function 'lipsum'"},
      {"{{ ['a'] | map('urlize') | list }}", "the filter 'urlize'"},
      {"{{ ['a'] | select('weird') | list }}", "the test 'weird'"},
      {"{{ '\\N{DASH}' }}", "\\N"},
      {"{% do x %}", "the tag 'do'"},
  };
  for (const auto& [source, what] : kCases) {
    const Status status = FailureOf(source);
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << source << ": " << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(what)) << source;
    EXPECT_THAT(status.message(), HasSubstr("line ")) << source;
  }
}

TEST(JinjaTest, SyntaxErrorsNameTheLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {"x\n{% if a %}\ny", "line 2: the block that starts here has no {% endif %}"},
      {"\n\n{{ 1 + }}", "line 3: expected an expression"},
      {"{% endif %}", "{% endif %} belongs to no open block"},
      {"{% break %}", "outside of a loop"},
      {"\n{{ 'abc }}", "line 2: a string has no end"},
      {"{{ a ] }}", "']' closes nothing"},
      {"{{ (a ] }}", "expected ')'"},
      {"{{ 99999999999999999999 }}", "64 bits"},
      {"{{ '\\ud83d' }}", "names no character"},
      {"\xff", "not UTF-8"},
  };
  for (const auto& [source, what] : kCases) {
    const Status status = FailureOf(source);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << source;
    EXPECT_THAT(status.message(), HasSubstr(what)) << source;
  }
}

// The texts of a sum are written one by one. A sum of other values is computed first.
TEST(JinjaTest, SumsAreWhatTheirFirstOperandMakesThem) {
  const std::pair<const char*, const char*> kCases[] = {
      {"{{ 1 + 2 + 3 }}", "6"},
      {"{{ 'a' + 'b' + 'c' }}{{ 'a' + ('b' + 'c') }}", "abcabc"},
      {"{{ [1] + [2] + [3] }}", "[1, 2, 3]"},
      {"{{ 'a' ~ 1 + 2 ~ none }}", "a12None"},
      {"{% set t = 'a' + 'b' + 'c' %}{% set n = 1 + 2 + 3.5 %}{{ t ~ n }}", "abc6.5"},
      {"{% macro m(x) %}<{{ x + x + 'y' }}>{% endmacro %}{{ 'a' + m('b' + 'c' + 'd') + 'e' }}",
       "a<bcdbcdy>e"},
  };
  for (const auto& [source, text] : kCases) {
    const Result<std::string> rendered = Render(source, OrderedJson::object());
    ASSERT_TRUE(rendered.ok()) << source << ": " << rendered.status().ToString();
    EXPECT_EQ(*rendered, text) << source;
  }
  for (const char* source : {"{{ 'a' + 'b' + 1 }}", "{% set t = 'a' + 'b' + 1 %}"}) {
    EXPECT_THAT(FailureOf(source).message(), HasSubstr("'+' does not work between 'str' and 'int'"))
        << source;
  }
  EXPECT_THAT(FailureOf("{{ 1 + 2 + 'a' }}").message(),
              HasSubstr("'+' does not work between 'int' and 'str'"));
}

TEST(JinjaTest, RuntimeErrorsNameTheLineAndTheName) {
  EXPECT_THAT(FailureOf("a\n{{ nobody.x }}").message(), HasSubstr("line 2: 'nobody' is undefined"));
  EXPECT_THAT(FailureOf("{{ m.x.y }}", {{"m", OrderedJson::object()}}).message(),
              HasSubstr("no entry 'x'"));
  EXPECT_THAT(FailureOf("{{ raise_exception('only one system message') }}").message(),
              HasSubstr("only one system message"));
  EXPECT_THAT(FailureOf("{{ [].append(1) }}").message(), HasSubstr("'append' is not allowed"));
}

std::string Repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(JinjaTest, DeepTemplatesAreRefused) {
  constexpr int kMany = 20'000;
  const std::string kSources[] = {
      "{{ " + Repeated("(", kMany) + "1" + Repeated(")", kMany) + " }}",
      "{{ " + Repeated("[", kMany) + Repeated("]", kMany) + " }}",
      "{{ " + Repeated("{1:", kMany) + "1" + Repeated("}", kMany) + " }}",
      "{{ 1" + Repeated("+1", kMany) + " }}",
      "{{ 1" + Repeated("**1", kMany) + " }}",
      "{{ 1" + Repeated(" and 1", kMany) + " }}",
      "{{ 1" + Repeated(" if 1", kMany) + " }}",
      "{{ 1" + Repeated(" if 1 else 1", kMany) + " }}",
      "{{ " + Repeated("not ", kMany) + "1 }}",
      "{{ " + Repeated("-", kMany) + "1 }}",
      "{{ 1" + Repeated("|abs", kMany) + " }}",
      "{{ a" + Repeated(".a", kMany) + " }}",
      "{{ a" + Repeated("[0]", kMany) + " }}",
      "{{ a" + Repeated("()", kMany) + " }}",
      "{{ 1 is eq " + Repeated("(1 is eq ", kMany) + " }}",
      Repeated("{% if 1 %}", 10'000) + Repeated("{% endif %}", 10'000),
      Repeated("{% for x in [1] %}", 10'000),
      "{% for " + Repeated("(", kMany) + "x in [] %}{% endfor %}",
  };
  for (const std::string& source : kSources) {
    EXPECT_EQ(FailureOf(source).code(), StatusCode::kInvalidArgument) << source.substr(0, 60);
  }
}

TEST(JinjaTest, WideTemplatesRender) {
  EXPECT_EQ(*Render("{{ 1" + Repeated(" ~ 1", 5000) + " }}", OrderedJson::object()),
            Repeated("1", 5001));
  const std::string many_branches =
      "{% if a %}" + Repeated("{% elif a %}", 5000) + "{% else %}x{% endif %}";
  EXPECT_EQ(*Render(many_branches, OrderedJson::object()), "x");
  EXPECT_EQ(*Render("{{ [" + Repeated("1,", 5000) + "] | length }}", OrderedJson::object()),
            "5000");
}

// Whatever a template computes must end soon, in bounded memory and stack, with this code.
TEST(JinjaTest, HostileTemplatesRunIntoLimits) {
  const std::string kSources[] = {
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ caller() }}{% call f() %}x{% endcall %}{% endmacro %}"
      "{% call f() %}x{% endcall %}",
      "{{ 'a' * 10 ** 12 }}",
      "{{ [1] * 10 ** 12 }}",
      "{{ 'a' | center(10 ** 12) }}",
      "{{ 'a'.ljust(10 ** 12) }}",
      "{{ 'a'.zfill(10 ** 12) }}",
      "{{ 'a\\tb'.expandtabs(10 ** 12) }}",
      "{{ 'a' | indent(10 ** 12) }}",
      "{{ [1] | slice(10 ** 12) | list }}",
      "{{ [1] | batch(10 ** 12, 0) | list }}",
      "{{ range(10 ** 12) }}",
      "{% set n = namespace(x='a') %}{% for i in range(100) %}{% set n.x = n.x + n.x %}{% endfor "
      "%}",
      "{% set n = namespace(x='a') %}{% for i in range(100) %}{% set n.x = n.x.replace('a', 'a' * "
      "1000) %}{% endfor %}",
      "{% set n = namespace(x='a') %}{% for i in range(100) %}{% set n.x = '%s%s' % (n.x, n.x) %}"
      "{% endfor %}",
      "{% set n = namespace(x='a') %}{% for i in range(100) %}{% set n.x = [n.x, n.x] | join %}"
      "{% endfor %}",
      "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ x }}{% endfor %}",
      "{{ 'a' | map(*(['map'] * 100000)) | list }}",
  };
  for (const std::string& source : kSources) {
    EXPECT_EQ(FailureOf(source).code(), StatusCode::kResourceExhausted)
        << source << ": " << FailureOf(source).ToString();
  }
}

// Each works until it has used up its limit of work, which takes seconds under sanitizers.
TEST(JinjaTest, EndlessTemplatesRunIntoTheLimitOfWork) {
  const std::string kGrow = "{% set n = namespace(x=[1]) %}{% for i in range(";
  std::vector<std::string> sources = {
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"};
  if (LongTests()) {
    sources.insert(
        sources.end(),
        {
            "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ '' if 'b' in x }}{% endfor "
            "%}",
            "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ '' if x[:-1] == '' }}{% "
            "endfor %}",
            kGrow + "60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
            kGrow + "60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | tojson }}",
            kGrow +
                "60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{% set a = n.x %}{% set n.x = [1] %}"
                "{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ a == n.x }}",
        });
  }
  for (const std::string& source : sources) {
    EXPECT_EQ(FailureOf(source).code(), StatusCode::kResourceExhausted)
        << source << ": " << FailureOf(source).ToString();
  }
}

TEST(JinjaTest, DeepAndCyclicValuesCannotBreakTheStack) {
  const std::string kDeep =
      "{% set n = namespace(x=[]) %}{% for i in range(50000) %}{% set n.x = [n.x] %}{% endfor %}"
      "{% set a = n.x %}{% set n.x = [] %}"
      "{% for i in range(50000) %}{% set n.x = [n.x] %}{% endfor %}";
  for (const char* use : {"{{ a }}", "{{ a | tojson }}", "{{ a == n.x }}", "{{ a < n.x }}",
                          "{{ [a, n.x] | sort }}", "{{ [a, n.x] | unique | list }}"}) {
    EXPECT_EQ(FailureOf(kDeep + use).code(), StatusCode::kInvalidArgument) << use;
  }
  EXPECT_FALSE(Render("{% set n = namespace() %}{% set n.n = n %}{{ n }}", {}).ok());
  EXPECT_EQ(
      *Render("{% set n = namespace() %}{% set n.n = n %}{{ n.n.n == n }}", OrderedJson::object()),
      "True");
}

TEST(JinjaTest, FormatsCannotAskForHugeWidths) {
  for (const char* source :
       {"{{ '%1000000000d' % 1 }}", "{{ '%.1000000000f' % 1.5 }}", "{{ '%*d' % (10 ** 15, 1) }}",
        "{{ '{:1000000000}'.format(1) }}", "{{ '{:.1000000000f}'.format(1.5) }}",
        "{{ [1] | tojson(indent=1000000000) }}"}) {
    EXPECT_EQ(FailureOf(source).code(), StatusCode::kInvalidArgument) << source;
  }
}

TEST(JinjaTest, IntegersDoNotOverflow) {
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}", "{{ 2 ** 64 }}",
        "{{ 4611686018427387904 * 2 }}", "{{ -(-9223372036854775807 - 1) }}",
        "{{ (-9223372036854775807 - 1) // -1 }}", "{{ '99999999999999999999.5' | int }}",
        "{{ (-9223372036854775807 - 1) | abs }}"}) {
    EXPECT_EQ(FailureOf(source).code(), StatusCode::kInvalidArgument) << source;
  }
  EXPECT_EQ(*Render("{{ [1, 2, 3][::-9223372036854775807 - 1] }}{{ 'abc'[9223372036854775807:] }}",
                    OrderedJson::object()),
            "[3]");
}

}  // namespace
}  // namespace graft
