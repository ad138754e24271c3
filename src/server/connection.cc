#include "server/connection.h"

#include <malloc.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "dashboard/dashboard_pages.h"
#include "http/host_check.h"
#include "openai/inner_json.h"
#include "openai/learning/learning_endpoints.h"
#include "openai/model_endpoints.h"
#include "openai/responses/stored_responses.h"
#include "openai/token_endpoints.h"
#include "server/connection_exchange.h"
#include "server/endpoints.h"
#include "server/request_log.h"
#include "server/request_trace.h"
#include "trace/span_exporter.h"

namespace graft {
namespace {

namespace asio = boost::asio;

// After so many bytes of requests and answers the allocator is asked to give back what it keeps of
// them.
constexpr int64_t kReleaseBytesMin = 16 << 20;
// A body or an answer up to here needs no share of the memory: connections_max bounds what such
// ones take together, and small requests go on while large ones have used it up.
constexpr int64_t kUncountedBytes = 64 << 10;
// How many trees of a body there may be at once: one to read, and one of its parts in their order.
constexpr int64_t kTreesOfBody = 2;
// And of JSON within it: one that was read, and two copies for a template.
constexpr int64_t kTreesOfInner = 3;
// An answer up to here is copied behind its head, and leaves with it at once.
constexpr size_t kJoinedBytesMax = 16 << 10;

void ReleaseMemory() { malloc_trim(0); }

}  // namespace

Connection::Connection(ServerState& state, asio::any_io_executor strand,
                       std::unique_ptr<Socket> socket)
    : ConnectionIo(std::move(strand), std::move(socket),
                   {.handshake = state.options.handshake_timeout,
                    .write = state.options.write_timeout,
                    .write_all = state.options.request_timeout}),
      state_(state) {
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
      strand(),
      [self = std::static_pointer_cast<Connection>(shared_from_this())]() -> Awaitable<void> {
        return self->Run();
      },
      asio::detached);
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
      if (state_.memory.TakeRelease(kReleaseBytesMin)) {
        state_.run_on_worker(/*owner=*/0, /*bytes=*/1, ReleaseMemory);
      }
    }
    SetIdle(true);  // its answer is written: it may make room for a newcomer
    if (!aborted()) co_await Linger();
  } catch (const std::exception& exception) {
    LOG_ERROR("connection: {}", exception.what());
  }
  SetIdle(false);
  Close();
}

Connection::Awaitable<bool> Connection::ServeNext() {
  HttpParser parser(state_.options.parser_limits);
  SetIdle(true);
  const bool has_head = co_await ReadHead(parser);
  SetIdle(false);
  if (!has_head) co_return false;

  Exchange exchange;
  exchange.request = &parser.request();
  exchange.match = MatchRoute(parser.request().path, IsDashboardFile);
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
  const InFlightCounter::Held in_flight(state_.requests);
  BeginExchange();
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
  if (threw) keep = co_await RespondFailure(exchange);
  try {
    RecordEnd(exchange);
  } catch (const std::exception& exception) {
    LOG_ERROR("request {}: {}", exchange.record.id, exception.what());
  }
  co_return keep;
}

// What is left to say after an exception. False: the connection ends.
Connection::Awaitable<bool> Connection::RespondFailure(Exchange& exchange) {
  exchange.keep_alive = false;
  if (exchange.head_sent) co_return false;
  try {
    co_await RespondError(exchange, HttpError(500, "internal_error",
                                              "The server failed; its log has more under " +
                                                  exchange.record.id + "."));
  } catch (const std::exception& exception) {
    LOG_ERROR("request {}: {}", exchange.record.id, exception.what());
  }
  co_return false;
}

