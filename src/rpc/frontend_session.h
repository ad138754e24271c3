// A runner's end of one frontend's stream, which carries what FrontendRequests has to tell. The
// caller's thread reads (Run), one of its own writes; events come on the engine's.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "request/generator.h"
#include "request/step_news.h"
#include "rpc/frontend_requests.h"
#include "rpc/runner.pb.h"
#include "rpc/runner_load.h"

namespace graft {

class FrontendSession {
 public:
  using Stream = grpc::ServerReaderWriter<rpc::RunnerMessage, rpc::FrontendMessage>;

  // What the frontend has been told, of what is told again only where it has changed.
  struct Told {
    uint64_t adapters = 0;           // the version of their list
    std::vector<uint64_t> prefixes;  // see RunnerLoad
    int64_t prefixes_ns = 0;         // when
    uint64_t held = 0;               // the version of what the device holds
  };
  // What a heartbeat says, and what is news to the frontend, which is noted there.
  using MakeState = std::function<rpc::RunnerState(Told* told)>;

  // All referred to must outlive it. The frontend has the list of version `adapters_told`.
  FrontendSession(Generator& generator, grpc::ServerContext& context, Stream& stream,
                  uint64_t frontend, MakeState state, uint64_t adapters_told, bool logs_requests);
  FrontendSession(const FrontendSession&) = delete;
  FrontendSession& operator=(const FrontendSession&) = delete;

  // Until the stream ends; then what the frontend asked for is cancelled.
  void Run();
  // The engine's thread: what is ready so far may leave, in one message.
  void Flush() { requests_.Flush(); }
  // The engine's thread: the frontend's part of the news is told soon.
  void TellStep(const StepNews& news) { requests_.TellStep(news); }
  // After TellStep: waits until `until` for the frontend to be told of the step's newcomers. A
  // frontend that takes nothing is not waited for.
  void AwaitTold(std::chrono::steady_clock::time_point until);
  // Any thread: ends the stream of a frontend that was silent, or took nothing, for `silence_ns`.
  void EndIfDead(int64_t now_ns, int64_t silence_ns);
  // Any thread: the next heartbeat is now.
  void SendState();
  // Any thread: whether it was written since, or never will be.
  bool HasSentState() const;

 private:
  void OnNews();
  void WriteLoop();

  grpc::ServerContext& context_;
  Stream& stream_;
  const uint64_t frontend_;
  const MakeState state_;
  Told what_is_told_;  // the writing thread's
  std::atomic<int64_t> heard_ns_;
  std::atomic<int64_t> write_begun_ns_{0};  // 0: no write waits
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool news_due_ = false;
  bool stuck_ = false;  // newcomers were to be told in vain
  std::condition_variable told_;
  bool state_due_ = false;
  bool state_is_written_ = true;  // since SendState was called last
  bool ended_ = false;
  FrontendRequests requests_;  // last: its news come here
};

}  // namespace graft
