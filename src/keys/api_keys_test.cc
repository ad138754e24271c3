#include "keys/api_keys.h"

#include <gtest/gtest.h>

#include "base/sha256.h"

namespace graft {
namespace {

constexpr char kKeys[] = R"([
  {"key": "alpha", "tenant": "a", "adapters": ["austen", "demo"], "requests_per_minute": 2},
  {"key": "beta", "tenant": "b", "adapters": "*", "requests_concurrent_max": 1},
  {"key": "root", "tenant": "ops", "adapters": ["*"], "admin": true}])";

TEST(ApiKeysTest, KeysHaveTheirRights) {
  ManualClock clock;
  ApiKeys keys(clock);
  ASSERT_TRUE(keys.Load(Json::parse(kKeys)).ok());
  EXPECT_TRUE(keys.required());
  EXPECT_TRUE(keys.has_admin());
  auto alpha = keys.Authenticate("Bearer alpha");
  ASSERT_TRUE(alpha.ok());
  EXPECT_EQ((*alpha)->rights().tenant, "a");
  EXPECT_TRUE((*alpha)->Allows("austen"));
  EXPECT_TRUE((*alpha)->Allows("demo"));
  EXPECT_FALSE((*alpha)->Allows("doyle"));
  EXPECT_FALSE((*alpha)->rights().admin);
  EXPECT_TRUE((*keys.Authenticate("bearer  beta"))->Allows("anything"));
  EXPECT_TRUE((*keys.Authenticate("Bearer root"))->rights().admin);
  for (const char* bad : {"", "alpha", "Bearer ", "Bearer", "Bearer alph", "Bearer alphaa",
                          "Basic alpha", "Bearer ALPHA"}) {
    const auto refused = keys.Authenticate(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.error().http_status, 401);
  }
}

TEST(ApiKeysTest, KeysMayBeGivenAsHashes) {
  ManualClock clock;
  ApiKeys keys(clock);
  Sha256 hash;
  hash.Update("secret");
  ASSERT_TRUE(
      keys.Load({{{"key_sha256", hash.HexDigest()}, {"tenant", "t"}, {"adapters", {"*"}}}}).ok());
  EXPECT_TRUE(keys.Authenticate("Bearer secret").ok());
}

TEST(ApiKeysTest, ATenantHasOneWeight) {
  ManualClock clock;
  ApiKeys keys(clock);
  const auto load = [&](const char* first, const char* second) {
    return keys
        .LoadText(std::string(R"([{"key": "one", "tenant": "t", "adapters": "*")") + first +
                  R"(}, {"key": "two", "tenant": "t", "adapters": "*")" + second + "}]")
        .ToString();
  };
  EXPECT_EQ(load("", ""), "OK");
  EXPECT_EQ((*keys.Authenticate("Bearer one"))->rights().tenant_weight, 1.0f);
  EXPECT_EQ(load(R"(, "tenant_weight": 2.5)", R"(, "tenant_weight": 2.5)"), "OK");
  EXPECT_EQ((*keys.Authenticate("Bearer two"))->rights().tenant_weight, 2.5f);
  EXPECT_NE(load("", R"(, "tenant_weight": 2)").find("keys[1]: tenant_weight: tenant 't'"),
            std::string::npos);
  for (const char* wrong : {"0", "-1", "1001", "0.0001"}) {
    const std::string weight = std::string(", \"tenant_weight\": ") + wrong;
    EXPECT_NE(load(weight.c_str(), weight.c_str()).find("between 0.001 and 1000"),
              std::string::npos)
        << wrong;
  }
}

TEST(ApiKeysTest, WithoutKeysEverybodyMayGenerate) {
  ManualClock clock;
  ApiKeys keys(clock);
  ASSERT_TRUE(keys.SetAdminKey("admin").ok());
  EXPECT_FALSE(keys.required());
  EXPECT_EQ((*keys.Authenticate(""))->rights().tenant, "");
  EXPECT_TRUE((*keys.Authenticate("Bearer whatever"))->Allows("x"));
  EXPECT_FALSE((*keys.Authenticate("Bearer whatever"))->rights().admin);
  EXPECT_TRUE((*keys.Authenticate("Bearer admin"))->rights().admin);
}

