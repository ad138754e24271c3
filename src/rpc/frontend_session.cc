#include "rpc/frontend_session.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/server_log.h"
#include "rpc/protocol.h"
#include "rpc/request_proto.h"
#include "rpc/runner.grpc.pb.h"
#include "rpc/token_event_proto.h"

namespace graft {

FrontendSession::FrontendSession(Generator& generator, grpc::ServerContext& context, Stream& stream,
                                 uint64_t frontend, MakeState state, uint64_t adapters_told,
                                 bool logs_requests)
    : generator_(generator),
      context_(context),
      stream_(stream),
      frontend_(frontend),
      state_(std::move(state)),
      logs_requests_(logs_requests),
      adapters_told_(adapters_told),
      heard_ns_(SteadyClock::Get().NowNs()) {}

FrontendSession::~FrontendSession() { EndAnswers(); }

void FrontendSession::Run() {
  std::thread writer([this] { WriteLoop(); });
  rpc::FrontendMessage message;
  while (stream_.Read(&message)) {
    heard_ns_ = SteadyClock::Get().NowNs();
    Take(message);
  }
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    wake_.notify_one();
    told_.notify_one();
  }
  context_.TryCancel();  // a write that waits for its reader
  writer.join();
  EndAnswers();
}

void FrontendSession::Take(const rpc::FrontendMessage& message) {
  for (const rpc::Request& request : message.submit()) Submit(request);
  for (const uint64_t number : message.cancel()) generator_.Cancel({frontend_, number});
}

void FrontendSession::Submit(const rpc::Request& proto) {
  Request request = FromProto(proto);
  request.id = {frontend_, proto.number()};
  auto answer = std::make_shared<Answer>();
  answer->number = proto.number();
  answer->log_id = request.log_id;
  answer->traceparent = request.traceparent;
  answer->key_id = request.key_id;
  answer->tenant = request.tenant;
  answer->stream = std::make_shared<TokenStream>();
  {
    std::lock_guard lock(mutex_);
    if (!answers_.emplace(answer->number, answer).second) return;  // a number comes once
  }
  answer->stream->SetReadyCallback([this, one = answer.get()] {
    std::lock_guard lock(mutex_);
    const auto it = answers_.find(one->number);
    if (it != answers_.end()) ready_.push_back(it->second);
  });
  const Status status = generator_.Submit(std::move(request), answer->stream);
  if (status.ok()) return;
  answer->stream->Push({.finish_reason = FinishReason::kError, .status = status});
  Flush();
}

void FrontendSession::Flush() {
  std::lock_guard lock(mutex_);
  if (ready_.empty()) return;
  if (to_deliver_.empty()) {
    std::swap(to_deliver_, ready_);
  } else {
    to_deliver_.insert(to_deliver_.end(), ready_.begin(), ready_.end());
    ready_.clear();
  }
  wake_.notify_one();
}

void FrontendSession::SendState() {
  std::lock_guard lock(mutex_);
  state_due_ = true;
  wake_.notify_one();
}

void FrontendSession::TellStep(const StepNews& news) {
  std::vector<uint64_t> undrawn;
  for (const RequestId& id : news.undrawn) {
    if (id.frontend == frontend_) undrawn.push_back(id.number);
  }
  std::lock_guard lock(mutex_);
  for (const RequestId& id : news.evicted) {
    if (id.frontend == frontend_) evicted_.push_back(id.number);
  }
  if (undrawn != undrawn_) {
    newcomers_due_ |=
        !std::includes(undrawn_.begin(), undrawn_.end(), undrawn.begin(), undrawn.end());
    undrawn_ = std::move(undrawn);
    step_due_ = true;
  }
  if (step_due_ || !evicted_.empty()) wake_.notify_one();
}

void FrontendSession::AwaitTold(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  if (!newcomers_due_ || stuck_) return;
  stuck_ = !told_.wait_until(lock, until, [this] { return !newcomers_due_ || ended_; });
}

