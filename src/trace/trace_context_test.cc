#include "trace/trace_context.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr const char* kGiven = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContextTest, ReadsAndWritesTraceparents) {
  const std::optional<TraceContext> context = ParseTraceparent(kGiven);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(context->span_id, "b7ad6b7169203331");
  EXPECT_TRUE(context->is_sampled);
  EXPECT_EQ(FormatTraceparent(*context), kGiven);
  std::string not_sampled = kGiven;
  not_sampled.back() = '2';
  EXPECT_FALSE(ParseTraceparent(not_sampled)->is_sampled);
}

TEST(TraceContextTest, RefusesOtherForms) {
  const std::string given = kGiven;
  for (const std::string& bad :
       {std::string(), given + "0", given.substr(1), "01" + given.substr(2),
        "00-" + std::string(32, '0') + given.substr(35),
        given.substr(0, 36) + std::string(16, '0') + "-01", given.substr(0, 53) + "0g",
        given.substr(0, 10) + "X" + given.substr(11), given.substr(0, 35) + "_" + given.substr(36),
        given.substr(0, 52) + "_" + given.substr(53)}) {
    EXPECT_FALSE(ParseTraceparent(bad).has_value()) << bad;
  }
}

TEST(TraceContextTest, NewSpansAreValidAndDiffer) {
  const TraceContext root = BeginTrace();
  const TraceContext child = ChildOf(root);
  EXPECT_TRUE(ParseTraceparent(FormatTraceparent(root)).has_value()) << FormatTraceparent(root);
  EXPECT_TRUE(ParseTraceparent(FormatTraceparent(child)).has_value());
  EXPECT_EQ(child.trace_id, root.trace_id);
  EXPECT_NE(child.span_id, root.span_id);
  EXPECT_NE(BeginTrace().trace_id, root.trace_id);
  EXPECT_NE(root.trace_id.substr(0, 16), root.trace_id.substr(16));
}

}  // namespace
}  // namespace graft
