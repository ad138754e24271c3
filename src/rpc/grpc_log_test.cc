#include "rpc/grpc_log.h"

#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include "base/server_log.h"

namespace graft {
namespace {

TEST(GrpcLogTest, WhatGrpcSaysIsOfTheLogsForm) {
  testing::internal::CaptureStderr();
  {
    const auto log = *ServerLog::Begin({.format = LogFormat::kJson});
    TakeGrpcLog();
    gpr_log(GPR_ERROR, "no %s", "address");
    gpr_set_log_function(nullptr);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(said.starts_with("{")) << said;
  EXPECT_NE(said.find("gRPC: no address (grpc_log_test.cc:"), std::string::npos) << said;
}

}  // namespace
}  // namespace graft