TEST(ApiKeysTest, BadFilesAreRefusedByField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "JSON list"},
      {R"([])", "at least one"},
      {R"([3])", "keys[0]"},
      {R"([{"tenant":"t","adapters":["*"]}])", "keys[0].key"},
      {R"([{"key":"k","key_sha256":"00","tenant":"t","adapters":["*"]}])", "only one"},
      {R"([{"key_sha256":"00","tenant":"t","adapters":["*"]}])", "keys[0].key_sha256"},
      {R"([{"key":"k","adapters":["*"]}])", "keys[0].tenant"},
      {R"([{"key":"k","tenant":"t"}])", "keys[0].adapters"},
      {R"([{"key":"k","tenant":"t","adapters":[]}])", "keys[0].adapters"},
      {R"([{"key":"k","tenant":"t","adapters":["*"],"requests_per_minute":0}])",
       "keys[0].requests_per_minute"},
      {R"([{"key":"k","tenant":"t","adapters":["*"],"rate":3}])", "keys[0].rate"},
      {R"([{"key":"k","tenant":"t","adapters":["*"]},{"key":"k","tenant":"u","adapters":["*"]}])",
       "keys[1]"},
  };
  for (const auto& [text, part] : cases) {
    ManualClock clock;
    ApiKeys keys(clock);
    const Status status = keys.Load(Json::parse(text));
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST(ApiKeysTest, TheRateComesBackWithTime) {
  ManualClock clock;
  ApiKeys keys(clock);
  ASSERT_TRUE(keys.Load(Json::parse(kKeys)).ok());
  const std::shared_ptr<ApiKey> alpha = *keys.Authenticate("Bearer alpha");
  EXPECT_TRUE(alpha->Admit(clock).ok());
  EXPECT_TRUE(alpha->Admit(clock).ok());
  const auto refused = alpha->Admit(clock);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().http_status, 429);
  EXPECT_EQ(refused.error().retry_after_s, 30);
  clock.AdvanceNs(int64_t{29} * 1'000'000'000);
  EXPECT_FALSE(alpha->Admit(clock).ok());
  clock.AdvanceNs(int64_t{1} * 1'000'000'000);
  EXPECT_TRUE(alpha->Admit(clock).ok());
  // A long pause earns one minute's worth of requests and no more.
  clock.AdvanceNs(int64_t{3600} * 1'000'000'000);
  EXPECT_TRUE(alpha->Admit(clock).ok());
  EXPECT_TRUE(alpha->Admit(clock).ok());
  EXPECT_FALSE(alpha->Admit(clock).ok());
}

TEST(ApiKeysTest, AShareOfTheRateIsWhatOneOfSeveralServersLetsThrough) {
  ManualClock clock;
  ApiKeys keys(clock);
  ASSERT_TRUE(keys.LoadText(R"([{"key":"k","tenant":"t","adapters":["*"],"requests_per_minute":60},
      {"key":"free","tenant":"t","adapters":["*"]}])")
                  .ok());
  const auto key = *keys.Authenticate("Bearer k");
  const std::string digest = keys.TakeDemand().begin()->first;
  keys.SetShares({{digest, 6.0}});
  const auto let_through = [&] {
    int count = 0;
    for (int i = 0; i < 100; ++i) count += !key->Count(clock.NowNs()).has_value();
    return count;
  };
  EXPECT_EQ(let_through(), 6);
  clock.AdvanceNs(int64_t{30} * 1'000'000'000);
  EXPECT_EQ(let_through(), 3);
  EXPECT_EQ(keys.TakeDemand(), (std::map<std::string, int64_t>{{digest, 200}}));
  EXPECT_EQ(keys.TakeDemand().at(digest), 0);
  keys.SetShares({});
  clock.AdvanceNs(int64_t{60} * 1'000'000'000);
  EXPECT_EQ(let_through(), 60);
}

TEST(ApiKeysTest, KeysOfATenantShareItsLimits) {
  ManualClock clock;
  ApiKeys keys(clock);
  const auto load = [&](const char* limits) {
    return keys.LoadText(std::string(R"([
        {"key":"one","tenant":"t","adapters":"*","requests_per_minute":3,"tenant_limits":)") +
                         limits + R"(},
        {"key":"two","tenant":"t","adapters":"*","tenant_limits":)" +
                         limits + R"(},
        {"key":"other","tenant":"u","adapters":"*"}])");
  };
  ASSERT_EQ(load(R"({"requests_per_minute":4,"requests_concurrent_max":2})").ToString(), "OK");
  const auto one = *keys.Authenticate("Bearer one"), two = *keys.Authenticate("Bearer two");
  auto first = one->Admit(clock);
  auto second = two->Admit(clock);
  ASSERT_TRUE(first.ok() && second.ok());
  const auto refused = one->Admit(clock);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("This tenant has 2 requests running"), std::string::npos);
  EXPECT_TRUE((*keys.Authenticate("Bearer other"))->Admit(clock).ok());
  // What the tenant refused cost the key nothing.
  EXPECT_FALSE(one->Count(0).has_value());
  EXPECT_FALSE(one->Count(0).has_value());
  EXPECT_EQ(one->Count(0)->http_status, 429);
  EXPECT_NE(two->Count(0)->message.find("tenant's limit is 4"), std::string::npos);
  // Loading again keeps what the tenant has used.
  ASSERT_EQ(load(R"({"requests_per_minute":4})").ToString(), "OK");
  EXPECT_TRUE((*keys.Authenticate("Bearer two"))->Count(0).has_value());
  EXPECT_EQ(keys.TakeDemand().at("tenant:t"), 6);
  keys.SetShares({{"tenant:t", 60.0}});
  clock.AdvanceNs(int64_t{1} * 1'000'000'000);
  EXPECT_FALSE((*keys.Authenticate("Bearer two"))->Count(clock.NowNs()).has_value());
}

TEST(ApiKeysTest, ATenantsLimitsAreTheSameInAllItsEntries) {
  ManualClock clock;
  ApiKeys keys(clock);
  const Status differs = keys.LoadText(R"([
      {"key":"one","tenant":"t","adapters":"*","tenant_limits":{"n_max":2}},
      {"key":"two","tenant":"t","adapters":"*"}])");
  EXPECT_NE(differs.message().find("keys[1]: tenant_limits: tenant 't'"), std::string::npos)
      << differs.message();
  const Status unknown =
      keys.LoadText(R"([{"key":"one","tenant":"t","adapters":"*","tenant_limits":{"tokens":2}}])");
  EXPECT_NE(unknown.message().find("keys[0].tenant_limits.tokens"), std::string::npos)
      << unknown.message();
}

TEST(ApiKeysTest, NamesGoByPatterns) {
  ManualClock clock;
  ApiKeys keys(clock);
  ASSERT_TRUE(keys.LoadText(R"([
      {"key":"k","tenant":"t","adapters":["base","team-*","*/draft","a*b*c"]}])")
                  .ok());
  const auto key = *keys.Authenticate("Bearer k");
  for (const char* name :
       {"base", "team-", "team-1", "x/draft", "/draft", "abc", "a1b2c", "abcbc"}) {
    EXPECT_TRUE(key->Allows(name)) << name;
  }
  for (const char* name : {"bases", "tea", "my-team-1", "draft", "ab", "acb", "abcd", ""}) {
    EXPECT_FALSE(key->Allows(name)) << name;
  }
}

TEST(ApiKeysTest, WhatATenantOwnsIsNobodyElses) {
  ManualClock clock;
  ApiKeys keys(clock);
  ASSERT_TRUE(keys.LoadText(R"([
      {"key":"a","tenant":"acme","adapters":["*"],"tenant_adapters":["acme-*"]},
      {"key":"a2","tenant":"acme","adapters":["acme-1"]},
      {"key":"b","tenant":"other","adapters":["*","acme-1"]},
      {"key":"ops","tenant":"ops","adapters":["*"],"admin":true}])")
                  .ok());
  const auto allows = [&](const char* key, const char* name) {
    return (*keys.Authenticate(std::string("Bearer ") + key))->Allows(name);
  };
  EXPECT_TRUE(allows("a", "acme-1"));
  EXPECT_TRUE(allows("a2", "acme-1"));
  EXPECT_FALSE(allows("a2", "acme-2")) << "its own rights say which";
  EXPECT_FALSE(allows("b", "acme-1"));
  EXPECT_TRUE(allows("b", "base"));
  EXPECT_TRUE(allows("ops", "acme-1")) << "an admin loads and unloads it";
  using Named = std::map<std::string, std::string>;
  EXPECT_EQ(keys.NamedModels().size(), 1u) << "patterns are no names";
  EXPECT_EQ(keys.NamedModels().count("acme-1"), 1u);
  ASSERT_TRUE(keys.LoadText(R"([{"key":"a","tenant":"acme","adapters":["*"],
                                 "tenant_adapters":["x*","pirat"]}])")
                  .ok());
  EXPECT_EQ(keys.NamedModels(), (Named{{"pirat", "acme"}}));
  // It holds as long as the file says so.
  ASSERT_TRUE(keys.LoadText(R"([{"key":"b","tenant":"other","adapters":["*"]}])").ok());
  EXPECT_TRUE(allows("b", "acme-1"));
}

