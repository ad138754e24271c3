// A real server with tenants that share its memory and connections: bodies, their trees and unread
// answers count, and no tenant keeps the others out.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/unwanted_work.h"
#include "grammar/schema_work.h"
#include "server/server_testing.h"

namespace graft {
namespace server_shares_test {

using std::chrono::milliseconds;

const std::string kKeyA = "Authorization: Bearer a\r\n";
const std::string kKeyB = "Authorization: Bearer b\r\n";

ServerOptions WithTenants() {
  ServerOptions options;
  options.api_keys_json = R"([{"key":"a","tenant":"a","adapters":["*"]},
                              {"key":"b","tenant":"b","adapters":["*"]}])";
  return options;
}

std::string Repeat(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::string PostHead(const std::string& path, const std::string& headers, size_t bytes) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         headers + "Content-Length: " + std::to_string(bytes) + "\r\n\r\n";
}

// Waits until the requests at hand hold so many bytes.
bool WaitForBytes(uint16_t port, const std::function<bool(int64_t)>& is_reached) {
  RawClient client(port);
  constexpr int kTries = 20000;
  for (int i = 0; i < kTries; ++i) {
    const std::string page = client.Get("/metrics").body;
    const std::string name = "\ngraft_http_body_bytes ";
    const size_t at = page.find(name);
    if (at == std::string::npos) return false;
    if (is_reached(std::stoll(page.substr(at + name.size())))) return true;
    std::this_thread::yield();
  }
  return false;
}

bool WaitForBytes(uint16_t port, int64_t bytes) {
  return WaitForBytes(port, [bytes](int64_t now) { return now == bytes; });
}

