// The dashboard over HTTP: its page, its data, and the keys that these want.
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "server/server_testing.h"

namespace graft {
namespace {

TEST(DashboardServerTest, ServesThePageAndItsData) {
  TestServer test;
  RawClient client(test.port());
  const RawResponse page = client.Get("/dashboard");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  const std::string policy = page.headers.at("content-security-policy");
  EXPECT_TRUE(policy.starts_with("default-src 'none';")) << policy;
  EXPECT_EQ(policy.find("unsafe"), std::string::npos) << policy;
  EXPECT_EQ(client.Get("/dashboard/dygraph.js").status, 200);
  EXPECT_EQ(client.Get("/dashboard/none.js").status, 404);
  const RawResponse data = client.Get("/dashboard/data?since=0");
  EXPECT_EQ(data.status, 200);
  EXPECT_EQ(data.headers.at("cache-control"), "no-store");
  EXPECT_EQ(data.json()["model"], "demo");
  EXPECT_EQ(data.json()["is_frontend"], false);
}

TEST(DashboardServerTest, DataAskForAnAdminsKeyWhereKeysAreOn) {
  ServerOptions options;
  options.api_keys_json = R"([{"key": "user", "tenant": "t", "adapters": ["*"]}])";
  options.admin_key = "secret";
  TestServer test(options);
  ASSERT_EQ(test.start_status.ToString(), "OK");
  RawClient client(test.port());
  EXPECT_EQ(client.Get("/dashboard").status, 200) << "it asks for the key itself";
  EXPECT_EQ(client.Get("/dashboard/data").status, 401);
  EXPECT_EQ(client.Get("/dashboard/data", "Authorization: Bearer user\r\n").status, 403);
  EXPECT_EQ(client.Get("/dashboard/data", "Authorization: Bearer secret\r\n").status, 200);
}

}  // namespace
}  // namespace graft
