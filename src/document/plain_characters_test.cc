#include "document/plain_characters.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(PlainCharactersTest, AWordHasOneSpelling) {
  const struct {
    const char* text;
    const char* plain;
  } cases[] = {
      {"Reise\u00ADkosten", "Reisekosten"},
      {"Reise\u00AD\nkosten, Immo\u00AD  \n\t bilien", "Reisekosten, Immobilien"},
      {"Reise \u00AD\nkosten", "Reisekosten"},
      {"Reise\u00AD\n\nkosten\u00AD", "Reise\n\nkosten"},
      {"Immo-\nbilien", "Immo-\nbilien"},  // the hyphen may be the word's own
      {"e\uFB03cient \uFB00\uFB01\uFB02\uFB04\uFB05\uFB06", "efficient fffiflfflstst"},
      {"a\u00A0b\u202Fc\u2009d\u2003e", "a b c d e"},
      {"a\u200Bb\uFEFFc", "abc"},
      {"\u0645\u06CC\u200C\u062E \U0001F468\u200D\U0001F469",
       "\u0645\u06CC\u200C\u062E "
       "\U0001F468\u200D\U0001F469"},
      {"Gr\u00FC\u00DFe\n\u3000x", "Gr\u00FC\u00DFe\n\u3000x"},
      {"", ""},
  };
  for (const auto& c : cases) EXPECT_EQ(PlainCharacters(c.text), c.plain) << c.text;
}

TEST(PlainCharactersTest, LeavesOutWhatCannotBeRead) {
  std::string text = "a\u0092b \uE001\uFFFD\x01\x1B[0m\n\U000F0001\uFDD0\uFFFE\x7F";
  const UnreadableCount count = LeaveOutUnreadable(&text);
  EXPECT_EQ(text, "ab \x1B[0m\n");
  EXPECT_EQ(count.characters, 14);
  EXPECT_EQ(count.controls, 3);
  EXPECT_EQ(count.unreadable, 8);
}

}  // namespace
}  // namespace graft
