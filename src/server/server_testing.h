// What the server's tests share: a generator without a model, a catalog without files, a raw client
// and a running server around the demo's tokenizer. Test code only.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
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

// The demo's, loaded once.
const Tokenizer& DemoTokenizer();
const ChatTemplate& DemoChatTemplate();

// One thread that gives every running request a token per tick: the tokens of `script`, over and
// over, ended by the request's tokens_max. Thread-safe.
class FakeGenerator : public Generator {
 public:
  FakeGenerator();
  ~FakeGenerator() override;

  Status Submit(Request request, std::shared_ptr<TokenStream> stream) override;
  void Cancel(RequestId id) override;
  GeneratorLimits limits() const override;

  // To be set before requests come, or under no load.
  void set_script(const std::string& text);
  void set_script_tokens(std::vector<int32_t> tokens);
  // The token after the script ends the request with kStop, instead of the script's start.
  void set_eos(int32_t token);
  void set_tick(std::chrono::microseconds tick);
  void set_submit_status(Status status);  // what Submit says
  void set_fail_after(int32_t tokens);    // kError after so many; -1: never
  void set_hold(bool hold);               // nothing comes while true: everybody is queued

  int32_t num_running() const;
  int32_t num_cancelled() const;
  std::vector<Request> submitted() const;
  // Whether so many ran before the test's patience ended.
  bool WaitForRunning(int32_t count) const;
  bool WaitForCancelled(int32_t count) const;

 private:
  struct Running {
    Request request;
    std::shared_ptr<TokenStream> stream;
    int32_t num_tokens = 0;
    bool cancelled = false;
  };

  void Loop();
  // Whether it goes on.
  bool Step(Running& running);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Running> running_;
  std::vector<Request> submitted_;
  std::vector<int32_t> script_;
  int32_t eos_ = -1;
  std::chrono::microseconds tick_{200};
  Status submit_status_;
  int32_t fail_after_ = -1;
  bool hold_ = false;
  int32_t num_cancelled_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

// Adapters "austen", "doyle" and "doyle-large"; loads what lies under "good/" and fails
// to load "broken", "unwritten" for want of a registry, and "full" for want of places.
// Thread-safe.
class FakeCatalog : public AdapterCatalog {
 public:
  FakeCatalog();
  std::vector<AdapterInfo> ListAfter(const std::string& name, size_t infos_max) const override;
  Result<AdapterInfo> Find(const std::string& name) const override;
  std::string NamesNear(const std::string& name, const NameFilter& allows) const override;
  // "austen" is resident, the others are in the host's memory.
  AdapterState StateOf(const AdapterInfo& adapter) const override;
  Result<AdapterInfo> Load(const AdapterLoad& load) override;
  Status Unload(const std::string& name) override;

  // Whoever loads "good/slow" holds it meanwhile, and whoever lists adapters the other one.
  std::mutex slow_folder;
  mutable std::mutex slow_list;
  // Whether anybody began to list while anybody had patience.
  bool WaitForList() const;

 private:
  mutable std::atomic<bool> list_began_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, AdapterInfo> adapters_;
};

// A ManualClock for several threads.
class AtomicClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_; }
  void AdvanceSeconds(int64_t seconds) { now_ns_ += seconds * 1'000'000'000; }

 private:
  std::atomic<int64_t> now_ns_{1};
};

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks put together
  bool complete = false;                       // the body came to its end
  Json json() const;
  // The data of a stream's events.
  std::vector<std::string> events() const;
};

// The begin of a head that a client's completion may have; more headers and "\r\n" follow.
inline const std::string kPostCompletion =
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

// A socket that says exactly what it is told to. One thread.
class RawClient {
 public:
  explicit RawClient(uint16_t port, bool tls = false);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void Send(std::string_view data);
  // One whole response; what follows it is kept. `head_only` for answers to HEAD.
  RawResponse Receive(bool head_only = false);
  // Some more bytes, as they are.
  std::string ReceiveSome();
  // Whether the server ends the connection in time; what it sends first is dropped.
  bool WaitForEnd();
  void HalfClose();
  // With a reset instead of an orderly end.
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
  explicit TestServer(ServerOptions options = {}, bool with_template = true);
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

// A path in the test's temporary folder with these bytes in it.
std::string WriteTempFile(const std::string& name, const std::string& bytes);

}  // namespace graft
