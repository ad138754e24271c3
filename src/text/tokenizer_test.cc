#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/json.h"

namespace graft {
namespace {

std::string SourceDir() {
  const char* dir = std::getenv("GRAFT_SOURCE_DIR");
  return dir == nullptr ? "." : dir;
}

TEST(TokenizerTest, DemoEqualsHf) {
  const auto tokenizer = Tokenizer::Load(SourceDir() + "/demo/base");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const auto golden = ParseJsonFile(SourceDir() + "/demo/golden_tokenizer.json");
  ASSERT_TRUE(golden.ok()) << golden.status().ToString();
  ASSERT_FALSE(golden->empty());
  for (const Json& entry : *golden) {
    const auto text = entry["text"].get<std::string>();
    const auto ids = entry["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(*(*tokenizer)->Encode(text, true), ids) << text;
    const auto plain = entry["ids_plain"].get<std::vector<int32_t>>();
    EXPECT_EQ(*(*tokenizer)->Encode(text, false), plain) << text;
    EXPECT_EQ((*tokenizer)->Decode(plain, false), entry["decoded"].get<std::string>());
  }
}

}  // namespace
}  // namespace graft