TEST(ApiKeysTest, ALeaseIsGivenBack) {
  ManualClock clock;
  ApiKeys keys(clock);
  ASSERT_TRUE(keys.Load(Json::parse(kKeys)).ok());
  const std::shared_ptr<ApiKey> beta = *keys.Authenticate("Bearer beta");
  {
    auto lease = beta->Admit(clock);
    ASSERT_TRUE(lease.ok());
    const MeterLease moved = std::move(*lease);
    EXPECT_EQ(beta->Admit(clock).error().http_status, 429);
  }
  EXPECT_TRUE(beta->Admit(clock).ok());
}

TEST(ApiKeysTest, LoadingAgainKeepsWhatWasUsed) {
  ManualClock clock;
  ApiKeys keys(clock);
  ASSERT_TRUE(keys.SetAdminKey("root").ok());
  const std::string begin = R"([{"key":"k","tenant":"t","adapters":["*"],)";
  ASSERT_TRUE(keys.Load(Json::parse(begin + R"("requests_concurrent_max":1}])")).ok());
  auto running = (*keys.Authenticate("Bearer k"))->Admit(clock);
  ASSERT_TRUE(running.ok());
  // Bad files change nothing.
  EXPECT_FALSE(keys.Load(Json::parse("[{}]")).ok());
  EXPECT_FALSE(keys.Load(Json::parse(R"([{"key":"root","tenant":"t","adapters":["*"]}])")).ok());
  EXPECT_FALSE((*keys.Authenticate("Bearer k"))->Admit(clock).ok());
  ASSERT_TRUE(keys.Load(Json::parse(begin + R"("requests_concurrent_max":2},
      {"key":"new","tenant":"u","adapters":["*"]}])"))
                  .ok());
  EXPECT_EQ((*keys.Authenticate("Bearer new"))->rights().tenant, "u");
  EXPECT_TRUE((*keys.Authenticate("Bearer root"))->rights().admin);
  auto second = (*keys.Authenticate("Bearer k"))->Admit(clock);
  EXPECT_TRUE(second.ok());
  EXPECT_FALSE((*keys.Authenticate("Bearer k"))->Admit(clock).ok());
  // A removed key is refused. A request that still runs with it gives its place back as usual.
  ASSERT_TRUE(keys.Load(Json::parse(R"([{"key":"new","tenant":"u","adapters":["*"]}])")).ok());
  EXPECT_EQ(keys.Authenticate("Bearer k").error().http_status, 401);
}

