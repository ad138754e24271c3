#include "runtime/adapter_priorities.h"

#include <gtest/gtest.h>

#include "adapters/host_store.h"

namespace graft {
namespace {

TEST(AdapterPrioritiesTest, NamesHaveNumbers) {
  const auto priorities = ParseAdapterPriorities(
      {"austen=3", "team/doyle:v2=-1000", "wells=0", "carroll=1000"}, {"demo", "demo"});
  ASSERT_TRUE(priorities.ok()) << priorities.status().ToString();
  const std::map<std::string, int32_t> expected = {{"austen", 3},
                                                   {"carroll", 1000},
                                                   {"demo", HostStore::kPinned},
                                                   {"team/doyle:v2", -1000},
                                                   {"wells", 0}};
  EXPECT_EQ(*priorities, expected);
  EXPECT_TRUE(ParseAdapterPriorities({}, {})->empty());
  EXPECT_EQ(PriorityFlag("demo", HostStore::kPinned), "--pin demo");
  EXPECT_EQ(PriorityFlag("austen", 3), "--priority austen=3");
}

TEST(AdapterPrioritiesTest, WhatIsWrongIsSaid) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"austen"}, "--priority austen: write it as NAME=N"},
      {{"=3"}, "--priority =3: write it as NAME=N"},
      {{"austen="}, "--priority austen=: '' is no whole number"},
      {{"austen=high"}, "'high' is no whole number"},
      {{"austen=1.5"}, "'1.5' is no whole number"},
      {{"austen=3x"}, "'3x' is no whole number"},
      {{"austen=1001"}, "between -1000 and 1000"},
      {{"austen=-1001"}, "between -1000 and 1000"},
      {{"austen=99999999999999999999"}, "between -1000 and 1000"},
      {{"austen=3", "doyle=1", "austen=3"}, "'austen' has priority 3 already"},
      {{"demo=3"}, "'demo' is pinned"},
  };
  for (const auto& [priorities, words] : cases) {
    const Status status = ParseAdapterPriorities(priorities, {"demo"}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << priorities.back();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace graft
