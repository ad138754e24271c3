// What the server's tests share: a generator without a model, a catalog without files, a raw
// client, and a running server with the demo's tokenizer. For tests only.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/json.h"
#include "request/adapter_catalog.h"
#include "request/generator.h"
#include "server/server.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace graft {

// The demo's tokenizer and template, loaded once.
const Tokenizer& DemoTokenizer();
const ChatTemplate& DemoChatTemplate();

// One thread that gives every running request a token per tick. The tokens are `script`, over and
// over, until the request's tokens_max. A pooling request gets the sum and the number of its
// prompt's tokens. Thread-safe.
class FakeGenerator : public Generator {
 public:
  FakeGenerator();
  ~FakeGenerator() override;

  Status Submit(Request request, std::shared_ptr<TokenStream> stream) override;
  void Cancel(RequestId id) override;
  GeneratorLimits limits() const override;
  // 7.
  int32_t RetryAfterS(const std::string& tenant, double weight) override;

  // The setters are for use before requests come, or without load.
  void set_script(const std::string& text);
  void set_script_tokens(std::vector<int32_t> tokens);
  // The i-th request from now on is answered with the i-th text and then the end; later ones with
  // the script.
  void set_answers(const std::vector<std::string>& texts);
  // With this set, the end of the script ends the request with kStop. Without it, the script starts
  // again.
  void set_eos(int32_t token);
  void set_tick(std::chrono::microseconds tick);
  void set_submit_status(Status status);  // Submit's answer
  // kError after so many tokens; -1: never; kFailNow: instead of the next one, of any request.
  static constexpr int32_t kFailNow = -2;
  void set_fail_after(int32_t tokens,
                      Status status = InternalError("the fake engine failed as told"));
  void set_hold_at(int32_t tokens);    // no request has more than so many
  void set_knows_pooling(bool knows);  // false: as an older version
  void set_hold(bool hold);            // no token comes while true: all requests are queued

  int32_t num_running() const;
  int32_t num_cancelled() const;
  std::vector<Request> submitted() const;
  // Waits until so many requests run. False: the test's patience ended first.
  bool WaitForRunning(int32_t count) const;
  bool WaitForCancelled(int32_t count) const;

 private:
  struct Running {
    Request request;
    std::shared_ptr<TokenStream> stream;
    std::vector<int32_t> script;
    int32_t eos = -1;
    int32_t num_tokens = 0;
    bool cancelled = false;
  };

  void Loop();
  // Returns whether the request goes on.
  bool Step(Running& running);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Running> running_;
  std::vector<Request> submitted_;
  std::vector<int32_t> script_;
  std::deque<std::vector<int32_t>> answers_;
  int32_t eos_ = -1;
  std::chrono::microseconds tick_{200};
  Status submit_status_;
  int32_t fail_after_ = -1;
  Status failure_;
  bool hold_ = false;
  int32_t hold_at_ = std::numeric_limits<int32_t>::max();
  bool knows_pooling_ = true;
  int32_t num_cancelled_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

// Has adapters "austen", "doyle" and "doyle-large". It loads what lies under "good/". Loading
// "broken" fails, "unwritten" fails for want of a registry, and "full" for want of places.
// Thread-safe.
class FakeCatalog : public AdapterCatalog {
 public:
  FakeCatalog();
  std::vector<AdapterInfo> ListAfter(const std::string& name, size_t infos_max) const override;
  Result<AdapterInfo> Find(const std::string& name) const override;
  std::string NamesNear(const std::string& name, const NameFilter& allows) const override;
  // "austen" is resident; the others are in the host's memory.
  AdapterState StateOf(const AdapterInfo& adapter) const override;
  Result<AdapterInfo> Load(const AdapterLoad& load) override;
  Status Unload(const std::string& name, const std::string& /*tenant*/) override;

  // What one of its adapters brings.
  void SetText(const std::string& name, AdapterText text);

  // Loading "good/slow" waits for the first mutex, and listing adapters for the second.
  std::mutex slow_folder;
  mutable std::mutex slow_list;
  // Waits until so many lists have begun: the dashboard's, at the start, is the first. False: the
  // test's patience ended first.
  bool WaitForLists(int32_t count) const;
  // The thread that called Find last.
  std::thread::id last_finder() const { return last_finder_; }

 private:
  mutable std::atomic<int32_t> num_lists_ = 0;
  mutable std::atomic<std::thread::id> last_finder_;
  mutable std::mutex mutex_;
  std::map<std::string, AdapterInfo> adapters_;
};

// A ManualClock that several threads may use.
class AtomicClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_; }
  void AdvanceSeconds(int64_t seconds) { now_ns_ += seconds * 1'000'000'000; }

 private:
  std::atomic<int64_t> now_ns_{1};
};

// What a server of these fakes borrows: the demo's tokenizer and template, no folder of adapters.
ServerContext DemoContext(FakeGenerator& generator, FakeCatalog& catalog, Metrics& metrics,
                          const AtomicClock& clock);

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks put together
  bool complete = false;                       // the body came to its end
  Json json() const;
  // The data of a stream's events.
  std::vector<std::string> events() const;
};

// The beginning of a completion request's head. More headers and "\r\n" follow.
inline const std::string kPostCompletion =
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

// A socket that sends exactly what it is told to. One thread.
class RawClient {
 public:
  // `is_narrow`: a hundred kilobytes that it does not read hold their sender up; else megabytes do.
  explicit RawClient(uint16_t port, bool tls = false, bool is_narrow = false);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void Send(std::string_view data);
  // Receives one whole response and keeps what follows it. `head_only`: the response is to HEAD.
  RawResponse Receive(bool head_only = false);
  // Receives some more bytes, unparsed.
  std::string ReceiveSome();
  // Whether the server ends the connection in time. What it sends before that is dropped.
  bool WaitForEnd();
  void HalfClose();
  // Ends the connection with a reset instead of an orderly close.
  void Reset();
  void SetReceiveBuffer(int bytes);

  RawResponse Get(const std::string& path, const std::string& headers = "");
  RawResponse Post(const std::string& path, const std::string& body,
                   const std::string& headers = "");

 private:
  bool ReadUntil(std::string_view mark);
  bool ReadBytes(size_t bytes);
  int Read(char* data, int bytes);

  int fd_ = -1;
  bool connected_ = false;
  SSL_CTX* tls_context_ = nullptr;
  SSL* tls_ = nullptr;
  std::string input_;
};

// A server on a free port with fakes behind it.
class TestServer {
 public:
  explicit TestServer(ServerOptions options = {}, bool with_template = true,
                      std::function<FleetFigures()> fleet = {});
  // With a model that has this template, which must outlive the server; it also tells the form of
  // calls and of reasoning.
  TestServer(ServerOptions options, const ChatTemplate* chat_template,
             std::function<FleetFigures()> fleet = {});
  ~TestServer();

  Status start_status;
  FakeGenerator generator;
  FakeCatalog catalog;
  Metrics metrics;
  AtomicClock clock;
  Status ready;
  std::unique_ptr<HttpServer> server;

  uint16_t port() const { return server->port(); }
};

// Writes these bytes to a file in the test's temporary folder, and returns its path.
std::string WriteTempFile(const std::string& name, const std::string& bytes);

}  // namespace graft
