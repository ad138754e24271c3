#include "bench/step_report.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(StepReportTest, DraftsBringWhatIsAcceptedForWhatTheyCost) {
  const std::vector<DraftsRow> rows = SpeedupsOfDrafts(2, 0.5, {0.0, 0.5, 1.0});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_DOUBLE_EQ(rows[0].tokens, 1.0);
  EXPECT_DOUBLE_EQ(rows[0].ratio, 0.5);
  EXPECT_DOUBLE_EQ(rows[1].tokens, 1.75);
  EXPECT_DOUBLE_EQ(rows[2].tokens, 3.0);
  EXPECT_DOUBLE_EQ(rows[2].ratio, 1.5);
  EXPECT_EQ(DraftsText({rows[1]}), "  accepted with 0.50: 1.75 tokens a step, 0.875 of base");
}

}  // namespace
}  // namespace graft
