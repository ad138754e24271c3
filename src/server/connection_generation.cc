// Requests for text on a connection: planned, generated, and answered whole or as a stream.
#include <algorithm>
#include <boost/asio/use_awaitable.hpp>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "openai/responses/response_plan.h"
#include "server/connection.h"
#include "server/connection_exchange.h"

namespace graft {
namespace {

ApiResult<GenerationPlan> PlanFor(ServerState& state, Route route, const ApiKey& key,
                                  std::string_view body) {
  const RequestLimits& limits = state.options.request_limits;
  if (route == Route::kResponses) {
    return PlanResponse(state.context, limits, key, &state.responses, body);
  }
  if (route == Route::kEmbeddings) {
    return PlanEmbeddings(state.context, limits, key, state.options.pooling, body);
  }
  return PlanGeneration(state.context, limits, key, route == Route::kChatCompletions, body);
}

// Whether planning a body may take longer than its bytes say: forms of answers and tools become
// grammars. Where a key may be spelt with escapes, it is taken for one.
bool MayHoldForm(std::string_view body) {
  constexpr std::string_view kWords[] = {"response_format", "structured_outputs", "guided_",
                                         "\"tools\"", "\\u"};
  return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view word) {
    return body.find(word) != std::string_view::npos;
  });
}

// Whether a request of /v1/responses may name a stored one.
bool MayGoOn(std::string_view body) {
  return body.find("previous_response_id") != std::string_view::npos ||
         body.find("\\u") != std::string_view::npos;
}

}  // namespace

// The work of a plan counts by what it reads: the body, and the conversation that it goes on with.
// Nothing but a short body without a form is planned here; a stored conversation may be long,
// however short what goes on with it.
Connection::Awaitable<std::optional<ApiResult<GenerationPlan>>> Connection::PlanOnce(
    Exchange& exchange) {
  std::optional<ApiResult<GenerationPlan>> plan;
  const std::string& body = exchange.request->body;
  const Route route = exchange.match.route;
  const auto make_plan = [&] {
    const std::optional<ApiError> error =
        WithTrees(exchange, [&] { plan.emplace(PlanFor(state_, route, *exchange.key, body)); });
    if (error.has_value()) plan.emplace(*error);
  };
  auto bytes = static_cast<int64_t>(body.size());
  if (route != Route::kResponses && bytes <= state_.options.inline_body_bytes_max &&
      !MayHoldForm(body)) {
    make_plan();
    co_return std::move(plan);
  }
  WorkEnd end = WorkEnd::kDone;
  if (route == Route::kResponses) {
    int64_t stored = 0;
    const auto look = [&] {
      if (HoldTree(exchange).has_value()) return;  // the plan says so
      stored = StoredBytes(&state_.responses, exchange.key->rights().tenant,
                           state_.options.request_limits, body);
    };
    if (MayGoOn(body)) {
      end = co_await OnThread(Worker(exchange, bytes), look, /*stops_at_end=*/true);
    }
    bytes += stored;
  }
  if (end == WorkEnd::kDone) {
    end = co_await OnThread(Worker(exchange, bytes), make_plan, /*stops_at_end=*/true);
  }
  if (end == WorkEnd::kGone) co_return std::nullopt;
  if (end == WorkEnd::kUndone) plan.emplace(WhyUndone());
  co_return std::move(plan);
}

// A request that names adapters which are not listed is planned again once they are; a sum has
// eight of them at most.
Connection::Awaitable<std::optional<ApiResult<GenerationPlan>>> Connection::Plan(
    Exchange& exchange) {
  constexpr int kFetchesMax = 9;
  for (int fetches = 0;; ++fetches) {
    std::optional<ApiResult<GenerationPlan>> plan = co_await PlanOnce(exchange);
    if (!plan.has_value() || plan->ok()) co_return std::move(plan);
    const std::string model = plan->error().model_to_fetch;
    if (model.empty() || fetches == kFetchesMax) co_return std::move(plan);
    std::optional<ApiError> error;
    const WorkEnd end = co_await Fetch(exchange, model, &error);
    if (end == WorkEnd::kGone) co_return std::nullopt;
    // The plan's own error has the names that are near.
    if (error.has_value() && error->http_status == 404) co_return std::move(plan);
    if (error.has_value()) co_return std::optional<ApiResult<GenerationPlan>>(*error);
  }
}

Connection::Awaitable<Connection::WorkEnd> Connection::Fetch(const Exchange& exchange,
                                                             const std::string& model,
                                                             std::optional<ApiError>* error) {
  AskSource ask = [this, &exchange, &model](std::function<void(const Status&)> done) {
    state_.context.sources->Want(model, exchange.key->rights().tenant, std::move(done));
  };
  co_return co_await WaitForSource(std::move(ask), "model", error);
}