// A cluster's keys: whatever the new list says, no key stays that it does not name.
TEST(ApiKeysTest, AListThatIsEmptyOrCannotBeReadLetsNobodyInButTheAdmin) {
  ManualClock clock;
  ApiKeys keys(clock);
  ASSERT_TRUE(keys.SetAdminKey("root").ok());
  const auto enters = [&keys](const std::string& key) {
    return keys.Authenticate("Bearer " + key).ok();
  };
  const std::string old_key = R"([{"key":"old","tenant":"t","adapters":["*"],"admin":true}])";
  for (const std::string next : {"[]", "[{}]", "{}", "not JSON",
                                 R"([{"key":"old","tenant":"t","adapters":["*"],"later":1}])",
                                 R"([{"key":"root","tenant":"t","adapters":[]}])"}) {
    ASSERT_TRUE(keys.LoadText(old_key).ok());
    ASSERT_TRUE(enters("old"));
    (void)keys.LoadText(next);
    EXPECT_FALSE(enters("old")) << next;
    EXPECT_TRUE(keys.required()) << next;
    EXPECT_TRUE(enters("root")) << next;
  }
  const Status status = keys.LoadText(
      R"([{"tenant":"t","adapters":["*"]},{"key":"new","tenant":"t","adapters":["*"]}])");
  EXPECT_NE(status.message().find("keys[0]"), std::string::npos) << status.message();
  EXPECT_TRUE(enters("new")) << "one that cannot be read takes no other away";
}

}  // namespace
}  // namespace graft
