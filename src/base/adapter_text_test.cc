#include "base/adapter_text.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

AdapterText Chat() {
  return {.chat_template = "{{ messages[0].content }}\n\"ü\"",
          .tool_template = "tools",
          .bos_token = "<s>",
          .eos_token = "</s>",
          .stop_token_ids = {2, 7}};
}

TEST(AdapterTextTest, TravelsAsOneLine) {
  const AdapterTextPtr text = ShareAdapterText(Chat());
  const std::string encoded = EncodeAdapterText(text);
  EXPECT_EQ(encoded.find('\n'), std::string::npos);
  EXPECT_EQ(DecodeAdapterText(encoded).value(), text);
  EXPECT_EQ(*text, Chat());
}

TEST(AdapterTextTest, ThatOfTheBaseIsNone) {
  EXPECT_EQ(ShareAdapterText({}), nullptr);
  EXPECT_EQ(EncodeAdapterText(nullptr), "");
  EXPECT_EQ(DecodeAdapterText("").value(), nullptr);
  EXPECT_EQ(DecodeAdapterText("{}").value(), nullptr);
}

TEST(AdapterTextTest, OneCopyIsSharedWhileItIsHeld) {
  AdapterTextPtr first = ShareAdapterText(Chat());
  EXPECT_EQ(ShareAdapterText(Chat()), first);
  AdapterText other = Chat();
  other.stop_token_ids.push_back(9);
  EXPECT_NE(ShareAdapterText(other), first);
  const std::weak_ptr<const AdapterText> watched = first;
  first.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(*ShareAdapterText(Chat()), Chat());
}

TEST(AdapterTextTest, SkipsWhatItDoesNotKnowAndRefusesWhatIsNone) {
  EXPECT_EQ((*DecodeAdapterText(R"({"later": 1, "bos_token": "<s>"})"))->bos_token, "<s>");
  for (const char* bad : {"[]", "{", "7"}) {
    EXPECT_EQ(DecodeAdapterText(bad).status().code(), StatusCode::kDataLoss) << bad;
  }
}

}  // namespace
}  // namespace graft