// Reads until a request's head is there, or is refused (then parser.error() is set). False: there
// is nothing to answer.
Connection::Awaitable<bool> Connection::ReadHead(HttpParser& parser) {
  auto deadline = SteadyTime::now() + state_.options.idle_timeout;
  bool started = false;
  while (true) {
    parser.Feed(input());
    ReadMore();
    if (parser.head_done() || parser.error().has_value()) co_return true;
    if (ended() || aborted()) co_return false;
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
  if (!parser.error().has_value()) parser.Feed(input());
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
  // A request that needs no body is answered without it, and the connection ends after that.
  const bool takes_body = exchange.request->method == "POST";
  // Before the body: a client over its limit cannot make the server keep bytes.
  if (!error.has_value() && takes_body) error = Admit(exchange);
  if (!error.has_value()) error = TakeShares(exchange);
  if (error.has_value()) co_return co_await RespondError(exchange, *error);
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
  ASSIGN_OR_RETURN_ERROR(exchange.place, exchange.key->Admit(state_.context.clock));
  return std::nullopt;
}

// A place among the connections that answer, of its tenant's share, and the account of its memory.
std::optional<ApiError> Connection::TakeShares(Exchange& exchange) {
  if (IsProbe(exchange.match.route)) return std::nullopt;  // a few bytes, whatever goes on
  const ApiKey::Rights nobody;
  const ApiKey::Rights& rights = exchange.key == nullptr ? nobody : exchange.key->rights();
  const double weight = rights.tenant_weight;
  exchange.memory.emplace(state_.memory, rights.tenant, weight, MakeLossWaker());
  exchange.connection_place.emplace(state_.busy_connections, rights.tenant, weight,
                                    MakeLossWaker());
  if (exchange.connection_place->Hold(1)) return std::nullopt;
  ApiError error = HttpError(503, "too_many_connections",
                             "The server answers as many requests as it may, and other tenants no "
                             "more than this one; try again later.");
  error.retry_after_s = exchange.connection_place->Refuse(1);
  return error;
}

// Accounts for what the request holds now. `wanted`: as much as it will come to, where that is
// known. No answer has more than all of the memory.
std::optional<ApiError> Connection::HoldBytes(Exchange& exchange, int64_t bytes, int64_t wanted) {
  if (!exchange.memory.has_value()) return std::nullopt;
  const int64_t counted =
      bytes <= kUncountedBytes ? 0 : std::min(bytes, state_.memory.places_max());
  if (counted == exchange.num_bytes) return std::nullopt;
  if (exchange.memory->Hold(counted)) {
    exchange.num_bytes = counted;
    return std::nullopt;
  }
  if (exchange.memory->is_lost()) return LossError();
  ApiError error = HttpError(503, "overloaded",
                             "The server holds as many bytes of requests and answers as it may (" +
                                 std::to_string(state_.memory.places_max()) +
                                 "), and other tenants no more than this one; try again later.");
  error.retry_after_s = exchange.memory->Refuse(std::max(bytes, wanted));
  exchange.num_bytes = 0;
  return error;
}

// Before a body's tree is made. On the thread that makes it: a long body is looked at for a while.
std::optional<ApiError> Connection::HoldTree(Exchange& exchange) {
  if (exchange.match.route == Route::kFiles) return std::nullopt;  // no JSON
  const std::string& body = exchange.request->body;
  const auto body_bytes = static_cast<int64_t>(body.size());
  if (body_bytes <= state_.options.inline_body_bytes_max) return std::nullopt;
  const int64_t bytes = body_bytes + kTreesOfBody * MeasureJson(body).tree_bytes;
  return HoldBytes(exchange, bytes, bytes);
}

// Calls `make` once there is room for the body's tree, and holds room for those of JSON within it.
// Nothing: it was called, and its result is good. On the thread that makes them.
std::optional<ApiError> Connection::WithTrees(Exchange& exchange,
                                              const std::function<void()>& make) {
  if (std::optional<ApiError> error = HoldTree(exchange)) return error;
  const int64_t held = exchange.num_bytes;
  const InnerTrees trees([&](int64_t bytes) {
    const int64_t all = held + kTreesOfInner * bytes;
    return HoldBytes(exchange, all, all);
  });
  make();
  return trees.error();
}

ApiError Connection::LossError() const {
  ApiError error = HttpError(503, "overloaded",
                             "The server has given this request's place or memory to a tenant that "
                             "has less of it; try again later.");
  error.retry_after_s =
      std::max(state_.busy_connections.RetryAfterS(1), state_.memory.RetryAfterS(kUncountedBytes));
  return error;
}

std::optional<ApiError> Connection::CutOff() {
  if (aborted()) return DrainingError();
  if (TakeLoss()) return LossError();
  return std::nullopt;
}

// False if it was answered with an error, or the client has gone.
Connection::Awaitable<bool> Connection::ReadBody(Exchange& exchange, HttpParser& parser) {
  const auto deadline = SteadyTime::now() + state_.options.body_timeout;
  if (!exchange.request->expect.empty() && !exchange.request->is_http_1_0) {
    const bool sent = co_await Write("HTTP/1.1 100 Continue\r\n\r\n", /*stop_at_end=*/false);
    if (!sent) co_return false;
  }
  while (true) {
    parser.Feed(input());
    ReadMore();
    std::optional<ApiError> error = parser.error();
    if (!error.has_value()) {
      error = HoldBytes(exchange, parser.body_bytes(), parser.body_bytes_announced());
    }
    if (!error.has_value() && parser.done()) co_return true;
    if (std::optional<ApiError> cut_off = CutOff(); cut_off.has_value()) error = cut_off;
    if (!error.has_value()) {
      if (ended()) {
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

Connection::Awaitable<bool> Connection::AnswerOn(Exchange& exchange, Runner run,
                                                 std::function<HttpResponse()> answer,
                                                 bool stops_at_end) {
  HttpResponse response;
  const auto work = [&] {
    const std::optional<ApiError> error = WithTrees(exchange, [&] { response = answer(); });
    if (error.has_value()) response = ErrorResponse(*error);
  };
  const WorkEnd end = co_await OnThread(run, work, stops_at_end);
  if (end == WorkEnd::kGone) co_return false;
  if (end == WorkEnd::kUndone) co_return co_await RespondError(exchange, WhyUndone());
  // The answer takes the body's place.
  exchange.request->body = std::string();
  co_return co_await Respond(exchange, std::move(response));
}

ApiError Connection::WhyUndone() {
  if (std::optional<ApiError> error = CutOff(); error.has_value()) return *error;
  return HttpError(500, "internal_error", "The server failed.");
}

// Tens of thousands of adapters take their time, and so do long conversations and files. A model is
// deleted where loads take turns.
Connection::Awaitable<bool> Connection::AnswerListing(Exchange& exchange) {
  constexpr int64_t kListingBytes = 64 << 10;
  const HttpRequest& request = *exchange.request;
  const bool is_post = request.method == "POST";  // and was counted before its body
  std::optional<ApiError> error;
  if (!is_post) error = exchange.key->Count(state_.context.clock.NowNs());
  if (error.has_value()) co_return co_await RespondError(exchange, *error);
  const RouteMatch& match = exchange.match;
  const auto bytes = std::max(kListingBytes, static_cast<int64_t>(request.body.size()));
  const bool deletes_model = match.route == Route::kModel && request.method == "DELETE";
  // Named: gcc 12 destroys the temporary of a choice inside co_await twice.
  Runner run = Worker(exchange, bytes);
  if (deletes_model) run = state_.run_on_loader;
  const auto answer = [&, deletes_model] {
    if (IsStored(match.route))
      return AnswerStored(state_.context, state_.responses, match, request, *exchange.key);
    if (IsLearning(match.route) || deletes_model) {
      return AnswerLearning(state_.context, match, request, *exchange.key);
    }
    return AnswerGet(state_, match, *exchange.key);
  };
  co_return co_await AnswerOn(exchange, std::move(run), answer, HasLongBody(exchange));
}

Connection::Awaitable<bool> Connection::AnswerTokens(Exchange& exchange) {
  const auto answer = exchange.match.route == Route::kTokenize ? AnswerTokenize : AnswerDetokenize;
  const std::string& body = exchange.request->body;
  co_return co_await AnswerOn(
      exchange, Worker(exchange, static_cast<int64_t>(body.size())),
      [&, answer] {
        return answer(state_.context, state_.options.request_limits, *exchange.key, body);
      },
      HasLongBody(exchange));
}

// A client may end its side of the connection after its request and still wait for the answer,
// which looks as if it had left. So short work is done and answered in any case.
bool Connection::HasLongBody(const Exchange& exchange) const {
  return static_cast<int64_t>(exchange.request->body.size()) > state_.options.inline_body_bytes_max;
}

// On a worker, too: an hour's history is long.
Connection::Awaitable<bool> Connection::AnswerDashboardData(Exchange& exchange) {
  constexpr int64_t kHistoryBytes = 64 << 10;
  co_return co_await AnswerOn(
      exchange, Worker(exchange, kHistoryBytes),
      [&] { return DashboardData(state_.dashboard->DataJson(SinceIn(exchange.request->query))); },
      /*stops_at_end=*/false);
}

Connection::Runner Connection::Worker(const Exchange& exchange, int64_t bytes) {
  const std::string& tenant = exchange.key->rights().tenant;
  const uint64_t owner =
      tenant.empty() ? reinterpret_cast<uintptr_t>(this) : std::hash<std::string>()(tenant);
  return [this, owner, bytes](std::function<void()> work) {
    state_.run_on_worker(owner, bytes, std::move(work));
  };
}

// A load is done whether or not its client waits for the answer.
Connection::Awaitable<bool> Connection::AnswerOnLoader(Exchange& exchange) {
  const std::string name =
      NameToBring(state_.context, exchange.match.route, exchange.request->body);
  BroughtAdapter brought;
  if (!name.empty()) {  // before the load has its turn: others need not wait for a source
    std::optional<ApiError> error;
    const WorkEnd end = co_await Bring(name, &brought, &error);
    if (end == WorkEnd::kGone) co_return false;
    if (error.has_value()) co_return co_await RespondError(exchange, *error);
  }
  co_return co_await AnswerOn(
      exchange, state_.run_on_loader,
      [&] {
        return AnswerAdmin(state_.context, exchange.match.route, exchange.request->body,
                           *exchange.key, name.empty() ? nullptr : &brought);
      },
      /*stops_at_end=*/false);
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
  const auto bytes = static_cast<int64_t>(response.body.size());
  if (const std::optional<ApiError> error = HoldBytes(exchange, bytes, bytes); error.has_value()) {
    RecordError(exchange, *error);
    response = ErrorResponse(*error);
  }
  if (aborted() || state_.draining) exchange.keep_alive = false;
  exchange.record.status = response.status;
  exchange.head_sent = true;
  std::string head = FormatHead(response, HeadOptions(exchange));
  const bool is_joined = response.body.size() <= kJoinedBytesMax;
  const bool has_body = exchange.request->method != "HEAD" && !response.body.empty();
  if (has_body && is_joined) head += response.body;
  bool sent = co_await Write(std::move(head), /*stop_at_end=*/false);
  if (sent && has_body && !is_joined) {
    sent = co_await Write(std::move(response.body), /*stop_at_end=*/false);
  }
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
  state_.metrics.RequestEnded(RouteName(exchange.match.route), record.status, record.seconds);
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

}  // namespace graft
