#include "cluster/runner_catalog.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(RunnerCatalogTest, WhatIsMissingIsToldOnceARunnerHasSpoken) {
  RunnerCatalog catalog("base");
  EXPECT_EQ(catalog.Find("austen").status().code(), StatusCode::kUnavailable);

  catalog.SetRunner(0, {});
  EXPECT_EQ(catalog.Find("austen").status().code(), StatusCode::kNotFound);

  catalog.SetRunner(1, {{.info = {.name = "austen", .hash = "h"}}});
  EXPECT_TRUE(catalog.Find("austen").ok());
  EXPECT_EQ(catalog.Find("doyle").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace graft
