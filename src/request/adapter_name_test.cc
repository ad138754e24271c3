#include "request/adapter_name.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(AdapterNameTest, TakesWhatRequestsCanAskFor) {
  for (const char* name : {"a", "ft:base:Report_1.2-b", "team/a@2", "0"}) {
    EXPECT_TRUE(CheckAdapterName(name).ok()) << name;
  }
  EXPECT_TRUE(CheckAdapterName(std::string(200, 'x')).ok());
  for (const char* name : {"", "a b", "a+b", "a\n", "\xc3\xa4"}) {
    EXPECT_EQ(CheckAdapterName(name).code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_FALSE(CheckAdapterName(std::string(201, 'x')).ok());
}

TEST(AdapterNameTest, AnyTextBecomesOneThatIsTaken) {
  EXPECT_EQ(AdapterNameFrom("My report (final) v1.2"), "My-report--final--v1.2");
  EXPECT_EQ(AdapterNameFrom("a/b:c@d"), "a-b-c-d");
  EXPECT_TRUE(CheckAdapterName(AdapterNameFrom("\xc3\xa4" + std::string(300, '\n'))).ok());
}

}  // namespace
}  // namespace graft