Connection::Awaitable<Connection::WorkEnd> Connection::Bring(const std::string& name,
                                                             BroughtAdapter* brought,
                                                             std::optional<ApiError>* error) {
  const auto into = std::make_shared<BroughtAdapter>();
  AskSource ask = [this, &name, into](std::function<void(const Status&)> done) {
    state_.context.sources->Bring(
        name, [into, done = std::move(done)](const Result<BroughtAdapter>& one) {
          if (one.ok()) *into = *one;
          done(one.status());
        });
  };
  const WorkEnd end = co_await WaitForSource(std::move(ask), "lora_path", error);
  if (end == WorkEnd::kDone) *brought = *into;
  co_return end;
}

Connection::Awaitable<Connection::WorkEnd> Connection::WaitForSource(
    AskSource ask, const char* param, std::optional<ApiError>* error) {
  // The source's thread may come back when this coroutine and its connection have gone: it has no
  // part in either.
  struct Answer {
    std::mutex mutex;
    std::optional<Status> status;
  };
  const auto answer = std::make_shared<Answer>();
  const auto wake = std::make_shared<std::function<void()>>(MakeWaker());
  ask([answer, waker = std::weak_ptr(wake)](const Status& status) {
    {
      std::lock_guard lock(answer->mutex);
      answer->status = status;
    }
    if (const auto ring = waker.lock()) (*ring)();
  });
  const auto deadline = SteadyTime::now() + state_.options.request_timeout;
  while (true) {
    std::optional<Status> status;
    {
      std::lock_guard lock(answer->mutex);
      status = answer->status;
    }
    if (status.has_value() && status->ok()) co_return WorkEnd::kDone;
    if (status.has_value()) *error = ErrorFromStatus(*status, param);
    if (!error->has_value()) *error = CutOff();
    if (error->has_value()) {
      (*error)->message = HidePath((*error)->message, "");
      co_return WorkEnd::kUndone;
    }
    if (ended()) co_return WorkEnd::kGone;
    const bool in_time = co_await WaitUntil(deadline);
    if (!in_time) {
      *error = HttpError(504, "timeout", "The adapter took too long to be fetched; ask again.");
      co_return WorkEnd::kUndone;
    }
  }
}

Connection::Awaitable<bool> Connection::Generate(Exchange& exchange) {
  std::optional<ApiResult<GenerationPlan>> made = co_await Plan(exchange);
  if (!made.has_value()) {
    state_.metrics.ClientGone();
    co_return false;
  }
  ApiResult<GenerationPlan>& plan = *made;
  if (!plan.ok()) co_return co_await RespondError(exchange, plan.error());
  exchange.request->body = std::string();  // megabytes perhaps, and the answer may take minutes
  (void)HoldBytes(exchange, 0, 0);
  const Work work = plan->work;
  ApiResult<MeterLease> lease = exchange.key->AdmitWork(work, state_.context.clock);
  if (!lease.ok()) co_return co_await RespondError(exchange, lease.error());
  lease->SetTokens(0);  // until something was computed
  for (Request& request : plan->requests) {
    request.log_id = exchange.record.id;
    request.key_id = exchange.key->rights().id;
    request.traceparent = exchange.record.traceparent;
  }
  GenerationSession session(state_.context, std::move(*plan));
  exchange.ticket.emplace(&state_.models_in_flight, session.model());
  const std::optional<ApiError> error = session.Submit(&state_.next_request_id, MakeWaker());
  if (error.has_value()) co_return co_await RespondError(exchange, *error);
  exchange.record.model = session.model();
  bool keep = false;
  if (session.stream()) {
    keep = co_await AnswerStream(exchange, session);
  } else {
    keep = co_await AnswerWhole(exchange, session);
  }
  const ResponseUsage usage = session.SumUsage();
  // What the server failed at, or cut off, before the first token costs nothing. A client that
  // leaves pays.
  const bool is_cut_off = exchange.record.error_status != 0 && !session.done();
  lease->SetTokens(session.error().has_value() || is_cut_off
                       ? session.NumTokensOfBegun()
                       : work.prompt_tokens + usage.output_tokens);
  exchange.record.prompt_tokens = usage.prompt_tokens;
  exchange.record.output_tokens = usage.output_tokens;
  state_.metrics.AddTokens(usage.prompt_tokens, usage.output_tokens);
  exchange.ticket.reset();
  co_return keep;
}

