// The small parts under the tokenizer: UTF-8, Unicode, regexes, patterns, the word cache.
#include <gtest/gtest.h>

#include "base/random.h"
#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/regex.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/word_cache.h"

namespace graft {
namespace {

TEST(Utf8Test, AcceptsExactlyTheCodePoints) {
  int num_valid = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    std::string text;
    AppendCodePoint(c, &text);
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(IsValidUtf8(text), !surrogate) << static_cast<uint32_t>(c);
    if (surrogate) continue;
    size_t pos = 0;
    ASSERT_EQ(NextCodePoint(text, &pos), c);
    ASSERT_EQ(pos, text.size());
    ASSERT_EQ(PreviousCodePoint(text, &pos), c);
    ASSERT_EQ(pos, 0u);
    ++num_valid;
  }
  EXPECT_EQ(num_valid, 0x110000 - 0x800);
}

TEST(Utf8Test, CutsBetweenCharacters) {
  const std::string text = "a\u00e9\u20ac\U0001F600";  // 1, 2, 3 and 4 bytes
  const size_t kept[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (size_t bytes_max = 0; bytes_max < std::size(kept); ++bytes_max) {
    std::string cut = text;
    CutUtf8(bytes_max, &cut);
    EXPECT_EQ(cut, text.substr(0, kept[bytes_max])) << bytes_max;
  }
}

TEST(Utf8Test, RefusesBrokenTextBehindAsciiToo) {
  for (const char* bad : {"\x80", "\xC1\x81", "\xE0\x80\x80", "\xF5\x80\x80\x80", "\xE4\xBD"}) {
    for (int ascii = 0; ascii < 20; ++ascii) {
      EXPECT_FALSE(IsValidUtf8(std::string(ascii, 'a') + bad));
      EXPECT_FALSE(IsValidUtf8(std::string(ascii, 'a') + bad + "aaaaaaaaaaaa"));
    }
  }
}

TEST(Utf8StreamTest, ReplacesMaximalParts) {
  const auto stream = [](std::initializer_list<const char*> pieces) {
    Utf8Stream utf8;
    std::string out;
    for (const char* piece : pieces) utf8.Push(piece, &out);
    utf8.Flush(&out);
    return out;
  };
  EXPECT_EQ(stream({"\xF0\x9F", "\x99\x82"}), "🙂");
  EXPECT_EQ(stream({"\xF0\x9F", "a"}), "\uFFFDa");
  EXPECT_EQ(stream({"\xE0\x80"}), "\uFFFD\uFFFD");
  EXPECT_EQ(stream({"\xFF\xFE", "\xF0\x9F\x99"}), "\uFFFD\uFFFD\uFFFD");
}

TEST(Utf8StreamTest, DoesNotDependOnThePieces) {
  Random random(3);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes(random.Below(12), '\0');
    for (char& byte : bytes)
      byte = "\xE4\xBD\xA0\xF0\x9F\x99\x82\xFF\xC3\xEDz\x80"[random.Below(12)];
    std::string whole;
    std::string pieces;
    Utf8Stream stream;
    stream.Push(bytes, &whole);
    stream.Flush(&whole);
    for (const char byte : bytes) {
      stream.Push(std::string_view(&byte, 1), &pieces);
      ASSERT_TRUE(IsValidUtf8(pieces));
    }
    stream.Flush(&pieces);
    EXPECT_EQ(pieces, whole);
  }
}

TEST(UnicodeTest, PropertiesAtTheirEdges) {
  EXPECT_TRUE(IsUnicodeWhitespace(0x3000) && IsUnicodeWhitespace(0x85));
  EXPECT_FALSE(IsUnicodeWhitespace(0x200B) || IsUnicodeWhitespace(0x180E));
  EXPECT_TRUE(IsUnicodeNumeric(U'½') && IsUnicodeNumeric(U'Ⅷ') && IsUnicodeNumeric(U'٣'));
  EXPECT_FALSE(IsUnicodeNumeric(U'a') || IsUnicodeNumeric(U'一'));
  EXPECT_TRUE(IsUnicodePunctuation(U'$') && IsUnicodePunctuation(U'。'));
  EXPECT_FALSE(IsUnicodePunctuation(U'€'));
  EXPECT_TRUE(IsUnicodeWord(U'_') && IsUnicodeWord(U'é') && IsUnicodeWord(0x200D));
  EXPECT_FALSE(IsUnicodeWord(U'-'));
  std::string lower;
  for (const char32_t c : U"AΣİ") {
    if (c != 0) AppendLowercase(c, &lower);
  }
  EXPECT_EQ(lower, "aσi\u0307");
}

TEST(ByteLevelTest, EveryByteThereAndBack) {
  std::string bytes(256, '\0');
  for (int byte = 0; byte < 256; ++byte) bytes[byte] = static_cast<char>(byte);
  std::string text;
  AppendByteLevel(bytes, &text);
  EXPECT_TRUE(IsValidUtf8(text));
  EXPECT_EQ(BytesOfByteLevel(text), bytes);
  EXPECT_EQ(BytesOfByteLevel("Ġ你"), "Ġ你") << "another alphabet stands for itself";
}

TEST(RegexTest, TranslatesWhatTheEnginesReadDifferently) {
  EXPECT_EQ(*TranslateRegex(R"(\s+(?!\S))"), R"(\p{White_Space}+(?!\P{White_Space}))");
  EXPECT_EQ(*TranslateRegex(R"([^\s\p{L}]{1,3})"), R"([^\p{White_Space}\p{L}]{1,3})");
  EXPECT_EQ(*TranslateRegex(R"([\]\[]\[)"), R"([\]\[]\[)");
  EXPECT_EQ(*TranslateRegex(R"(\h[\h])"), R"([0-9A-Fa-f][0-9A-Fa-f])");
  EXPECT_EQ(*TranslateRegex(R"([]a])"), R"([]a])");
  for (const char* pattern : {"[a&&b]", "[a[b]]", R"(\bx)", "(?m).", "a{2}+", R"([\W])", R"(\K)"}) {
    EXPECT_EQ(TranslateRegex(pattern).status().code(), StatusCode::kUnimplemented) << pattern;
  }
  EXPECT_EQ(TranslateRegex("[a").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Regex::Compile("(a").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Regex::Compile(R"(\p{Klingon})").status().code(), StatusCode::kInvalidArgument);
}

std::string Brackets(const char* regex, std::string_view text) {
  const auto compiled = Regex::Compile(regex);
  CHECK(compiled.ok()) << compiled.status().ToString();
  std::vector<TextRange> matches;
  const Status status = compiled->FindAll(text, &matches);
  CHECK(status.ok()) << status.ToString();
  std::string out;
  for (const TextRange& match : matches) {
    out += "[" + std::string(text.substr(match.begin, match.end - match.begin)) + "]";
  }
  return out;
}

TEST(RegexTest, FindsLikeTheOracle) {
  EXPECT_EQ(Brackets("x*", "axxb"), "[][xx][]") << "no empty match right behind a match";
  EXPECT_EQ(Brackets(R"(\w+)", "naïve_1 ½"), "[naïve_1]");
  EXPECT_EQ(Brackets("(?i:'s)", "'S'ſ"), "['S]['ſ]");
  EXPECT_EQ(Brackets("^.", "a\nb"), "[a][b]");
  EXPECT_EQ(Brackets("(?<=a)b", "ab b"), "[b]");
  EXPECT_EQ(Brackets("", "é"), "[][]");
}

TEST(PatternTest, ReplacementsHaveALimit) {
  const Pattern pattern = Pattern::OfString("a");
  EXPECT_EQ(*pattern.ReplaceAll("banana", "oo"), "boonoonoo");
  const std::string long_text(1 << 20, 'a');
  EXPECT_EQ(pattern.ReplaceAll(long_text, std::string(1 << 10, 'b')).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(WordCacheTest, RemembersShortWordsOnly) {
  WordCache cache;
  std::vector<int32_t> ids;
  const int32_t many[WordCache::kIdsMax + 1] = {7, 8, 9};
  EXPECT_FALSE(cache.Find("word", &ids));
  cache.Insert("word", many, 2);
  EXPECT_TRUE(cache.Find("word", &ids));
  EXPECT_TRUE(cache.Find("word", &ids));
  EXPECT_EQ(ids, (std::vector<int32_t>{7, 8, 7, 8}));
  const std::string long_word(WordCache::kWordBytesMax + 1, 'a');
  cache.Insert(long_word, many, 1);
  cache.Insert("many", many, WordCache::kIdsMax + 1);
  EXPECT_FALSE(cache.Find(long_word, &ids) || cache.Find("many", &ids));
  cache.Insert("none", many, 0);
  EXPECT_TRUE(cache.Find("none", &ids));
  EXPECT_EQ(ids.size(), 4u);
}

TEST(WordCacheTest, AWordNeverGetsAnothersIds) {
  WordCache cache;
  for (int32_t round = 0; round < 2; ++round) {
    for (int32_t i = 0; i < 50'000; ++i) {
      std::vector<int32_t> ids;
      const std::string word = std::to_string(i);
      if (cache.Find(word, &ids)) {
        EXPECT_EQ(ids, std::vector<int32_t>{i});
      }
      cache.Insert(word, &i, 1);
    }
  }
}

}  // namespace
}  // namespace graft
