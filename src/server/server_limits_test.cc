// A real server and difficult clients: slow ones, ones that leave, greedy ones, ones without a key,
// and ones that are there when the server ends.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "server/server_testing.h"

namespace graft {
namespace server_limits_test {

using std::chrono::milliseconds;

constexpr char kCompletion[] = R"({"model":"demo","prompt":"Once","max_tokens":3})";
constexpr char kEndless[] = R"({"model":"demo","prompt":"x","max_tokens":1000})";
constexpr char kEndlessStream[] =
    R"({"model":"demo","prompt":"x","max_tokens":1000,"stream":true})";

std::string PostText(const std::string& path, const std::string& body,
                     const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

ServerOptions WithKeys(const std::string& keys) {
  ServerOptions options;
  options.api_keys_file = WriteTempFile("keys.json", keys);
  return options;
}

TEST(ServerLimitsTest, HugeBodiesAreRefusedUnread) {
  ServerOptions options;
  options.parser_limits.body_bytes_max = 1000;
  TestServer test(options);
  RawClient client(test.port());
  client.Send(kPostCompletion + "Content-Length: 1000000000\r\n\r\n");
  EXPECT_EQ(client.Receive().status, 413);
  EXPECT_TRUE(client.WaitForEnd());
  RawClient chunked(test.port());
  chunked.Send(kPostCompletion + "Transfer-Encoding: chunked\r\n\r\n1000\r\n" +
               std::string(4096, 'x'));
  EXPECT_EQ(chunked.Receive().status, 413);
  RawClient head(test.port());
  head.Send("GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(100000, 'x'));
  EXPECT_EQ(head.Receive().status, 431);
  RawClient garbage(test.port());
  garbage.Send(std::string("\x16\x03\x01\x02\x00\x01\x00", 7) + "\r\n\r\n");
  EXPECT_EQ(garbage.Receive().status, 400);
}

TEST(ServerLimitsTest, SlowClientsAreNotWaitedFor) {
  ServerOptions options;
  options.idle_timeout = milliseconds(100);
  {
    TestServer test(options);
    RawClient idle(test.port());
    EXPECT_TRUE(idle.WaitForEnd());
  }
  options.idle_timeout = std::chrono::seconds(60);  // a client that sends is not idle
  options.head_timeout = milliseconds(200);
  options.body_timeout = milliseconds(200);
  TestServer test(options);
  RawClient loris(test.port());
  const std::string head = kPostCompletion + "Content-Length: 50\r\n";
  for (int i = 0; i < 8; ++i) {
    loris.Send(head.substr(i, 1));
    std::this_thread::sleep_for(milliseconds(40));
  }
  EXPECT_EQ(loris.Receive().status, 408);
  RawClient slow_body(test.port());
  slow_body.Send(head + "\r\n{");
  EXPECT_EQ(slow_body.Receive().status, 408);
  EXPECT_TRUE(slow_body.WaitForEnd());
}

TEST(ServerLimitsTest, AClientThatLeavesIsCancelled) {
  TestServer test;
  test.generator.set_tick(milliseconds(2));
  int32_t cancelled = 0;
  for (const bool stream : {false, true}) {
    for (const bool reset : {false, true}) {
      auto client = std::make_unique<RawClient>(test.port());
      client->Send(PostText("/v1/completions", stream ? kEndlessStream : kEndless));
      ASSERT_TRUE(test.generator.WaitForRunning(1));
      if (stream) {
        EXPECT_NE(client->ReceiveSome(), "");
      }
      if (reset) client->Reset();
      client.reset();
      EXPECT_TRUE(test.generator.WaitForCancelled(++cancelled));
    }
  }
}

TEST(ServerLimitsTest, AClientThatLeavesTheQueueIsCancelled) {
  TestServer test;
  test.generator.set_hold(true);
  for (const char* body : {kEndless, kEndlessStream}) {
    RawClient client(test.port());
    client.Send(PostText("/v1/completions", body));
    ASSERT_TRUE(test.generator.WaitForRunning(1));
    client.HalfClose();
    EXPECT_TRUE(test.generator.WaitForRunning(0));
  }
  EXPECT_EQ(test.generator.num_cancelled(), 2);
}

TEST(ServerLimitsTest, AHalfClosedClientGetsShortAnswers) {
  TestServer test;
  RawClient client(test.port());
  client.Send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.HalfClose();
  EXPECT_EQ(client.Receive().status, 200);
  EXPECT_TRUE(client.WaitForEnd());
}

TEST(ServerLimitsTest, AWaitingStreamGetsHeartbeats) {
  ServerOptions options;
  options.heartbeat = milliseconds(30);
  TestServer test(options);
  test.generator.set_hold(true);
  RawClient client(test.port());
  client.Send(PostText("/v1/completions", kEndlessStream));
  std::string seen;
  while (seen.find(": keep-alive") == std::string::npos) {
    const std::string more = client.ReceiveSome();
    ASSERT_NE(more, "");
    seen += more;
  }
  EXPECT_TRUE(seen.starts_with("HTTP/1.1 200"));
}

// What the simplest decoders make of a stream: an event ends at a blank line, and an event without
// data is the end.
TEST(ServerLimitsTest, HeartbeatsAreNoEmptyEvents) {
  ServerOptions options;
  options.heartbeat = milliseconds(1);
  TestServer test(options);
  test.generator.set_tick(milliseconds(20));
  for (const std::string path : {"/v1/completions", "/v1/chat/completions", "/v1/responses"}) {
    RawClient client(test.port());
    Json body = {{"model", "demo"}, {"stream", true}};
    if (path == "/v1/completions") {
      body.update({{"prompt", "x"}, {"max_tokens", 8}});
    } else if (path == "/v1/responses") {
      body.update({{"input", "x"}, {"max_output_tokens", 8}});
    } else {
      body.update(
          {{"messages", Json::array({{{"role", "user"}, {"content", "x"}}})}, {"max_tokens", 8}});
    }
    const RawResponse response = client.Post(path, body.dump());
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_NE(response.body.find(": keep-alive\n"), std::string::npos) << path;
    size_t begin = 0;
    for (size_t end = 0; (end = response.body.find("\n\n", begin)) != std::string::npos;) {
      const std::string event = "\n" + response.body.substr(begin, end - begin);
      EXPECT_NE(event.find("\ndata: "), std::string::npos) << path << event;
      begin = end + 2;
    }
    EXPECT_EQ(begin, response.body.size()) << path;
  }
}

TEST(ServerLimitsTest, AClientThatDoesNotReadIsDropped) {
  ServerOptions options;
  options.write_timeout = milliseconds(200);
  TestServer test(options);
  RawClient client(test.port(), /*tls=*/false, /*is_narrow=*/true);
  // Twenty logprobs per token: soon more than the sockets' buffers hold. However slow the server
  // is, they do not end by themselves: each is held back before its last token.
  const Json body = {{"model", "demo"}, {"prompt", "x"},  {"max_tokens", 300},
                     {"stream", true},  {"logprobs", 20}, {"n", 8}};
  test.generator.set_hold_at(299);
  client.Send(PostText("/v1/completions", body.dump()));
  ASSERT_TRUE(test.generator.WaitForRunning(8));
  EXPECT_TRUE(test.generator.WaitForRunning(0));
  EXPECT_GT(test.generator.num_cancelled(), 0);
  RawClient other(test.port());
  const std::string page = other.Get("/metrics").body;
  EXPECT_NE(page.find("\ngraft_http_write_timeouts_total 1\n"), std::string::npos) << page;
}

TEST(ServerLimitsTest, AClientThatReadsSlowlyIsNotDropped) {
  ServerOptions options;
  options.write_timeout = milliseconds(4000);  // no thread rests for so long
  TestServer test(options);
  // The answer is a single write, larger than the sockets' buffers.
  constexpr size_t kHelpBytes = 32 << 20;
  test.metrics.Counter("long_total", std::string(kHelpBytes, 'x'));
  RawClient client(test.port());
  client.SetReceiveBuffer(256 << 10);
  client.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  size_t bytes = 0;
  const auto slow_until = std::chrono::steady_clock::now() + 3 * options.write_timeout / 2;
  for (std::string more; !(more = client.ReceiveSome()).empty();) {
    bytes += more.size();
    if (std::chrono::steady_clock::now() < slow_until) {
      std::this_thread::sleep_for(milliseconds(10));
    }
  }
  EXPECT_GT(bytes, kHelpBytes);
  EXPECT_EQ(test.metrics
                .Counter("graft_http_write_timeouts_total",
                         "Connections cut because the client did not read.")
                .Value(),
            0);
}

TEST(ServerLimitsTest, RequestsHaveATimeLimit) {
  ServerOptions options;
  options.request_timeout = milliseconds(100);
  TestServer test(options);
  test.generator.set_hold(true);
  RawClient client(test.port());
  EXPECT_EQ(client.Post("/v1/completions", kEndless).status, 504);
  EXPECT_EQ(client.Post("/v1/completions", kEndlessStream).status, 504);
  EXPECT_TRUE(test.generator.WaitForCancelled(2));
}

TEST(ServerLimitsTest, ConnectionsAreLimited) {
  ServerOptions options;
  options.connections_max = 2;
  TestServer test(options);
  test.generator.set_hold(true);
  auto first = std::make_unique<RawClient>(test.port());
  RawClient second(test.port());
  first->Send(PostText("/v1/completions", kEndless));
  second.Send(PostText("/v1/completions", kEndless));
  ASSERT_TRUE(test.generator.WaitForRunning(2));
  test.clock.AdvanceSeconds(9);
  RawClient third(test.port());
  const RawResponse refused = third.Receive();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "8") << "as long again, what is past less";
  EXPECT_TRUE(third.WaitForEnd());
  first.reset();
  // The place becomes free a moment later.
  bool served = false;
  for (int i = 0; i < 3000 && !served; ++i) {
    RawClient next(test.port());
    served = next.Get("/health").status == 200;
    if (!served) std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_TRUE(served);
}

TEST(ServerLimitsTest, WaitingConnectionsMakeRoomTheLongestWaitingFirst) {
  ServerOptions options;
  options.connections_max = 3;
  TestServer test(options);
  test.generator.set_hold(true);
  RawClient busy(test.port());
  busy.Send(PostText("/v1/completions", kCompletion));
  ASSERT_TRUE(test.generator.WaitForRunning(1));
  RawClient silent(test.port());
  RawClient idle(test.port());
  EXPECT_EQ(idle.Get("/health").status, 200);
  // It waits from a moment after its answer on, and is to have waited longer than the next one.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  RawClient first_more(test.port());
  EXPECT_EQ(first_more.Get("/health").status, 200);
  EXPECT_TRUE(silent.WaitForEnd());
  // After its answer it takes a moment until a connection counts as waiting. Until then there is no
  // room.
  std::optional<RawClient> second_more;
  for (int i = 0; i < 1000; ++i) {
    second_more.emplace(test.port());
    if (second_more->Get("/health").status == 200) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(idle.WaitForEnd());
  const std::string page = second_more->Get("/metrics").body;
  EXPECT_NE(page.find("\ngraft_http_idle_closed_total 2\n"), std::string::npos) << page;
  test.generator.set_hold(false);
  EXPECT_EQ(busy.Receive().status, 200);
}

TEST(ServerKeysTest, KeysDecideWhatIsSeen) {
  TestServer test(WithKeys(R"([
      {"key":"alpha","tenant":"a","adapters":["austen"]},
      {"key":"root","tenant":"ops","adapters":["*"],"admin":true}])"));
  ASSERT_TRUE(test.start_status.ok()) << test.start_status.ToString();
  const std::string alpha = "Authorization: Bearer alpha\r\n";
  const std::string root = "Authorization: Bearer root\r\n";
  RawClient client(test.port());
  for (const char* wrong :
       {"", "Authorization: Bearer nope\r\n", "Authorization: Basic alpha\r\n"}) {
    const RawResponse response = client.Post("/v1/completions", kCompletion, wrong);
    EXPECT_EQ(response.status, 401);
    EXPECT_EQ(response.json()["error"]["code"], "invalid_api_key");
    EXPECT_EQ(client.Get("/v1/models", wrong).status, 401);
  }
  EXPECT_EQ(client.Get("/health").status, 200);
  EXPECT_EQ(client.Get("/ready").status, 200);
  EXPECT_EQ(client.Get("/metrics").status, 200);
  const Json models = client.Get("/v1/models", alpha).json();
  ASSERT_EQ(models["data"].size(), 1u);
  EXPECT_EQ(models["data"][0]["id"], "austen");
  // A model that the key may not use looks as if it did not exist, and no name of another tenant
  // leaks.
  for (const char* model : {"demo", "doyle", "doile"}) {
    const Json body = {{"model", model}, {"prompt", "x"}};
    const RawResponse response = client.Post("/v1/completions", body.dump(), alpha);
    EXPECT_EQ(response.status, 404);
    EXPECT_EQ(response.body.find("'doyle-large'"), std::string::npos);
  }
  EXPECT_EQ(client.Post("/v1/completions", R"({"model":"austen","prompt":"x"})", alpha).status,
            200);
  EXPECT_EQ(client.Post("/v1/completions", kCompletion, root).status, 200);
  EXPECT_EQ(test.generator.submitted().at(0).tenant, "a");
  EXPECT_EQ(test.generator.submitted().at(1).tenant, "ops");
  const std::string unload = R"({"lora_name":"austen"})";
  EXPECT_EQ(client.Post("/v1/unload_lora_adapter", unload, alpha).status, 403);
  EXPECT_EQ(client.Post("/v1/unload_lora_adapter", unload, root).status, 200);
  EXPECT_EQ(client.Post("/v1/unload_lora_adapter", unload, root).status, 404);
}

// The tenant's requests would get other content, or its content would be open to all tenants.
TEST(ServerKeysTest, WhatATenantLearnedIsReplacedByNoLoad) {
  TestServer test({.admin_key = "secret"});
  ASSERT_TRUE(test.catalog.Load({.name = "ft:base:1", .path = "good/learned", .owner = "t"}).ok());
  RawClient client(test.port());
  const std::string admin = "Authorization: Bearer secret\r\n";
  for (const char* const path : {"good/learned", "good/other"}) {
    for (const bool in_place : {false, true}) {
      const Json load = {
          {"lora_name", "ft:base:1"}, {"lora_path", path}, {"load_inplace", in_place}};
      const RawResponse response = client.Post("/v1/load_lora_adapter", load.dump(), admin);
      EXPECT_EQ(response.status, 400) << response.body;
      EXPECT_NE(response.body.find("learned"), std::string::npos) << response.body;
    }
  }
  const Result<AdapterInfo> kept = test.catalog.Find("ft:base:1");
  EXPECT_EQ(kept->owner, "t");
  EXPECT_EQ(kept->hash, "hash-of-good/learned");
}

TEST(ServerKeysTest, AWrongKeyCannotMakeTheServerReadABody) {
  TestServer test(WithKeys(R"([{"key":"k","tenant":"t","adapters":["*"]}])"));
  RawClient client(test.port());
  client.Send(kPostCompletion + "Content-Length: 1000000\r\n\r\n");
  EXPECT_EQ(client.Receive().status, 401);
  EXPECT_TRUE(client.WaitForEnd());
}

TEST(ServerKeysTest, KeysAreReadAnew) {
  ServerOptions options = WithKeys(R"([{"key":"old","tenant":"a","adapters":["*"]}])");
  TestServer test(options);
  test.generator.set_hold(true);
  const std::string old_key = "Authorization: Bearer old\r\n";
  const std::string new_key = "Authorization: Bearer new\r\n";
  RawClient client(test.port());
  EXPECT_EQ(client.Get("/v1/models", new_key).status, 401);
  RawClient running(test.port());
  running.Send(PostText("/v1/completions", kCompletion, old_key));
  ASSERT_TRUE(test.generator.WaitForRunning(1));
  WriteTempFile("keys.json", "[{}]");
  const Status bad = test.server->Reload();
  EXPECT_NE(bad.message().find("keys[0]"), std::string::npos) << bad.ToString();
  EXPECT_EQ(client.Get("/v1/models", old_key).status, 200) << "what was in force stays so";
  WriteTempFile("keys.json", R"([{"key":"new","tenant":"b","adapters":["*"]}])");
  EXPECT_TRUE(test.server->Reload().ok());
  EXPECT_EQ(client.Get("/v1/models", new_key).status, 200);
  EXPECT_EQ(client.Get("/v1/models", old_key).status, 401);
  test.generator.set_hold(false);
  EXPECT_EQ(running.Receive().status, 200) << "it began with a key that was good";
}

TEST(ServerKeysTest, BadKeyFilesStopTheStart) {
  TestServer test(WithKeys(R"([{"key":"k","tenant":"t"}])"));
  EXPECT_FALSE(test.start_status.ok());
  EXPECT_NE(test.start_status.message().find("keys[0].adapters"), std::string::npos);
}

TEST(ServerKeysTest, RatesAndConcurrencyAreLimited) {
  TestServer test(WithKeys(R"([
      {"key":"slow","tenant":"a","adapters":["*"],"requests_per_minute":2},
      {"key":"one","tenant":"b","adapters":["*"],"requests_concurrent_max":1}])"));
  const std::string slow = "Authorization: Bearer slow\r\n";
  const std::string one = "Authorization: Bearer one\r\n";
  RawClient client(test.port());
  EXPECT_EQ(client.Post("/v1/completions", kCompletion, slow).status, 200);
  EXPECT_EQ(client.Post("/v1/completions", kCompletion, slow).status, 200);
  const RawResponse refused = client.Post("/v1/completions", kCompletion, slow);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("retry-after"), "30");
  EXPECT_EQ(client.Get("/v1/models", slow).status, 429) << "lists are requests, too";
  EXPECT_EQ(client.Get("/v1/models/nobody", slow).status, 429);
  EXPECT_EQ(client.Get("/health", slow).status, 200);
  test.clock.AdvanceSeconds(30);
  EXPECT_EQ(client.Post("/v1/completions", kCompletion, slow).status, 200);

  test.generator.set_hold(true);
  {
    RawClient busy(test.port());
    busy.Send(kPostCompletion + one + "Content-Length: " +
              std::to_string(std::string(kEndless).size()) + "\r\n\r\n" + kEndless);
    ASSERT_TRUE(test.generator.WaitForRunning(1));
    EXPECT_EQ(client.Post("/v1/completions", kCompletion, one).status, 429);
    EXPECT_EQ(client.Get("/v1/models", one).status, 200) << "a list holds no place";
  }
  EXPECT_TRUE(test.generator.WaitForRunning(0));
  test.generator.set_hold(false);
  int status = 429;
  for (int i = 0; i < 6000 && status == 429; ++i) {
    status = client.Post("/v1/completions", kCompletion, one).status;
    if (status == 429) std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(status, 200);
}

TEST(ServerKeysTest, TokensAMinuteAreLimitedAndTold) {
  TestServer test(WithKeys(R"([
      {"key":"k","tenant":"a","adapters":["*"],"tokens_per_minute":60,"requests_per_minute":600},
      {"key":"free","tenant":"b","adapters":["*"]}])"));
  const std::string key = "Authorization: Bearer k\r\n";
  const auto body = [](int tokens_max) {
    return R"({"model":"demo","prompt":[1,1],"max_tokens":)" + std::to_string(tokens_max) + "}";
  };
  RawClient client(test.port());
  const RawResponse first = client.Post("/v1/completions", body(20), key);
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.headers.at("x-ratelimit-limit-tokens"), "60");
  EXPECT_EQ(first.headers.at("x-ratelimit-limit-requests"), "600");
  EXPECT_EQ(first.headers.at("x-ratelimit-remaining-requests"), "599");
  EXPECT_EQ(client.Post("/v1/completions", body(59), key).status, 400) << "it would never do";
  test.generator.set_hold(true);
  RawClient busy(test.port());
  const std::string long_one = body(50);
  test.clock.AdvanceSeconds(60);
  busy.Send(kPostCompletion + key + "Content-Length: " + std::to_string(long_one.size()) +
            "\r\n\r\n" + long_one);
  ASSERT_TRUE(test.generator.WaitForRunning(1));
  const RawResponse refused = client.Post("/v1/completions", body(16), key);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("retry-after"), "10") << "8 of 18 are left";
  EXPECT_EQ(refused.headers.at("x-ratelimit-remaining-tokens"), "8");
  test.generator.set_hold(false);
  EXPECT_EQ(busy.Receive().status, 200);
  const RawResponse free =
      client.Post("/v1/completions", body(6), "Authorization: Bearer free\r\n");
  EXPECT_FALSE(free.headers.contains("x-ratelimit-limit-tokens"));
}

TEST(ServerKeysTest, LongBodiesDoNotWaitForLoads) {
  ServerOptions options;
  options.admin_key = "secret";
  options.inline_body_bytes_max = 100;
  TestServer test(options);
  const std::string admin = "Authorization: Bearer secret\r\n";
  const std::string load = R"({"lora_name":"new","lora_path":"good/slow","load_inplace":true})";
  // There are more loads than threads for long bodies.
  std::vector<std::unique_ptr<RawClient>> loads;
  std::unique_lock folder(test.catalog.slow_folder);
  for (int i = 0; i < 4; ++i) {
    loads.push_back(std::make_unique<RawClient>(test.port()));
    loads.back()->Send(PostText("/v1/load_lora_adapter", load, admin));
  }
  RawClient client(test.port());
  const Json body = {{"model", "demo"}, {"prompt", std::string(900, 'x')}, {"max_tokens", 3}};
  EXPECT_EQ(client.Post("/v1/completions", body.dump(), admin).status, 200);
  folder.unlock();
  for (const auto& waiting : loads) EXPECT_EQ(waiting->Receive().status, 200);
}

// With a single thread for sockets: another thread must list the adapters.
TEST(ServerKeysTest, NobodyWaitsForAListOfModels) {
  ServerOptions options;
  options.threads_max = 1;
  TestServer test(options);
  ASSERT_TRUE(test.catalog.WaitForLists(1));
  std::unique_lock list(test.catalog.slow_list);
  RawClient lists(test.port());
  lists.Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
  RawClient client(test.port());
  ASSERT_TRUE(test.catalog.WaitForLists(2));
  EXPECT_EQ(client.Get("/health").status, 200);
  EXPECT_EQ(client.Post("/v1/completions", kCompletion).status, 200);
  list.unlock();
  EXPECT_EQ(lists.Receive().json()["data"].size(), 4u);
}

TEST(ServerKeysTest, AdaptersAreLoadedByAdminsOnly) {
  TestServer open;
  RawClient anybody(open.port());
  const std::string load = R"({"lora_name":"new","lora_path":"good/new"})";
  const RawResponse off = anybody.Post("/v1/load_lora_adapter", load);
  EXPECT_EQ(off.status, 403);
  EXPECT_NE(off.body.find("--admin-key"), std::string::npos);

  ServerOptions options;
  options.admin_key = "secret";
  TestServer test(options);
  RawClient client(test.port());
  const std::string admin = "Authorization: Bearer secret\r\n";
  EXPECT_EQ(client.Post("/v1/load_lora_adapter", load).status, 403);
  const RawResponse loaded = client.Post("/v1/load_lora_adapter", load, admin);
  EXPECT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(loaded.json()["hash"], "hash-of-good/new");
  EXPECT_EQ(client.Post("/v1/completions", R"({"model":"new","prompt":"x"})").status, 200);
  EXPECT_EQ(client.Post("/v1/load_lora_adapter", load, admin).status, 409);
  EXPECT_EQ(client
                .Post("/v1/load_lora_adapter",
                      R"({"lora_name":"new","lora_path":"good/b","load_inplace":true})", admin)
                .status,
            200);
  const std::pair<const char*, int> cases[] = {
      {R"({"lora_name":"x","lora_path":"../../etc"})", 403},
      {R"({"lora_name":"x","lora_path":"/etc/passwd"})", 403},
      {R"({"lora_name":"x","lora_path":"good/../../etc"})", 403},
      {R"({"lora_name":"x","lora_path":"missing"})", 404},
      {R"({"lora_name":"demo","lora_path":"good/x"})", 409},
      {R"({"lora_name":"x","lora_path":"full"})", 409},
      {R"({"lora_name":"x","lora_path":"good/x","lora_name":"y"})", 400},
      {R"({"lora_name":"x"})", 400},
      {R"({"lora_path":"good/x"})", 400},
      {R"({"lora_name":"x","lora_path":"good/x","revision":1})", 400},
      {"[]", 400},
      {"{", 400},
  };
  for (const auto& [body, status] : cases) {
    const RawResponse response = client.Post("/v1/load_lora_adapter", body, admin);
    EXPECT_EQ(response.status, status) << body;
    EXPECT_EQ(response.headers.count("retry-after"), 0u) << body;
  }
  const RawResponse base = client.Post("/v1/unload_lora_adapter", R"({"lora_name":"demo"})", admin);
  EXPECT_EQ(base.status, 400);
  EXPECT_EQ(base.body.find("did you mean"), std::string::npos) << base.body;
}

TEST(ServerKeysTest, WhoseLoadItWasIsTheAdminsBusiness) {
  TestServer test(WithKeys(R"([
      {"key":"alpha","tenant":"a","adapters":["*"]},
      {"key":"root","tenant":"ops","adapters":["*"],"admin":true}])"));
  RawClient client(test.port());
  const std::string alpha = "Authorization: Bearer alpha\r\n";
  const std::string root = "Authorization: Bearer root\r\n";
  const std::string load = R"({"lora_name":"new","lora_path":"good/new")";
  EXPECT_EQ(client.Post("/v1/load_lora_adapter", load + R"(,"tenant":"a"})", root).status, 400);
  const RawResponse loaded = client.Post("/v1/load_lora_adapter", load + "}", root);
  EXPECT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(loaded.json()["tenant"], "ops");
  EXPECT_EQ(client.Get("/v1/models/new", root).json()["tenant"], "ops");
  EXPECT_TRUE(client.Get("/v1/models/austen", root).json().at("tenant").is_null());
  EXPECT_FALSE(client.Get("/v1/models/new", alpha).json().contains("tenant"));
  const Json for_root = client.Get("/v1/models", root).json()["data"];
  ASSERT_EQ(for_root.size(), 5u);
  for (const Json& model : for_root) {
    EXPECT_EQ(model.contains("tenant"), model["id"] != "demo") << model["id"];
  }
  const Json for_alpha = client.Get("/v1/models", alpha).json()["data"];
  ASSERT_EQ(for_alpha.size(), for_root.size());
  for (const Json& model : for_alpha) {
    EXPECT_FALSE(model.contains("tenant")) << model["id"];
  }
}

TEST(ServerKeysTest, WhyALoadFailsIsToldWithoutPlacesOnTheServer) {
  ServerOptions options;
  options.admin_key = "secret";
  TestServer test(options);
  RawClient client(test.port());
  const std::pair<std::string, std::string> cases[] = {
      {"../x", "path '../x' is outside the adapters folder"},
      {"/etc/passwd", "path '/etc/passwd' is outside the adapters folder"},
      {"missing", "path 'missing' does not exist under the adapters folder"},
      {"broken", "broken/adapter_config.json: []"},
      {"unwritten", "that failed; the server's log says why"},
  };
  for (const auto& [path, message] : cases) {
    const Json body = {{"lora_name", "x"}, {"lora_path", path}};
    const RawResponse response =
        client.Post("/v1/load_lora_adapter", body.dump(), "Authorization: Bearer secret\r\n");
    EXPECT_EQ(response.json()["error"]["message"], message);
  }
}

TEST(ServerKeysTest, MetricsCanBeKeptToAdmins) {
  ServerOptions options;
  options.admin_key = "secret";
  options.metrics_need_admin = true;
  TestServer test(options);
  RawClient client(test.port());
  EXPECT_EQ(client.Get("/metrics").status, 403);
  EXPECT_EQ(client.Get("/metrics", "Authorization: Bearer secret\r\n").status, 200);
  TestServer frontend({.admin_key = "secret", .metrics_need_admin = true}, true,
                      [] { return FleetFigures{.runners_wanted = 4}; });
  RawClient scaler(frontend.port());
  EXPECT_EQ(scaler.Get("/scale").status, 403);
  EXPECT_EQ(scaler.Get("/scale", "Authorization: Bearer secret\r\n").status, 200);
}

TEST(ServerShutdownTest, RequestsInFlightFinish) {
  TestServer test;
  test.generator.set_hold(true);
  RawClient whole(test.port());
  RawClient stream(test.port());
  RawClient idle(test.port());
  EXPECT_EQ(idle.Get("/ready").status, 200);
  whole.Send(PostText("/v1/completions", kCompletion));
  stream.Send(
      PostText("/v1/completions", R"({"model":"demo","prompt":"x","max_tokens":3,"stream":true})"));
  ASSERT_TRUE(test.generator.WaitForRunning(2));
  std::thread shutdown([&] { EXPECT_TRUE(test.server->Shutdown(std::chrono::seconds(30))); });
  // The idle connection is closed at once, or it sees the change and is closed with that answer.
  int ready = 200;
  RawResponse response;
  for (int i = 0; i < 12'000 && ready == 200; ++i) {
    response = idle.Get("/ready");
    ready = response.status;
    if (ready == 200) std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(ready == 503 || ready == 0) << ready;  // 0: closed without an answer
  if (ready == 503) {
    EXPECT_EQ(response.headers.at("connection"), "close");
  }
  test.generator.set_hold(false);
  EXPECT_EQ(whole.Receive().status, 200);
  EXPECT_EQ(stream.Receive().events().back(), "[DONE]");
  shutdown.join();
  RawClient late(test.port());
  EXPECT_FALSE(late.connected());
  EXPECT_EQ(test.generator.num_cancelled(), 0);
}

TEST(ServerShutdownTest, TheDeadlineCutsRequestsOff) {
  TestServer test;
  test.generator.set_tick(milliseconds(5));
  RawClient stream(test.port());
  stream.Send(PostText("/v1/completions", kEndlessStream));
  RawClient whole(test.port());
  whole.Send(PostText("/v1/completions", kEndless));
  RawClient half_sent(test.port());
  half_sent.Send(kPostCompletion + "Content-Length: 50\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(half_sent.ReceiveSome().starts_with("HTTP/1.1 100")) << "the server waits for it";
  half_sent.Send("{");
  ASSERT_TRUE(test.generator.WaitForRunning(2));
  std::thread shutdown([&] { EXPECT_TRUE(test.server->Shutdown(milliseconds(100))); });
  const RawResponse streamed = stream.Receive();
  EXPECT_EQ(streamed.status, 200);
  EXPECT_EQ(Json::parse(streamed.events().back())["error"]["code"], "draining");
  EXPECT_EQ(whole.Receive().status, 503);
  EXPECT_EQ(half_sent.Receive().status, 503);
  shutdown.join();
  EXPECT_TRUE(test.generator.WaitForCancelled(2));
}

TEST(ServerShutdownTest, AServerThatNeverStartedEndsQuietly) {
  ServerOptions options;
  options.host = "no.such.host.invalid";
  TestServer test(options);
  EXPECT_FALSE(test.start_status.ok());
  TestServer first;
  ServerOptions taken;
  taken.port = first.port();
  HttpServer second({.generator = first.generator,
                     .catalog = first.catalog,
                     .tokenizer = DemoTokenizer(),
                     .metrics = first.metrics,
                     .clock = first.clock,
                     .base_model = "demo"},
                    taken);
  EXPECT_EQ(second.Start().code(), StatusCode::kUnavailable);
}

}  // namespace server_limits_test
}  // namespace graft
