// FrontendRequests: one frontend's requests at a runner. It passes the frontend's messages to the
// generator, and turns the events into messages to the frontend. It knows no stream. Thread-safe:
// events come on the engine's thread, and the frontend's writer collects them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "request/generator.h"
#include "request/step_news.h"
#include "rpc/request_proto.h"
#include "rpc/runner.pb.h"

namespace graft {

class FrontendRequests {
 public:
  // The generator must outlive it. `on_news`: there is something to Collect; it runs on the thread
  // that brought it.
  FrontendRequests(Generator& generator, uint64_t frontend, bool logs_requests,
                   std::function<void()> on_news);
  ~FrontendRequests() { End(); }
  FrontendRequests(const FrontendRequests&) = delete;
  FrontendRequests& operator=(const FrontendRequests&) = delete;

  // On one thread.
  void Take(const rpc::FrontendMessage& message);
  // The engine's thread: what is ready so far may leave, in one message.
  void Flush();
  // The engine's thread: the frontend's part of the news is to be told.
  void TellStep(const StepNews& news);
  // Puts what is to be told into the message. Returns whether it tells which requests the step
  // holds; then the caller calls OnTold once the message is on its way.
  bool Collect(rpc::RunnerMessage* message);
  void OnTold();
  // Whether the step holds requests that the frontend was not told of.
  bool has_newcomers() const;
  // Whatever is in flight is cancelled. Streams do not call back any more when this returns.
  void End();

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

  void Submit(const rpc::Request& proto);
  void LogEnd(const Answer& answer, const TokenEvent& last) const;
  bool CollectStep(rpc::RunnerMessage* message);
  void CollectAnswers(const AnswerList& answers, rpc::RunnerMessage* message);

  Generator& generator_;
  const uint64_t frontend_;
  const bool logs_requests_;
  const std::function<void()> on_news_;
  RequestContents contents_;  // of Take's thread
  mutable std::mutex mutex_;
  // Shared with the callback of their streams.
  std::unordered_map<uint64_t, std::shared_ptr<Answer>> answers_;
  AnswerList ready_;               // have events
  AnswerList to_deliver_;          // of these, what Flush let go
  std::vector<uint64_t> undrawn_;  // in the step that is or begins
  std::vector<uint64_t> evicted_;  // not told yet
  bool step_due_ = false;
  bool newcomers_due_ = false;  // until they are told
};

}  // namespace graft
