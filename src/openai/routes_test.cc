#include "openai/routes.h"

#include <gtest/gtest.h>

#include <string_view>

namespace graft {
namespace {

RouteMatch Match(std::string_view path) {
  return MatchRoute(path, [](std::string_view name) { return name == "page.js"; });
}

TEST(RoutesTest, PathsAndMethods) {
  EXPECT_EQ(Match("/v1/models").route, Route::kModels);
  EXPECT_EQ(Match("/v1/models/a%2Fb").model, "a/b");
  EXPECT_EQ(Match("/v1/models/a/b").model, "a/b");
  EXPECT_EQ(Match("/v1/models/").route, Route::kUnknown);
  EXPECT_EQ(Match("/v1/models/{model}").route, Route::kModel);
  EXPECT_EQ(Match("/v1").route, Route::kUnknown);
  EXPECT_EQ(Match("/dashboard/page.js").file, "page.js");
  EXPECT_EQ(Match("/dashboard/none.js").route, Route::kUnknown);
  EXPECT_TRUE(MethodAllowed(Route::kModels, "HEAD"));
  EXPECT_FALSE(MethodAllowed(Route::kCompletions, "GET"));
  EXPECT_EQ(Match("/v1/files").route, Route::kFiles);
  EXPECT_EQ(Match("/v1/files/file-1/content").route, Route::kFileContent);
  EXPECT_EQ(Match("/v1/files/content").id, "content");
  EXPECT_EQ(Match("/v1/files//content").route, Route::kUnknown);
  EXPECT_EQ(Match("/v1/files/a/b").route, Route::kUnknown);
  EXPECT_EQ(Match("/v1/fine_tuning/jobs/j%201/cancel").id, "j 1");
  EXPECT_EQ(Match("/v1/fine_tuning/jobs/j/checkpoints").route, Route::kFineTuningCheckpoints);
  EXPECT_EQ(Match("/v1/responses/r/input_items").id, "r");
  EXPECT_TRUE(MethodAllowed(Route::kFiles, "POST"));
  EXPECT_TRUE(MethodAllowed(Route::kFiles, "HEAD"));
  EXPECT_FALSE(MethodAllowed(Route::kFiles, "DELETE"));
  EXPECT_FALSE(MethodAllowed(Route::kFiles, "GET, POST"));
  EXPECT_TRUE(MethodAllowed(Route::kModel, "DELETE"));
  EXPECT_FALSE(MethodAllowed(Route::kModel, ""));
}

}  // namespace
}  // namespace graft
