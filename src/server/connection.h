// Connection: one client's connection. A coroutine reads requests, answers them one after the
// other, and notices at any moment that the client has gone. It lives on one strand (ConnectionIo).
// Internal to the server.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/connection_io.h"
#include "http/http_message.h"
#include "http/http_parser.h"
#include "http/socket.h"
#include "openai/generation_session.h"
#include "openai/routes.h"
#include "server/server_state.h"

namespace graft {

class Connection : public ConnectionIo {
 public:
  Connection(ServerState& state, boost::asio::any_io_executor strand,
             std::unique_ptr<Socket> socket);
  ~Connection() override;

  // Starts serving; the connection keeps itself alive until it ends.
  void Start();

 private:
  // One request and what is known about its answer (connection_exchange.h).
  struct Exchange;

  Awaitable<void> Run();
  void OnWriteTimeout() override { state_.metrics.WriteTimedOut(); }
  // Whether it waits for a request, or for the rest of one's head, and can be ended without loss.
  void SetIdle(bool idle);
  // Each says whether the connection can go on.
  Awaitable<bool> ServeNext();
  Awaitable<bool> ReadHead(HttpParser& parser);
  Awaitable<bool> ServeRequest(Exchange& exchange, HttpParser& parser);
  Awaitable<bool> ReadBody(Exchange& exchange, HttpParser& parser);
  Awaitable<bool> Answer(Exchange& exchange);
  Awaitable<bool> Generate(Exchange& exchange);
  // Nothing: the client has gone.
  Awaitable<std::optional<ApiResult<GenerationPlan>>> Plan(Exchange& exchange);
  Awaitable<std::optional<ApiResult<GenerationPlan>>> PlanOnce(Exchange& exchange);
  // Waits until a source has given the model, or says why it has not.
  Awaitable<WorkEnd> Fetch(const Exchange& exchange, const std::string& model,
                           std::optional<ApiError>* error);
  // The same of the files of an admin's load.
  Awaitable<WorkEnd> Bring(const std::string& name, BroughtAdapter* brought,
                           std::optional<ApiError>* error);
  // Asks a source by `ask` and waits for it; `param`: the request's field that errors are about.
  using AskSource = std::function<void(std::function<void(const Status&)> done)>;
  Awaitable<WorkEnd> WaitForSource(AskSource ask, const char* param,
                                   std::optional<ApiError>* error);
  Awaitable<bool> AnswerWhole(Exchange& exchange, GenerationSession& session);
  Awaitable<bool> AnswerStream(Exchange& exchange, GenerationSession& session);
  Awaitable<bool> SendEvents(Exchange& exchange, std::string_view events, bool last);
  Awaitable<WorkEnd> OnAnswer(Exchange& exchange, const GenerationSession& session,
                              std::function<void()> write);
  // What `answer` says, on a thread of its own. `stops_at_end`: see OnThread.
  Awaitable<bool> AnswerOn(Exchange& exchange, Runner run, std::function<HttpResponse()> answer,
                           bool stops_at_end);
  Awaitable<bool> AnswerOnLoader(Exchange& exchange);
  Awaitable<bool> AnswerListing(Exchange& exchange);
  Awaitable<bool> AnswerTokens(Exchange& exchange);
  Awaitable<bool> AnswerDashboardData(Exchange& exchange);
  Awaitable<bool> Respond(Exchange& exchange, HttpResponse response);
  Awaitable<bool> RespondError(Exchange& exchange, const ApiError& error);
  Awaitable<bool> RespondFailure(Exchange& exchange);
  // A worker for work worth `bytes`. Tenants take turns there; without keys connections do.
  Runner Worker(const Exchange& exchange, int64_t bytes);

  std::optional<ApiError> CheckHost(const Exchange& exchange) const;
  // Takes a place among the requests of the key, or says why there is none.
  std::optional<ApiError> Admit(Exchange& exchange);
  std::optional<ApiError> TakeShares(Exchange& exchange);
  std::optional<ApiError> HoldBytes(Exchange& exchange, int64_t bytes, int64_t wanted);
  std::optional<ApiError> HoldTree(Exchange& exchange);
  std::optional<ApiError> WithTrees(Exchange& exchange, const std::function<void()>& make);
  bool HasLongBody(const Exchange& exchange) const;
  // Why the request cannot go on, if it cannot: the server ends, or its place went to another one.
  std::optional<ApiError> CutOff();
  ApiError WhyUndone();
  ApiError LossError() const;
  HttpHeadOptions HeadOptions(const Exchange& exchange) const;
  static void RecordError(Exchange& exchange, const ApiError& error);
  void RecordEnd(Exchange& exchange);
  void RecordFirstToken(Exchange& exchange, const GenerationSession& session);

  ServerState& state_;
  uint64_t idle_ticket_ = 0;  // of state_.idle; 0: not on that list
};

}  // namespace graft
