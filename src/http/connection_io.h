// ConnectionIo: one client's connection, without knowledge of what is asked on it: its bytes, and a
// bell that rings when something comes. It lives on one strand; calls from other threads are posted
// there.
//
// A read is always outstanding (as long as its buffer has room), so that the end of the connection
// shows while a request waits for its answer. The coroutine of the derived class waits for one
// thing only: to be notified, or for a moment in time. All timeouts are that one timer.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "http/socket.h"

namespace graft {

class ConnectionIo : public std::enable_shared_from_this<ConnectionIo> {
 public:
  struct Times {
    std::chrono::milliseconds handshake;
    std::chrono::milliseconds write;      // without a byte that the client takes
    std::chrono::milliseconds write_all;  // one call of Write
  };

  ConnectionIo(boost::asio::any_io_executor strand, std::unique_ptr<Socket> socket, Times times);
  virtual ~ConnectionIo() = default;
  ConnectionIo(const ConnectionIo&) = delete;
  ConnectionIo& operator=(const ConnectionIo&) = delete;

  // Any thread. Ends the connection: a request in flight is told that the server ends.
  void Abort();
  // Any thread. Ends it without a word.
  void Kill();

 protected:
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;
  using SteadyTime = std::chrono::steady_clock;
  // Calls what it is given on another thread.
  using Runner = std::function<void(std::function<void()>)>;

  // How work on another thread has ended: it was done; it failed, or was not wanted any more; or
  // the client has gone.
  enum class WorkEnd : uint8_t { kDone, kUndone, kGone };

  // While it lives, `go_on` is called whenever something comes during a write. False ends the
  // connection.
  class WhileWriting {
   public:
    WhileWriting(ConnectionIo& connection, std::function<bool()> go_on) : connection_(connection) {
      connection_.while_writing_ = std::move(go_on);
    }
    ~WhileWriting() { connection_.while_writing_ = nullptr; }
    WhileWriting(const WhileWriting&) = delete;
    WhileWriting& operator=(const WhileWriting&) = delete;

   private:
    ConnectionIo& connection_;
  };

  // Says whether the connection can go on.
  Awaitable<bool> Handshake();
  // Lets the client read what was sent: closing while bytes of it are unread would reset the
  // connection and lose the answer on its way.
  Awaitable<void> Linger();
  // Calls `run` with `work`, and waits until `work` has ended. The work becomes unwanted
  // (base/unwanted_work.h) if the server ends, the request has lost its place or, with
  // `stops_at_end`, the client has gone. Unwanted work that has not begun is skipped.
  Awaitable<WorkEnd> OnThread(Runner run, std::function<void()> work, bool stops_at_end);
  // Waits to be notified. False once `deadline` has passed. One bell rings for everything: after
  // this call, or one that waits here, the caller must look again at all that it waits for.
  Awaitable<bool> WaitUntil(SteadyTime::time_point deadline);
  // Sends `data`. False if the client is gone, or takes nothing for the write timeout; with
  // `stop_at_end` also once it has ended its side.
  Awaitable<bool> Write(std::string data, bool stop_at_end);
  // The client took nothing for the write timeout.
  virtual void OnWriteTimeout() = 0;
  void ReadMore();
  void Notify();
  void Close() { socket_->Close(); }
  // A function for the engine's thread that notifies the coroutine.
  std::function<void()> MakeWaker();
  // A request begins: what was lost, and what tells of a loss, was the last one's.
  void BeginExchange();
  // A function for any thread that tells the request at hand that its place went to another one.
  std::function<void()> MakeLossWaker();
  // Whether it was told so since the last call.
  bool TakeLoss() { return std::exchange(lost_, false); }

  // Read and not yet parsed; what is parsed is taken from its front.
  std::string* input() { return &input_; }
  bool ended() const { return ended_; }      // the client sends no more, or is gone
  bool aborted() const { return aborted_; }  // the server ends
  // What a write that waits for the client has yet to send.
  int64_t bytes_in_writing() const { return static_cast<int64_t>(write_buffer_.size()); }
  const boost::asio::any_io_executor& strand() const { return strand_; }

 private:
  void OnRead(size_t bytes);

  const boost::asio::any_io_executor strand_;
  const std::unique_ptr<Socket> socket_;
  const Times times_;
  boost::asio::steady_timer timer_;
  bool notified_ = false;
  std::atomic<bool> wake_posted_{false};

  std::array<char, 8192> read_buffer_;
  std::string input_;
  bool reading_ = false;
  bool ended_ = false;
  bool aborted_ = false;
  uint64_t num_exchanges_ = 0;
  bool lost_ = false;  // the last exchange's place went to another tenant

  std::string write_buffer_;
  bool writing_ = false;
  bool write_ok_ = true;
  std::function<bool()> while_writing_;  // see WhileWriting
};

}  // namespace graft