TEST(ServerSharesTest, AStalledBodyGivesItsRoomToAnotherTenant) {
  ServerOptions options = WithTenants();
  options.body_bytes_total_max = 1 << 20;
  TestServer test(options);
  RawClient stalled(test.port());
  stalled.Send(PostHead("/v1/completions", kKeyA, 1'000'000) + std::string(999'000, ' '));
  ASSERT_TRUE(WaitForBytes(test.port(), 999'000));
  const std::string body =
      R"({"model":"demo","max_tokens":1,"prompt":")" + std::string(130'000, 'x') + "\"}";
  RawClient other(test.port());
  const RawResponse answer = other.Post("/v1/completions", body, kKeyB);
  EXPECT_NE(answer.status, 503) << answer.body;
  const RawResponse told = stalled.Receive();
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(told.json()["error"]["code"], "overloaded");
  EXPECT_EQ(told.headers.count("retry-after"), 1u);
  EXPECT_TRUE(stalled.WaitForEnd());
}

TEST(ServerSharesTest, ATenantThatHasMostOfTheRoomGetsNoMore) {
  ServerOptions options = WithTenants();
  options.body_bytes_total_max = 1 << 20;
  TestServer test(options);
  RawClient a(test.port()), b(test.port()), more(test.port());
  const std::string part(500'000, ' ');
  a.Send(PostHead("/v1/completions", kKeyA, 500'001) + part);
  b.Send(PostHead("/v1/completions", kKeyB, 500'001) + part);
  ASSERT_TRUE(WaitForBytes(test.port(), 1'000'000));
  more.Send(PostHead("/v1/completions", kKeyA, 500'001) + part);
  EXPECT_EQ(more.Receive().status, 503);
  a.Reset();
  ASSERT_TRUE(WaitForBytes(test.port(), 500'000));
  b.Send(" ");
  EXPECT_EQ(b.Receive().status, 400) << "spaces are no JSON";
  EXPECT_TRUE(WaitForBytes(test.port(), 0));
}

TEST(ServerSharesTest, ATenantsConnectionsKeepNoOtherOut) {
  ServerOptions options = WithTenants();
  options.connections_max = 8;
  TestServer test(options);
  test.generator.set_hold(true);
  const std::string body = R"({"model":"demo","prompt":"x","max_tokens":3})";
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 7; ++i) {
    clients.push_back(std::make_unique<RawClient>(test.port()));
    clients.back()->Send(PostHead("/v1/completions", kKeyA, body.size()) + body);
    ASSERT_TRUE(test.generator.WaitForRunning(i + 1));
  }
  RawClient one_more(test.port());
  const RawResponse refused = one_more.Post("/v1/completions", body, kKeyA);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.json()["error"]["code"], "too_many_connections");
  // The refused one's connection makes room for another from a moment after its answer on.
  int status = 503;
  for (int i = 0; i < 1000 && status != 200; ++i) {
    RawClient other(test.port());
    status = other.Get("/v1/models", kKeyB).status;
    if (status != 200) std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(status, 200);
  const RawResponse told = clients.back()->Receive();
  EXPECT_EQ(told.status, 503) << "the newest of who has most";
  EXPECT_EQ(told.json()["error"]["code"], "overloaded");
  EXPECT_TRUE(test.generator.WaitForRunning(6));
  test.generator.set_hold(false);
  EXPECT_EQ(clients.front()->Receive().status, 200);
}

TEST(ServerSharesTest, AnswersThatNobodyReadsCount) {
  ServerOptions options = WithTenants();
  options.body_bytes_total_max = 40 << 20;
  TestServer test(options);
  test.metrics.Counter("long_total", std::string(9 << 20, 'x'));
  std::vector<std::unique_ptr<RawClient>> silent;
  // Each is larger than the sockets' buffers. Its head comes when it has its room.
  for (int i = 0; i < 4; ++i) {
    silent.push_back(std::make_unique<RawClient>(test.port()));
    silent.back()->SetReceiveBuffer(4096);
    silent.back()->Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_EQ(silent.back()->Receive(/*head_only=*/true).status, 200);
  }
  // The rest of the connections' answers are refused in place of more memory.
  RawClient reader(test.port());
  EXPECT_EQ(reader.Get("/metrics").status, 503);
  EXPECT_EQ(reader.Get("/v1/models", kKeyB).status, 200) << "a small answer needs no room";
  silent.clear();
  int status = 503;
  for (int i = 0; i < 20000 && status != 200; ++i) status = reader.Get("/metrics").status;
  EXPECT_EQ(status, 200) << "room comes back";
}

TEST(ServerSharesTest, AnAnswerCountsBeforeItIsWritten) {
  ServerOptions options = WithTenants();
  options.body_bytes_total_max = 16 << 20;
  TestServer test(options);
  test.generator.set_hold_at(200);
  RawClient client(test.port());
  const std::string body =
      R"({"model":"demo","prompt":"x","max_tokens":1000,"n":16,"logprobs":20,"stream":false})";
  client.Send(PostHead("/v1/completions", kKeyA, body.size()) + body);
  EXPECT_TRUE(WaitForBytes(test.port(), [](int64_t bytes) { return bytes > 300'000; }))
      << "while its tokens come";
  test.generator.set_hold_at(1000);
  const RawResponse answer = client.Receive();
  EXPECT_EQ(answer.status, 200);
  EXPECT_GT(answer.body.size(), 4'000'000u);
  EXPECT_TRUE(WaitForBytes(test.port(), 0));
}

// The last event of a response repeats all of it, so that all is kept, however fast the client
// reads.
TEST(ServerSharesTest, WhatAStreamRepeatsAtItsEndCounts) {
  TestServer test(WithTenants());
  test.generator.set_hold_at(200);
  RawClient client(test.port());
  const std::string body =
      R"({"model":"demo","input":"x","max_output_tokens":1000,"stream":true,"store":false,
          "include":["message.output_text.logprobs"],"top_logprobs":20})";
  client.Send(PostHead("/v1/responses", kKeyA + "Connection: close\r\n", body.size()) + body);
  size_t received = 0;
  std::thread reader([&] {
    for (std::string more; !(more = client.ReceiveSome()).empty();) received += more.size();
  });
  // All that came is written and read, sooner or later.
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(WaitForBytes(test.port(), [](int64_t bytes) { return bytes > 100'000; }));
  }
  test.generator.set_hold_at(1000);
  reader.join();
  EXPECT_GT(received, 2'000'000u);
  EXPECT_TRUE(WaitForBytes(test.port(), 0));
}

TEST(ServerSharesTest, AnAnswerThatFindsNoRoomIsCutOff) {
  ServerOptions options = WithTenants();
  options.body_bytes_total_max = 200'000;
  TestServer test(options);
  RawClient first(test.port());
  first.Send(PostHead("/v1/completions", kKeyA, 150'001) + std::string(150'000, ' '));
  ASSERT_TRUE(WaitForBytes(test.port(), 150'000));
  RawClient second(test.port());
  const RawResponse refused =
      second.Post("/v1/completions",
                  R"({"model":"demo","prompt":"x","max_tokens":1000,"n":16,"logprobs":20})", kKeyA);
  EXPECT_EQ(refused.status, 503) << refused.body.substr(0, 200);
  EXPECT_EQ(refused.json()["error"]["code"], "overloaded");
  EXPECT_TRUE(test.generator.WaitForRunning(0)) << "nothing is computed for it any more";
}

// The tree of a body that is one list of empty objects has thirty times the body's bytes.
TEST(ServerSharesTest, TreesOfBodiesCount) {
  ServerOptions options = WithTenants();
  options.body_bytes_total_max = 16 << 20;
  TestServer test(options);
  RawClient holder(test.port());
  holder.Send(PostHead("/v1/completions", kKeyA, 8'000'001) + std::string(8'000'000, ' '));
  ASSERT_TRUE(WaitForBytes(test.port(), 8'000'000));
  RawClient client(test.port());
  const auto answer_to = [&](const std::string& prompt) {
    return client.Post("/v1/completions",
                       R"({"model":"demo","max_tokens":1,"prompt":)" + prompt + "}", kKeyA);
  };
  EXPECT_EQ(answer_to("[" + Repeat("{},", 100'000) + "{}]").status, 503);
  EXPECT_EQ(answer_to("\"" + std::string(300'000, ' ') + "\"").status, 400)
      << "as many bytes of text fit, and are too long for the model";
  for (const std::string path : {"/tokenize", "/v1/responses"}) {
    const std::string body = R"({"model":"demo","x":[)" + Repeat("{},", 100'000) + "{}]}";
    EXPECT_EQ(client.Post(path, body, kKeyA).status, 503) << path;
  }
}

// Texts of JSON within a body, and the stored turns that a request goes on with.
TEST(ServerSharesTest, TreesOfJsonBesideTheBodyCount) {
  ServerOptions options = WithTenants();
  options.body_bytes_total_max = 4 << 20;
  TestServer test(options);
  RawClient client(test.port());
  const std::string item = R"({"role":"user","content":"x"},)";
  const std::string turns =
      R"({"model":"demo","max_output_tokens":1,"input":[)" + Repeat(item, 100);
  const RawResponse stored =
      client.Post("/v1/responses", turns.substr(0, turns.size() - 1) + "]}", kKeyA);
  ASSERT_EQ(stored.status, 200) << stored.body.substr(0, 500);
  const std::string id = stored.json()["id"].get<std::string>();
  RawClient holder(test.port());
  holder.Send(PostHead("/v1/completions", kKeyA, 3'800'001) + std::string(3'800'000, ' '));
  ASSERT_TRUE(WaitForBytes(test.port(), 3'800'000));
  const auto status_of = [&](const std::string& path, const std::string& fields) {
    return client.Post(path, R"({"model":"demo",)" + fields + "}", kKeyA).status;
  };
  const std::string large = "[" + Repeat("{},", 10'000) + "{}]";
  const std::string small(large.size(), ' ');
  const auto chat = [](const std::string& arguments) {
    return R"("messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":
              [{"id":"c","type":"function","function":{"name":"f","arguments":")" +
           arguments + R"("}}]}])";
  };
  const auto schema = [](const std::string& text) {
    return R"("messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema",
              "json_schema":{"name":"a","schema":")" +
           text + R"("}})";
  };
  for (const std::string path : {"/v1/chat/completions", "/tokenize"}) {
    EXPECT_EQ(status_of(path, chat(large)), 503) << path;
    EXPECT_NE(status_of(path, chat(small)), 503) << path;
  }
  EXPECT_EQ(status_of("/v1/chat/completions", schema(large)), 503);
  EXPECT_EQ(status_of("/v1/chat/completions", schema(small)), 400);
  EXPECT_EQ(status_of("/v1/responses", R"("input":"y","previous_response_id":")" + id + "\""), 503);
  EXPECT_EQ(client.Get("/v1/responses/" + id + "/input_items", kKeyA).status, 503);
  holder.Reset();
  ASSERT_TRUE(WaitForBytes(test.port(), 0));
  EXPECT_EQ(client.Get("/v1/responses/" + id + "/input_items", kKeyA).status, 200);
}

// What becomes a grammar may take long, however short the body: not on the thread of the sockets.
TEST(ServerSharesTest, BodiesWithAFormArePlannedByWorkers) {
  ServerOptions options;
  options.threads_max = 1;
  TestServer test(options);
  RawClient client(test.port());
  ASSERT_EQ(client.Get("/v1/models/austen").status, 200);
  const std::thread::id worker = test.catalog.last_finder();
  const auto planner_of = [&](const std::string& path, const std::string& fields) {
    const RawResponse response =
        client.Post(path, R"({"model":"austen","max_tokens":1,)" + fields + "}");
    EXPECT_EQ(response.status, 200) << response.body;
    return test.catalog.last_finder();
  };
  const std::string text = R"("prompt":"x")";
  const std::string chat = R"("messages":[{"role":"user","content":"x"}])";
  EXPECT_NE(planner_of("/v1/completions", text), worker);
  EXPECT_NE(planner_of("/v1/chat/completions", chat), worker);
  const std::string schema = R"({"type":"json_schema","json_schema":{"name":"a","schema":{}}})";
  EXPECT_EQ(planner_of("/v1/chat/completions", chat + R"(,"response_format":)" + schema), worker);
  EXPECT_EQ(planner_of("/v1/completions", text + R"(,"guided_regex":"a+")"), worker);
  EXPECT_EQ(planner_of("/v1/completions", text + R"(,"structured_outputs":{"regex":"a+"})"),
            worker);
  EXPECT_EQ(planner_of("/v1/completions", text + R"(,"guided\u005fregex":"a+")"), worker);
}

TEST(ServerSharesTest, EveryBodyCountsAgainstItsKeyBeforeItComes) {
  ServerOptions options;
  options.api_keys_json =
      R"([{"key":"a","tenant":"a","adapters":["*"],"admin":true,"requests_concurrent_max":1}])";
  for (const std::string path :
       {"/v1/files", "/v1/fine_tuning/jobs", "/v1/fine_tuning/jobs/x/cancel", "/tokenize",
        "/v1/completions", "/v1/responses", "/v1/load_lora_adapter"}) {
    TestServer test(options);
    const std::string type =
        path == "/v1/files" ? "multipart/form-data; boundary=x" : "application/json";
    const std::string head = "POST " + path +
                             " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + type + "\r\n" +
                             kKeyA + "Content-Length: 100000\r\n";
    RawClient first(test.port());
    first.Send(head + "Expect: 100-continue\r\n\r\n");
    ASSERT_EQ(first.Receive().status, 100) << path;
    RawClient second(test.port());
    second.Send(head + "\r\n{");
    EXPECT_EQ(second.Receive().status, 429) << path;
  }
}

TEST(ServerSharesTest, WhatWasNotComputedIsNotCharged) {
  ServerOptions options;
  options.api_keys_json =
      R"([{"key":"a","tenant":"a","adapters":["*"],"tokens_per_minute":10000}])";
  TestServer test(options);
  RawClient client(test.port());
  const std::string body = R"({"model":"demo","prompt":[1,2,3],"max_tokens":1000})";
  const auto left_after = [&](int status) {
    const RawResponse response = client.Post("/v1/completions", body, kKeyA);
    EXPECT_EQ(response.status, status) << response.body;
    // The answer's own headers are written while it holds its tokens.
    return client.Get("/v1/models", kKeyA).headers.at("x-ratelimit-remaining-tokens");
  };
  test.generator.set_submit_status(ResourceExhaustedError("the queue is full"));
  EXPECT_EQ(left_after(429), "10000") << "refused";
  test.generator.set_submit_status(OkStatus());
  test.generator.set_fail_after(0);
  EXPECT_EQ(left_after(500), "10000") << "failed before its first token";
  test.generator.set_fail_after(5);
  EXPECT_EQ(left_after(500), "9992") << "failed later: its prompt, and what was drawn";
  test.generator.set_fail_after(-1);
  EXPECT_EQ(left_after(200), "8989");
}

// By its deadline, as by a shutdown or for another tenant.
TEST(ServerSharesTest, WhatIsCutOffBeforeItsFirstTokenIsNotCharged) {
  ServerOptions options;
  options.api_keys_json =
      R"([{"key":"a","tenant":"a","adapters":["*"],"tokens_per_minute":10000}])";
  options.request_timeout = milliseconds(100);
  TestServer test(options);
  RawClient client(test.port());
  const auto left_after = [&](const std::string& stream) {
    const std::string body =
        R"({"model":"demo","prompt":[1,2,3],"max_tokens":1000,"stream":)" + stream + "}";
    EXPECT_EQ(client.Post("/v1/completions", body, kKeyA).status, 504);
    return client.Get("/v1/models", kKeyA).headers.at("x-ratelimit-remaining-tokens");
  };
  test.generator.set_hold(true);
  EXPECT_EQ(left_after("false"), "10000");
  EXPECT_EQ(left_after("true"), "10000");
  test.generator.set_hold(false);
  test.generator.set_hold_at(2);
  EXPECT_EQ(left_after("false"), "9995") << "its prompt, and what was drawn";
}

// What takes time with a request's bytes asks whether it is wanted.
TEST(ServerSharesTest, WorkThatIsUnwantedEnds) {
  const std::string text = Repeat("many words ", 100'000);
  OrderedJson messages = OrderedJson::array();
  for (int i = 0; i < 3000; ++i) messages.push_back({{"role", "user"}, {"content", "x"}});
  const OrderedJson context = {{"messages", messages}, {"add_generation_prompt", true}};
  const auto tokenise = [&] { return DemoTokenizer().Encode(text, false).status().code(); };
  const auto render = [&] { return DemoChatTemplate().Render(context).status().code(); };
  EXPECT_EQ(tokenise(), StatusCode::kOk);
  EXPECT_EQ(render(), StatusCode::kOk);
  const std::atomic<bool> is_unwanted{true};
  const WatchedWork watched(is_unwanted);
  EXPECT_EQ(tokenise(), StatusCode::kCancelled);
  EXPECT_EQ(render(), StatusCode::kCancelled);
  EXPECT_EQ(SchemaWork().Take(1).code(), StatusCode::kCancelled);
}

// A listing that never ends stands for any work that does not look whether it is wanted.
TEST(ServerSharesTest, AShutdownLeavesWorkBehindThatDoesNotEnd) {
  ServerOptions options;
  options.left_behind_timeout = milliseconds(50);
  TestServer test(options);
  ASSERT_TRUE(test.catalog.WaitForLists(1)) << "the dashboard's";
  std::unique_lock stuck(test.catalog.slow_list);
  RawClient client(test.port());
  client.Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(test.catalog.WaitForLists(2));
  EXPECT_FALSE(test.server->Shutdown(milliseconds(1)));
  stuck.unlock();
  EXPECT_TRUE(client.WaitForEnd());
}

}  // namespace server_shares_test
}  // namespace graft