void FrontendSession::CollectStep(rpc::RunnerMessage* message) {
  for (const uint64_t number : evicted_) message->add_evicted(number);
  evicted_.clear();
  if (!std::exchange(step_due_, false)) return;
  rpc::StepMembers* const step = message->mutable_step();
  step->mutable_undrawn()->Add(undrawn_.begin(), undrawn_.end());
}

void FrontendSession::WriteLoop() {
  AnswerList answers;
  auto heartbeat = std::chrono::steady_clock::now();
  while (true) {
    rpc::RunnerMessage message;
    bool says_state = false;
    bool says_step = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, heartbeat, [this] {
        return ended_ || state_due_ || step_due_ || !evicted_.empty() || !to_deliver_.empty();
      });
      if (ended_) return;
      answers.clear();
      std::swap(answers, to_deliver_);
      says_state = std::exchange(state_due_, false);
      says_step = step_due_;
      CollectStep(&message);
    }
    Collect(answers, &message);
    if (says_state || std::chrono::steady_clock::now() >= heartbeat) {
      *message.mutable_state() = state_(&adapters_told_);
      heartbeat = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kHeartbeatNs);
    }
    write_begun_ns_ = SteadyClock::Get().NowNs();
    const bool written = stream_.Write(message);
    write_begun_ns_ = 0;
    if (says_step) {
      std::lock_guard lock(mutex_);
      newcomers_due_ = newcomers_due_ && step_due_;
      stuck_ = false;
      told_.notify_one();
    }
    if (written) continue;
    context_.TryCancel();  // Run sees the end
    return;
  }
}

void FrontendSession::Collect(const AnswerList& answers, rpc::RunnerMessage* message) {
  for (const std::shared_ptr<Answer>& answer : answers) {
    rpc::RequestEvents* events = nullptr;
    bool is_last = false;
    while (std::optional<TokenEvent> event = answer->stream->TryPop()) {
      if (events == nullptr) events = message->add_events();
      *events->add_events() = ToProto(*event);
      if (event->finish_reason == FinishReason::kNone) continue;
      is_last = true;
      LogEnd(*answer, *event);
    }
    if (events == nullptr) continue;
    events->set_number(answer->number);
    if (!is_last) continue;
    std::lock_guard lock(mutex_);
    answers_.erase(answer->number);
  }
}

void FrontendSession::LogEnd(const Answer& answer, const TokenEvent& last) const {
  if (!logs_requests_) return;
  OrderedJson fields = {{"id", answer.log_id},
                        {"frontend", fmt::format("{:016x}", frontend_)},
                        {"number", answer.number},
                        {"end", NameOf(last.finish_reason)},
                        {"prompt_tokens", last.usage.prompt_tokens},
                        {"output_tokens", last.usage.output_tokens}};
  if (!answer.traceparent.empty()) fields["traceparent"] = answer.traceparent;
  if (!answer.key_id.empty()) fields["key"] = answer.key_id;
  if (!answer.tenant.empty()) fields["tenant"] = answer.tenant;
  if (!last.status.ok()) fields["error"] = last.status.message();
  LogFields(LogLevel::kInfo, "request", fields);
}

void FrontendSession::EndIfDead(int64_t now_ns, int64_t silence_ns) {
  const int64_t write_ns = write_begun_ns_;
  const bool is_stuck = write_ns != 0 && now_ns - write_ns > silence_ns;
  const bool is_silent = now_ns - heard_ns_ > silence_ns;
  if (!is_stuck && !is_silent) return;
  LOG_WARN("frontend {:016x} {} for {:.1f} s: its requests are cancelled", frontend_,
           is_stuck ? "took no tokens" : "was silent", NsToSeconds(silence_ns));
  context_.TryCancel();
}

// Their streams do not call back any more when this returns.
void FrontendSession::EndAnswers() {
  std::unordered_map<uint64_t, std::shared_ptr<Answer>> answers;
  {
    std::lock_guard lock(mutex_);
    std::swap(answers, answers_);
  }
  for (const auto& [number, answer] : answers) {
    generator_.Cancel({frontend_, number});
    answer->stream->SetReadyCallback({});
  }
}

}  // namespace graft