Connection::Awaitable<bool> Connection::AnswerWhole(Exchange& exchange,
                                                    GenerationSession& session) {
  const auto deadline = SteadyTime::now() + state_.options.request_timeout;
  std::optional<ApiError> error;
  while (!error.has_value()) {
    session.Poll();
    RecordFirstToken(exchange, session);
    error = HoldBytes(exchange, session.held_bytes(), 0);
    if (!error.has_value() && session.done()) break;
    if (!error.has_value()) error = CutOff();
    if (error.has_value()) break;
    if (ended()) {
      state_.metrics.ClientGone();
      co_return false;
    }
    const bool in_time = co_await WaitUntil(deadline);
    if (!in_time) error = HttpError(504, "timeout", "The request took too long.");
  }
  if (!error.has_value()) error = session.error();
  if (error.has_value()) co_return co_await RespondError(exchange, *error);
  HttpResponse response;
  const WorkEnd end = co_await OnAnswer(exchange, session, [&] { response.body = session.Body(); });
  if (end != WorkEnd::kDone) co_return co_await RespondError(exchange, WhyUndone());
  co_return co_await Respond(exchange, std::move(response));
}

Connection::Awaitable<bool> Connection::AnswerStream(Exchange& exchange,
                                                     GenerationSession& session) {
  // Without chunks the body's end is the connection's.
  if (exchange.request->is_http_1_0) exchange.keep_alive = false;
  // What comes during a write is taken and counted, however slowly the client reads.
  const WhileWriting counting(*this, [&] {
    session.Poll();
    return !HoldBytes(exchange, session.held_bytes() + bytes_in_writing(), 0).has_value();
  });
  const auto deadline = SteadyTime::now() + state_.options.request_timeout;
  auto heartbeat = SteadyTime::now() + state_.options.heartbeat;
  while (true) {
    session.Poll();
    RecordFirstToken(exchange, session);
    std::optional<ApiError> error = session.error();
    const bool late = SteadyTime::now() >= deadline;
    if (late) error = HttpError(504, "timeout", "The request took too long.");
    if (!error.has_value()) error = HoldBytes(exchange, session.held_bytes(), 0);
    const std::optional<ApiError> cut = CutOff();
    if (cut.has_value()) error = cut;
    if (error.has_value()) RecordError(exchange, *error);
    // Before the first token a failure still has a status of its own.
    if (error.has_value() && !exchange.head_sent) {
      co_return co_await RespondError(exchange, *error);
    }
    const bool cut_off = !session.done() && error.has_value();
    if (ended() && !session.done()) {
      state_.metrics.ClientGone();
      co_return false;
    }
    std::string events;
    const auto append = [&] { session.AppendEvents(&events); };
    const WorkEnd end = co_await OnAnswer(exchange, session, append);
    if (end != WorkEnd::kDone) co_return false;
    if (cut_off) session.AppendError(*error, &events);
    const bool last = session.done() || cut_off;
    // A comment's line alone: some clients take every blank line for the end of an event.
    if (events.empty() && SteadyTime::now() >= heartbeat) events = ": keep-alive\n";
    if (events.empty()) {
      co_await WaitUntil(std::min(heartbeat, deadline));
      continue;
    }
    const bool sent = co_await SendEvents(exchange, events, last);
    if (!sent) state_.metrics.ClientGone();
    if (!sent || last) co_return sent&& exchange.keep_alive;
    // Tokens that came during the write have rung already: they are looked at without a wait.
    heartbeat = SteadyTime::now() + state_.options.heartbeat;
  }
}

// The text of what has come: where that is much, on a worker.
Connection::Awaitable<Connection::WorkEnd> Connection::OnAnswer(Exchange& exchange,
                                                                const GenerationSession& session,
                                                                std::function<void()> write) {
  const int64_t bytes = session.bytes_to_write();
  if (bytes > state_.options.inline_body_bytes_max) {
    co_return co_await OnThread(Worker(exchange, bytes), std::move(write), /*stops_at_end=*/false);
  }
  write();
  co_return WorkEnd::kDone;
}

// A part of a stream, with the response's head before the first one.
Connection::Awaitable<bool> Connection::SendEvents(Exchange& exchange, std::string_view events,
                                                   bool last) {
  const bool chunked = !exchange.request->is_http_1_0;
  std::string data;
  if (!exchange.head_sent) {
    exchange.record.status = 200;
    exchange.head_sent = true;
    HttpHeadOptions head = HeadOptions(exchange);
    head.is_stream = true;
    head.chunked = chunked;
    data = FormatHead({.content_type = "text/event-stream; charset=utf-8"}, head);
  }
  if (chunked) {
    AppendHttpChunk(events, &data);
    if (last) data += kLastHttpChunk;
  } else {
    data += events;
  }
  co_return co_await Write(std::move(data), /*stop_at_end=*/true);
}

void Connection::RecordFirstToken(Exchange& exchange, const GenerationSession& session) {
  if (session.first_event_ns() == 0 || !exchange.ticket->Begin()) return;
  state_.metrics.FirstToken(RouteName(exchange.match.route),
                            NsToSeconds(session.first_event_ns() - session.arrival_ns()));
}

}  // namespace graft
