#include "server/connection.h"

#include <malloc.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "base/log.h"
#include "server/dashboard_pages.h"
#include "server/endpoints.h"
#include "server/host_check.h"
#include "server/learning/learning_endpoints.h"
#include "server/request_log.h"
#include "server/request_trace.h"
#include "server/responses/response_plan.h"
#include "server/responses/stored_responses.h"
#include "server/token_endpoints.h"
#include "trace/span_exporter.h"

namespace graft {
namespace {

namespace asio = boost::asio;

// After so many bytes of bodies the allocator is asked to give back what it keeps of them.
constexpr int64_t kReleaseBytesMin = 16 << 20;

void ReleaseMemory() { malloc_trim(0); }

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

}  // namespace

struct Connection::Exchange {
  HttpRequest* request = nullptr;
  RouteMatch match;
  std::shared_ptr<ApiKey> key;
  RequestLease place;  // among the key's requests
  BodyLease body_lease;
  RequestRecord record;  // for the log
  std::optional<RequestTrace> trace;
  int64_t start_ns = 0;
  bool keep_alive = false;
  bool head_sent = false;
  std::optional<ModelsInFlight::Ticket> ticket;  // of a request for text
};

Connection::Connection(ServerState& state, asio::any_io_executor strand,
                       std::unique_ptr<Socket> socket)
    : state_(state), strand_(std::move(strand)), socket_(std::move(socket)), timer_(strand_) {
  state_.connections.Add();
  state_.metrics.ConnectionOpened();
}

Connection::~Connection() {
  state_.metrics.ConnectionClosed();
  state_.connections.Remove();
}

void Connection::Start() {
  // The frame holds `self`, so that the connection outlives its coroutine.
  asio::co_spawn(
      strand_, [self = shared_from_this()]() -> Awaitable<void> { return self->Run(); },
      asio::detached);
}

void Connection::Abort() {
  asio::post(strand_, [self = shared_from_this()] {
    self->aborted_ = true;
    self->Notify();
  });
}

void Connection::Kill() {
  asio::post(strand_, [self = shared_from_this()] {
    self->aborted_ = true;
    self->ended_ = true;
    self->socket_->Close();
    self->Notify();
  });
}

void Connection::SetIdle(bool idle) {
  if (idle == (idle_ticket_ != 0)) return;
  if (idle) {
    idle_ticket_ = state_.idle.Add(weak_from_this());
  } else {
    state_.idle.Remove(std::exchange(idle_ticket_, 0));
  }
}

Connection::Awaitable<void> Connection::Run() {
  try {
    SetIdle(true);
    bool open = co_await Handshake();
    if (open) ReadMore();
    while (open) {
      open = co_await ServeNext();
      if (state_.body_budget.TakeRelease(kReleaseBytesMin)) {
        state_.run_on_worker(/*owner=*/0, /*bytes=*/1, ReleaseMemory);
      }
    }
    if (!aborted_) co_await Linger();
  } catch (const std::exception& exception) {
    LOG_ERROR("connection: {}", exception.what());
  }
  SetIdle(false);
  socket_->Close();
}

Connection::Awaitable<bool> Connection::Handshake() {
  const auto deadline = SteadyTime::now() + state_.options.handshake_timeout;
  bool done = false;
  auto result = std::make_shared<std::pair<bool, bool>>(false, false);
  socket_->AsyncHandshake([self = shared_from_this(), result](bool ok) {
    *result = {true, ok};
    self->Notify();
  });
  while (!result->first) {
    const bool in_time = co_await WaitUntil(deadline);
    if (!in_time || aborted_) {
      ended_ = true;
      socket_->Close();
      co_return false;
    }
  }
  done = result->second;
  if (!done) ended_ = true;
  co_return done;
}

Connection::Awaitable<bool> Connection::ServeNext() {
  HttpParser parser(state_.options.parser_limits);
  SetIdle(true);
  const bool has_head = co_await ReadHead(parser);
  SetIdle(false);
  if (!has_head) co_return false;

  Exchange exchange;
  exchange.request = &parser.request();
  exchange.match = MatchRoute(parser.request().path);
  exchange.record.id = RequestIdFor(parser.request().request_id);
  exchange.record.traceparent = TraceparentFrom(parser.request().traceparent);
  exchange.start_ns = state_.context.clock.NowNs();
  if (state_.context.spans != nullptr && IsGeneration(exchange.match.route)) {
    exchange.trace = BeginRequestTrace(exchange.record.traceparent);
    // What a runner does and logs belongs to the server's own span.
    if (exchange.trace.has_value()) {
      exchange.record.traceparent = FormatTraceparent(exchange.trace->context);
    }
  }
  state_.requests.Add();
  state_.busy_connections.Take(1);
  state_.metrics.RequestStarted();
  bool keep = false;
  bool threw = false;
  try {
    keep = co_await ServeRequest(exchange, parser);
  } catch (const std::exception& exception) {
    LOG_ERROR("request {} {}: {}", exchange.record.id, RouteName(exchange.match.route),
              exception.what());
    threw = true;
  }
  if (threw) {
    keep = false;
    exchange.keep_alive = false;
    ApiError error =
        HttpError(500, "internal_error",
                  "The server failed; its log has more under " + exchange.record.id + ".");
    if (!exchange.head_sent) co_await RespondError(exchange, error);
  }
  RecordEnd(exchange);
  state_.busy_connections.Free(1);
  state_.requests.Remove();
  co_return keep;
}

// Reads until a request's head is there, or is refused (then parser.error() is set). False: there
// is nothing to answer.
Connection::Awaitable<bool> Connection::ReadHead(HttpParser& parser) {
  auto deadline = SteadyTime::now() + state_.options.idle_timeout;
  bool started = false;
  while (true) {
    parser.Feed(&input_);
    ReadMore();
    if (parser.head_done() || parser.error().has_value()) co_return true;
    if (ended_ || aborted_) co_return false;
    if (parser.started() && !started) {
      started = true;
      deadline = SteadyTime::now() + state_.options.head_timeout;
    }
    const bool in_time = co_await WaitUntil(deadline);
    if (in_time) continue;
    if (started) {
      Exchange exchange;
      exchange.request = &parser.request();
      exchange.record.id = RequestIdFor("");
      co_await RespondError(exchange,
                            HttpError(408, "timeout", "The request's head took too long."));
    }
    co_return false;
  }
}

Connection::Awaitable<bool> Connection::ServeRequest(Exchange& exchange, HttpParser& parser) {
  // A small body comes with the head; once it is taken an early refusal can keep the connection.
  if (!parser.error().has_value()) parser.Feed(&input_);
  ReadMore();
  const bool can_keep = parser.head_done() && parser.request().keep_alive && !state_.draining;
  exchange.keep_alive = can_keep && parser.done();
  if (parser.error().has_value()) {
    exchange.keep_alive = false;
    co_return co_await RespondError(exchange, *parser.error());
  }
  if (std::optional<ApiError> error = CheckHost(exchange); error.has_value()) {
    co_return co_await RespondError(exchange, *error);
  }
  if (exchange.request->method == "OPTIONS") {
    co_return co_await Respond(exchange,
                               OptionsResponse(state_, exchange.match, *exchange.request));
  }
  std::optional<ApiError> error =
      CheckHead(state_, exchange.match, *exchange.request, &exchange.key);
  if (!error.has_value() && IsGeneration(exchange.match.route) && state_.draining) {
    error = DrainingError();
  }
  // Before the body: a client over its limit cannot make the server keep bytes.
  const bool takes_place = IsGeneration(exchange.match.route) || IsTokenizing(exchange.match.route);
  if (!error.has_value() && takes_place) error = Admit(exchange);
  if (error.has_value()) co_return co_await RespondError(exchange, *error);
  // A request that needs no body is answered without it, and the connection ends after that.
  const bool takes_body = exchange.request->method == "POST";
  if (takes_body && !parser.done()) {
    const bool has_body = co_await ReadBody(exchange, parser);
    if (!has_body) co_return false;
    exchange.keep_alive = can_keep;
  }
  co_return co_await Answer(exchange);
}

std::optional<ApiError> Connection::CheckHost(const Exchange& exchange) const {
  if (IsProbe(exchange.match.route)) return std::nullopt;
  const std::string& host = exchange.request->host;
  if (IsServedHost(state_.served_hosts, host)) return std::nullopt;
  return HttpError(403, "host_not_allowed",
                   "This server does not answer to the host '" + host.substr(0, 200) +
                       "'; ask by an address it has, or start it with --allowed-hosts.");
}

std::optional<ApiError> Connection::Admit(Exchange& exchange) {
  ApiResult<RequestLease> place = exchange.key->Admit(state_.context.clock);
  if (!place.ok()) return place.error();
  exchange.place = std::move(*place);
  return std::nullopt;
}

std::optional<ApiError> Connection::HoldBody(Exchange& exchange, const HttpParser& parser) {
  if (exchange.body_lease.Grow(&state_.body_budget, parser.body_bytes())) return std::nullopt;
  ApiError error =
      HttpError(503, "overloaded",
                "The server holds as many bytes of request bodies as it may (" +
                    std::to_string(state_.body_budget.bytes_max()) + "); try again later.");
  error.retry_after_s =
      exchange.body_lease.Refuse(&state_.body_budget, parser.body_bytes_announced());
  return error;
}

// False if it was answered with an error, or the client has gone.
Connection::Awaitable<bool> Connection::ReadBody(Exchange& exchange, HttpParser& parser) {
  const auto deadline = SteadyTime::now() + state_.options.body_timeout;
  if (!exchange.request->expect.empty() && !exchange.request->is_http_1_0) {
    const bool sent = co_await Write("HTTP/1.1 100 Continue\r\n\r\n", /*stop_at_end=*/false);
    if (!sent) co_return false;
  }
  while (true) {
    parser.Feed(&input_);
    ReadMore();
    std::optional<ApiError> error = parser.error();
    if (!error.has_value()) error = HoldBody(exchange, parser);
    if (!error.has_value() && parser.done()) co_return true;
    if (aborted_) error = DrainingError();
    if (!error.has_value()) {
      if (ended_) {
        state_.metrics.ClientGone();
        co_return false;
      }
      const bool in_time = co_await WaitUntil(deadline);
      if (in_time) continue;
      error = HttpError(408, "timeout", "The request's body took too long.");
    }
    co_await RespondError(exchange, *error);
    co_return false;
  }
}

Connection::Awaitable<bool> Connection::Answer(Exchange& exchange) {
  if (IsGeneration(exchange.match.route)) co_return co_await Generate(exchange);
  if (IsTokenizing(exchange.match.route)) co_return co_await AnswerTokens(exchange);
  if (IsAdmin(exchange.match.route)) co_return co_await AnswerOnLoader(exchange);
  if (IsListing(exchange.match.route) || IsStored(exchange.match.route) ||
      IsLearning(exchange.match.route)) {
    co_return co_await AnswerListing(exchange);
  }
  if (exchange.match.route == Route::kDashboardData) {
    co_return co_await AnswerDashboardData(exchange);
  }
  static const ApiKey nobody({}, 0);
  const ApiKey& key = exchange.key == nullptr ? nobody : *exchange.key;
  HttpResponse response = AnswerGet(state_, exchange.match, key);
  co_return co_await Respond(exchange, std::move(response));
}

Connection::Awaitable<bool> Connection::AnswerOn(Exchange& exchange, ServerState::Runner run,
                                                 std::function<HttpResponse()> answer) {
  HttpResponse response;
  const bool ok = co_await OnThread(run, [&] { response = answer(); });
  if (!ok) {
    const ApiError error = HttpError(500, "internal_error", "The server failed.");
    co_return co_await RespondError(exchange, error);
  }
  co_return co_await Respond(exchange, std::move(response));
}

// Tens of thousands of adapters take their time, and so do long conversations and files. A model is
// deleted where loads take turns.
Connection::Awaitable<bool> Connection::AnswerListing(Exchange& exchange) {
  constexpr int64_t kListingBytes = 64 << 10;
  const std::optional<ApiError> error = exchange.key->Count(state_.context.clock.NowNs());
  if (error.has_value()) co_return co_await RespondError(exchange, *error);
  const HttpRequest& request = *exchange.request;
  const RouteMatch& match = exchange.match;
  const auto bytes = std::max(kListingBytes, static_cast<int64_t>(request.body.size()));
  const bool deletes_model = match.route == Route::kModel && request.method == "DELETE";
  // Named: gcc 12 destroys the temporary of a choice inside co_await twice.
  ServerState::Runner run = Worker(exchange, bytes);
  if (deletes_model) run = state_.run_on_loader;
  co_return co_await AnswerOn(exchange, std::move(run), [&, deletes_model] {
    if (IsStored(match.route)) return AnswerStored(state_, match, request, *exchange.key);
    if (IsLearning(match.route) || deletes_model) {
      return AnswerLearning(state_, match, request, *exchange.key);
    }
    return AnswerGet(state_, match, *exchange.key);
  });
}

Connection::Awaitable<bool> Connection::AnswerTokens(Exchange& exchange) {
  const auto answer = exchange.match.route == Route::kTokenize ? AnswerTokenize : AnswerDetokenize;
  const std::string& body = exchange.request->body;
  co_return co_await AnswerOn(
      exchange, Worker(exchange, static_cast<int64_t>(body.size())), [&, answer] {
        return answer(state_.context, state_.options.request_limits, *exchange.key, body);
      });
}

// On a worker, too: an hour's history is long.
Connection::Awaitable<bool> Connection::AnswerDashboardData(Exchange& exchange) {
  constexpr int64_t kHistoryBytes = 64 << 10;
  co_return co_await AnswerOn(exchange, Worker(exchange, kHistoryBytes), [&] {
    return DashboardData(state_.dashboard->DataJson(SinceIn(exchange.request->query)));
  });
}

ServerState::Runner Connection::Worker(const Exchange& exchange, int64_t bytes) {
  const std::string& tenant = exchange.key->rights().tenant;
  const uint64_t owner =
      tenant.empty() ? reinterpret_cast<uintptr_t>(this) : std::hash<std::string>()(tenant);
  return [this, owner, bytes](std::function<void()> work) {
    state_.run_on_worker(owner, bytes, std::move(work));
  };
}

Connection::Awaitable<bool> Connection::AnswerOnLoader(Exchange& exchange) {
  co_return co_await AnswerOn(exchange, state_.run_on_loader, [&] {
    return AnswerAdmin(state_, exchange.match.route, exchange.request->body, *exchange.key);
  });
}

Connection::Awaitable<ApiResult<GenerationPlan>> Connection::Plan(Exchange& exchange) {
  std::optional<ApiResult<GenerationPlan>> plan;
  const auto make_plan = [&] {
    plan.emplace(PlanFor(state_, exchange.match.route, *exchange.key, exchange.request->body));
  };
  const int64_t body_bytes = static_cast<int64_t>(exchange.request->body.size());
  // A stored conversation may be long, however short what goes on with it.
  const bool is_short = exchange.match.route != Route::kResponses &&
                        body_bytes <= state_.options.inline_body_bytes_max;
  bool ok = true;
  if (is_short) {
    make_plan();
  } else {
    ok = co_await OnThread(Worker(exchange, body_bytes), make_plan);
  }
  if (!ok) co_return HttpError(500, "internal_error", "The server failed.");
  co_return std::move(*plan);
}

Connection::Awaitable<bool> Connection::Generate(Exchange& exchange) {
  ApiResult<GenerationPlan> plan = co_await Plan(exchange);
  if (!plan.ok()) co_return co_await RespondError(exchange, plan.error());
  exchange.request->body = std::string();  // megabytes perhaps, and the answer may take minutes
  exchange.body_lease.Clear();
  const Work work = plan->work;
  ApiResult<WorkLease> lease = exchange.key->AdmitWork(work, state_.context.clock);
  if (!lease.ok()) co_return co_await RespondError(exchange, lease.error());
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
  lease->SetTokens(work.prompt_tokens + usage.output_tokens);
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
    if (session.done()) break;
    if (aborted_) {
      error = DrainingError();
    } else if (ended_) {
      state_.metrics.ClientGone();
      co_return false;
    } else {
      const bool in_time = co_await WaitUntil(deadline);
      if (!in_time) error = HttpError(504, "timeout", "The request took too long.");
    }
  }
  if (!error.has_value()) error = session.error();
  if (error.has_value()) co_return co_await RespondError(exchange, *error);
  HttpResponse response{.body = session.Body()};
  co_return co_await Respond(exchange, std::move(response));
}

