// A runner's end of one frontend's stream: its requests, and their events on the way out. The
// caller's thread reads (Run), one of its own writes; events come on the engine's.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "request/generator.h"
#include "request/step_news.h"
#include "rpc/runner.pb.h"
#include "rpc/runner_load.h"

namespace graft {

class FrontendSession {
 public:
  using Stream = grpc::ServerReaderWriter<rpc::RunnerMessage, rpc::FrontendMessage>;

  // What a heartbeat says. `adapters_told`: the version of the adapters' list that the frontend
  // has; a newer one is told, too, and noted there.
  using MakeState = std::function<rpc::RunnerState(uint64_t* adapters_told)>;

  // All referred to must outlive it. The frontend has the list of version `adapters_told`.
  FrontendSession(Generator& generator, grpc::ServerContext& context, Stream& stream,
                  uint64_t frontend, MakeState state, uint64_t adapters_told, bool logs_requests);
  // After Run.
  ~FrontendSession();
  FrontendSession(const FrontendSession&) = delete;
  FrontendSession& operator=(const FrontendSession&) = delete;

  // Until the stream ends; then what the frontend asked for is cancelled.
  void Run();
  // The engine's thread: what is ready so far may leave, in one message.
  void Flush();
  // The engine's thread: what of it is this frontend's is told soon.
  void TellStep(const StepNews& news);
  // Then: until it is told who is new in the step. A frontend that takes nothing is not waited for.
  void AwaitTold(std::chrono::steady_clock::time_point until);
  // Any thread: ends the stream of a frontend that was silent, or took nothing, for `silence_ns`.
  void EndIfDead(int64_t now_ns, int64_t silence_ns);
  // Any thread: the next heartbeat is now.
  void SendState();

 private:
  struct Answer {
    uint64_t number = 0;
    std::string log_id;
    std::string traceparent;
    std::string key_id;
    std::string tenant;
    // Shared with the engine's thread, which may hold it longer.
    std::shared_ptr<TokenStream> stream;
  };
  using AnswerList = std::vector<std::shared_ptr<Answer>>;

  void Take(const rpc::FrontendMessage& message);
  void Submit(const rpc::Request& proto);
  void WriteLoop();
  void LogEnd(const Answer& answer, const TokenEvent& last) const;
  void CollectStep(rpc::RunnerMessage* message);
  void Collect(const AnswerList& answers, rpc::RunnerMessage* message);
  void EndAnswers();

  Generator& generator_;
  grpc::ServerContext& context_;
  Stream& stream_;
  const uint64_t frontend_;
  const MakeState state_;
  const bool logs_requests_;
  uint64_t adapters_told_;  // the writing thread's
  std::atomic<int64_t> heard_ns_;
  std::atomic<int64_t> write_begun_ns_{0};  // 0: no write waits
  std::mutex mutex_;
  std::condition_variable wake_;
  // Shared with the callback of their streams.
  std::unordered_map<uint64_t, std::shared_ptr<Answer>> answers_;
  AnswerList ready_;               // have events
  AnswerList to_deliver_;          // of these, what Flush let go
  std::vector<uint64_t> undrawn_;  // in the step that is or begins
  std::vector<uint64_t> evicted_;  // not told yet
  bool step_due_ = false;
  bool newcomers_due_ = false;  // until they are told
  bool stuck_ = false;          // they were waited for in vain
  std::condition_variable told_;
  bool state_due_ = false;
  bool ended_ = false;
};

}  // namespace graft
