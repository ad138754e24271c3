// What tests of the API share: the demo's tokenizer, and a generator without a model. For tests
// only.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "openai/api_context.h"
#include "request/fake_catalog.h"
#include "request/generator.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace graft {

// The demo's tokenizer and template, loaded once.
const Tokenizer& DemoTokenizer();
const ChatTemplate& DemoChatTemplate();

// FakeGenerator: one thread that gives every running request a token per tick. The tokens are
// `script`, repeated until the request's tokens_max. A pooling request gets the sum and the number
// of its prompt's tokens. Thread-safe.
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

// A ManualClock that several threads may use.
class AtomicClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_; }
  void AdvanceSeconds(int64_t seconds) { now_ns_ += seconds * 1'000'000'000; }

 private:
  std::atomic<int64_t> now_ns_{1};
};

// What a server of these fakes borrows: the demo's tokenizer and template, no folder of adapters.
ApiContext DemoContext(FakeGenerator& generator, FakeCatalog& catalog, Metrics& metrics,
                       const AtomicClock& clock);

}  // namespace graft
