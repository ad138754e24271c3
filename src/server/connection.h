// One client's connection: a coroutine that reads requests, answers them one after the other, and
// notices at any moment that the client has gone. Lives on one strand; whatever comes from other
// threads is posted there. Internal to the server.
//
// A read is always outstanding (as long as its buffer has room), so that the end of the connection
// shows while a request waits in the queue. The coroutine itself only ever waits for one thing: to
// be notified, or for a moment in time. All timeouts are that one timer.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/generation_session.h"
#include "server/http_message.h"
#include "server/http_parser.h"
#include "server/routes.h"
#include "server/server_state.h"
#include "server/socket.h"

namespace graft {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ServerState& state, boost::asio::any_io_executor strand,
             std::unique_ptr<Socket> socket);
  ~Connection();

  // Starts serving; the connection keeps itself alive until it ends.
  void Start();

  // Any thread. Ends the connection: a request in flight is told that the server ends.
  void Abort();
  // Any thread. Ends it without a word.
  void Kill();

 private:
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;
  using SteadyTime = std::chrono::steady_clock;

  // One request and what is known about its answer (connection_exchange.h).
  struct Exchange;

  // How work on another thread has ended: it was done; it failed, or was not wanted any more
  // (WhyUndone); or the client has gone.
  enum class WorkEnd : uint8_t { kDone, kUndone, kGone };

  // While it lives, `go_on` is called whenever something comes during a write. False ends the
  // connection.
  class WhileWriting {
   public:
    WhileWriting(Connection& connection, std::function<bool()> go_on) : connection_(connection) {
      connection_.while_writing_ = std::move(go_on);
    }
    ~WhileWriting() { connection_.while_writing_ = nullptr; }
    WhileWriting(const WhileWriting&) = delete;
    WhileWriting& operator=(const WhileWriting&) = delete;

   private:
    Connection& connection_;
  };

  Awaitable<void> Run();
  // Whether it waits for a request, or for the rest of one's head, and can be ended without loss.
  void SetIdle(bool idle);
  // Each says whether the connection can go on.
  Awaitable<bool> Handshake();
  Awaitable<bool> ServeNext();
  Awaitable<bool> ReadHead(HttpParser& parser);
  Awaitable<bool> ServeRequest(Exchange& exchange, HttpParser& parser);
  Awaitable<bool> ReadBody(Exchange& exchange, HttpParser& parser);
  Awaitable<bool> Answer(Exchange& exchange);
  Awaitable<bool> Generate(Exchange& exchange);
  // Nothing: the client has gone.
  Awaitable<std::optional<ApiResult<GenerationPlan>>> Plan(Exchange& exchange);
  Awaitable<bool> AnswerWhole(Exchange& exchange, GenerationSession& session);
  Awaitable<bool> AnswerStream(Exchange& exchange, GenerationSession& session);
  Awaitable<bool> SendEvents(Exchange& exchange, std::string_view events, bool last);
  Awaitable<WorkEnd> OnAnswer(Exchange& exchange, const GenerationSession& session,
                              std::function<void()> write);
  // What `answer` says, on a thread of its own. `stops_at_end`: see OnThread.
  Awaitable<bool> AnswerOn(Exchange& exchange, ServerState::Runner run,
                           std::function<HttpResponse()> answer, bool stops_at_end);
  Awaitable<bool> AnswerOnLoader(Exchange& exchange);
  Awaitable<bool> AnswerListing(Exchange& exchange);
  Awaitable<bool> AnswerTokens(Exchange& exchange);
  Awaitable<bool> AnswerDashboardData(Exchange& exchange);
  Awaitable<bool> Respond(Exchange& exchange, HttpResponse response);
  Awaitable<bool> RespondError(Exchange& exchange, const ApiError& error);
  Awaitable<bool> RespondFailure(Exchange& exchange);
  Awaitable<void> Linger();

  // Calls `run` with `work`, and waits until `work` has ended. Where the server ends, the request
  // has lost its place, or with `stops_at_end` the client has gone, the work is unwanted
  // (base/unwanted_work.h): what was not begun is left.
  Awaitable<WorkEnd> OnThread(ServerState::Runner run, std::function<void()> work,
                              bool stops_at_end);
  // A worker for work worth `bytes`. Tenants take turns there; without keys connections do.
  ServerState::Runner Worker(const Exchange& exchange, int64_t bytes);
  // Waits to be notified. False once `deadline` has passed. One bell rings for everything: after
  // this call, or one that waits here, the caller must look again at all that it waits for.
  Awaitable<bool> WaitUntil(SteadyTime::time_point deadline);
  // Sends `data`. False if the client is gone, or takes nothing for the write timeout; with
  // `stop_at_end` also once it has ended its side.
  Awaitable<bool> Write(std::string data, bool stop_at_end);

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
  void ReadMore();
  void OnRead(size_t bytes);
  void Notify();
  // A function for the engine's thread that notifies the coroutine.
  std::function<void()> MakeWaker();
  // A function for any thread that tells the request at hand that its place went to another one.
  std::function<void()> MakeLossWaker();

  ServerState& state_;
  const boost::asio::any_io_executor strand_;
  const std::unique_ptr<Socket> socket_;
  boost::asio::steady_timer timer_;
  bool notified_ = false;
  std::atomic<bool> wake_posted_{false};

  std::array<char, 8192> read_buffer_;
  std::string input_;  // read and not yet parsed
  bool reading_ = false;
  bool ended_ = false;        // the client sends no more, or is gone
  bool aborted_ = false;      // the server ends
  uint64_t idle_ticket_ = 0;  // of state_.idle; 0: not on that list
  uint64_t num_exchanges_ = 0;
  bool lost_ = false;  // the last exchange's place went to another tenant

  std::string write_buffer_;
  bool writing_ = false;
  bool write_ok_ = true;
  std::function<bool()> while_writing_;  // see WhileWriting
};

}  // namespace graft
