// GenerationSession: one generation request in flight. It submits a plan's requests and turns their
// events into a response. Its destructor cancels requests that still run. One thread at a time;
// only `on_ready` is called on another thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "openai/generation_plan.h"
#include "request/token_stream.h"

namespace graft {

class GenerationSession {
 public:
  GenerationSession(const ApiContext& context, GenerationPlan plan);
  // Cancels running requests; from then on `on_ready` is not called any more.
  ~GenerationSession();
  GenerationSession(const GenerationSession&) = delete;
  GenerationSession& operator=(const GenerationSession&) = delete;

  // Submits every choice or, if one is refused, none. `on_ready` is called on the engine's thread
  // when there is something to Poll; it must only post work elsewhere. `next_id` gives request ids.
  std::optional<ApiError> Submit(std::atomic<uint64_t>* next_id, std::function<void()> on_ready);

  // Takes all events that are there. A choice that a stop string ended is cancelled in the engine.
  void Poll();

  bool stream() const { return is_stream_; }
  const std::string& model() const { return model_; }
  // The usage of all choices, so far.
  ResponseUsage SumUsage() const;
  // The tokens of choices that have begun to answer: their prompts, and what was drawn.
  int64_t NumTokensOfBegun() const;
  // Bytes of what has come and was not taken yet, and of what the answer's end repeats, about as in
  // memory.
  int64_t held_bytes() const { return pending_bytes() + writer_->kept_bytes(); }
  // Bytes that AppendEvents or Body will go through next, about as in memory.
  int64_t bytes_to_write() const { return pending_bytes() + (done() ? writer_->kept_bytes() : 0); }
  // The first token of any choice has come, or a failure.
  bool started() const;
  // Nothing more will come: every choice is over in the engine too, or one has failed.
  bool done() const;
  // Why it failed, if it did. The other choices are cancelled.
  const std::optional<ApiError>& error() const { return error_; }
  // Clock time of the first event, 0 before it.
  int64_t first_event_ns() const { return first_event_ns_; }
  int64_t arrival_ns() const { return arrival_ns_; }

  // Streaming: appends the server-sent events of all that came since the last call, at the end with
  // usage (if asked for) and [DONE], or an error.
  void AppendEvents(std::string* out);
  // A stream that is cut off tells why.
  void AppendError(const ApiError& error, std::string* out) { writer_->AppendError(error, out); }
  // Not streaming: the whole response once done() without error.
  std::string Body();

 private:
  struct RunningChoice {
    RequestId id = 0;
    std::shared_ptr<TokenStream> stream;  // null before Submit
    Choice choice;
    bool cancelled = false;  // we asked for it
    bool role_sent = false;
    bool finish_sent = false;
  };

  int64_t pending_bytes() const;
  void PollChoice(RunningChoice& running);
  // What the client is told. Where things lie on the server goes to the log alone.
  ApiError DescribeFailure(const Status& status) const;
  void Cancel(RunningChoice& running);
  void CancelAll();

  const ApiContext& context_;
  const bool is_stream_;
  const int32_t choices_per_prompt_;
  const std::string model_;
  const std::string tenant_;
  const double tenant_weight_;
  std::vector<Request> requests_;  // moved out by Submit
  std::vector<int64_t> prompt_tokens_;
  std::vector<RunningChoice> choices_;
  const std::unique_ptr<AnswerWriter> writer_;
  std::optional<ApiError> error_;
  int64_t arrival_ns_ = 0;
  int64_t first_event_ns_ = 0;
  bool end_sent_ = false;
};

}  // namespace graft