Connection::Awaitable<bool> Connection::AnswerStream(Exchange& exchange,
                                                     GenerationSession& session) {
  // Without chunks the body's end is the connection's.
  if (exchange.request->is_http_1_0) exchange.keep_alive = false;
  const auto deadline = SteadyTime::now() + state_.options.request_timeout;
  auto heartbeat = SteadyTime::now() + state_.options.heartbeat;
  while (true) {
    session.Poll();
    RecordFirstToken(exchange, session);
    std::optional<ApiError> error = session.error();
    const bool late = SteadyTime::now() >= deadline;
    if (late) error = HttpError(504, "timeout", "The request took too long.");
    if (aborted_) error = DrainingError();
    if (error.has_value()) RecordError(exchange, *error);
    // Before the first token a failure still has a status of its own.
    if (error.has_value() && !exchange.head_sent) {
      co_return co_await RespondError(exchange, *error);
    }
    const bool cut_off = !session.done() && (aborted_ || late);
    if (ended_ && !session.done()) {
      state_.metrics.ClientGone();
      co_return false;
    }
    std::string events;
    session.AppendEvents(&events);
    if (cut_off) session.AppendError(*error, &events);
    const bool last = session.done() || cut_off;
    if (events.empty() && SteadyTime::now() >= heartbeat) events = ": keep-alive\n\n";
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

HttpHeadOptions Connection::HeadOptions(const Exchange& exchange) const {
  return {.keep_alive = exchange.keep_alive,
          .is_http_1_0 = exchange.request->is_http_1_0,
          .request_id = exchange.record.id,
          .cors_origin = state_.options.cors_allow_origin,
          .rate_limits = exchange.key == nullptr
                             ? std::vector<std::pair<std::string, std::string>>()
                             : exchange.key->RateHeaders(state_.context.clock.NowNs())};
}

Connection::Awaitable<bool> Connection::RespondError(Exchange& exchange, const ApiError& error) {
  RecordError(exchange, error);
  HttpResponse response = ErrorResponse(error);
  if (error.http_status == 405) {
    response.headers.emplace_back("Allow", RouteMethod(exchange.match.route));
  }
  co_return co_await Respond(exchange, std::move(response));
}

Connection::Awaitable<bool> Connection::Respond(Exchange& exchange, HttpResponse response) {
  if (aborted_ || state_.draining) exchange.keep_alive = false;
  exchange.record.status = response.status;
  exchange.head_sent = true;
  std::string data = FormatHead(response, HeadOptions(exchange));
  if (exchange.request->method != "HEAD") data += response.body;
  const bool sent = co_await Write(std::move(data), /*stop_at_end=*/false);
  co_return sent&& exchange.keep_alive;
}

void Connection::RecordError(Exchange& exchange, const ApiError& error) {
  exchange.record.error = error.message;
  exchange.record.error_status = error.http_status;
}

void Connection::RecordEnd(Exchange& exchange) {
  RequestRecord& record = exchange.record;
  record.seconds = NsToSeconds(state_.context.clock.NowNs() - exchange.start_ns);
  // nginx's number for a client that left without an answer.
  if (record.status == 0) record.status = 499;
  state_.metrics.RequestEnded(exchange.match.route, record.status, record.seconds);
  record.method = exchange.request->method;
  record.path = exchange.request->path;
  record.route = exchange.match.route;
  if (exchange.key != nullptr) {
    record.key = exchange.key->rights().id;
    record.tenant = exchange.key->rights().tenant;
    if (IsGeneration(exchange.match.route)) {
      state_.metrics.tenants().RequestEnded(record.tenant, record.status, record.prompt_tokens,
                                            record.output_tokens);
    }
  }
  if (exchange.trace.has_value()) {
    state_.context.spans->Add(
        SpanOfRequest(*exchange.trace, record, exchange.start_ns, state_.context.clock.NowNs()));
  }
  if (!state_.options.logs_requests && !IsServerFailure(record)) return;
  LogRequest(record);
}

void Connection::RecordFirstToken(Exchange& exchange, const GenerationSession& session) {
  if (session.first_event_ns() == 0 || !exchange.ticket->Begin()) return;
  state_.metrics.FirstToken(exchange.match.route,
                            NsToSeconds(session.first_event_ns() - session.arrival_ns()));
}

}  // namespace graft
