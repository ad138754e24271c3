#include "rpc/frontend_requests.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/server_log.h"
#include "rpc/request_proto.h"

namespace graft {

FrontendRequests::FrontendRequests(Generator& generator, uint64_t frontend, bool logs_requests,
                                   std::function<void()> on_news)
    : generator_(generator),
      frontend_(frontend),
      logs_requests_(logs_requests),
      on_news_(std::move(on_news)) {}

void FrontendRequests::Take(const rpc::FrontendMessage& message) {
  for (const rpc::Request& request : message.submit()) Submit(request);
  for (const uint64_t number : message.cancel()) generator_.Cancel({frontend_, number});
}

void FrontendRequests::Submit(const rpc::Request& proto) {
  Request request = FromProto(proto, contents_);
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

void FrontendRequests::Flush() {
  {
    std::lock_guard lock(mutex_);
    if (ready_.empty()) return;
    if (to_deliver_.empty()) {
      std::swap(to_deliver_, ready_);
    } else {
      to_deliver_.insert(to_deliver_.end(), ready_.begin(), ready_.end());
      ready_.clear();
    }
  }
  on_news_();
}

void FrontendRequests::TellStep(const StepNews& news) {
  std::vector<uint64_t> undrawn;
  for (const RequestId& id : news.undrawn) {
    if (id.frontend == frontend_) undrawn.push_back(id.number);
  }
  {
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
    if (!step_due_ && evicted_.empty()) return;
  }
  on_news_();
}

bool FrontendRequests::has_newcomers() const {
  std::lock_guard lock(mutex_);
  return newcomers_due_;
}

void FrontendRequests::OnTold() {
  std::lock_guard lock(mutex_);
  newcomers_due_ = newcomers_due_ && step_due_;
}

bool FrontendRequests::Collect(rpc::RunnerMessage* message) {
  AnswerList answers;
  bool says_step = false;
  {
    std::lock_guard lock(mutex_);
    std::swap(answers, to_deliver_);
    says_step = CollectStep(message);
  }
  CollectAnswers(answers, message);
  return says_step;
}

bool FrontendRequests::CollectStep(rpc::RunnerMessage* message) {
  for (const uint64_t number : evicted_) message->add_evicted(number);
  evicted_.clear();
  if (!std::exchange(step_due_, false)) return false;
  rpc::StepMembers* const step = message->mutable_step();
  step->mutable_undrawn()->Add(undrawn_.begin(), undrawn_.end());
  return true;
}

void FrontendRequests::CollectAnswers(const AnswerList& answers, rpc::RunnerMessage* message) {
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

void FrontendRequests::LogEnd(const Answer& answer, const TokenEvent& last) const {
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

void FrontendRequests::End() {
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
