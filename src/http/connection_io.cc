#include "http/connection_io.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "base/log.h"
#include "base/unwanted_work.h"

namespace graft {
namespace {

namespace asio = boost::asio;

// Pipelined bytes beyond this wait in the kernel.
constexpr size_t kInputBytesMax = 64 << 10;
// How long a client is given to read the last answer before its connection goes.
constexpr std::chrono::milliseconds kLingerTime{2000};

}  // namespace

ConnectionIo::ConnectionIo(asio::any_io_executor strand, std::unique_ptr<Socket> socket,
                           Times times)
    : strand_(std::move(strand)), socket_(std::move(socket)), times_(times), timer_(strand_) {}

void ConnectionIo::Abort() {
  asio::post(strand_, [self = shared_from_this()] {
    self->aborted_ = true;
    self->Notify();
  });
}

void ConnectionIo::Kill() {
  asio::post(strand_, [self = shared_from_this()] {
    self->aborted_ = true;
    self->ended_ = true;
    self->socket_->Close();
    self->Notify();
  });
}

ConnectionIo::Awaitable<bool> ConnectionIo::Handshake() {
  const auto deadline = SteadyTime::now() + times_.handshake;
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

ConnectionIo::Awaitable<void> ConnectionIo::Linger() {
  if (ended_) co_return;
  const auto deadline = SteadyTime::now() + kLingerTime;
  auto shut = std::make_shared<bool>(false);
  socket_->AsyncShutdown([self = shared_from_this(), shut] {
    *shut = true;
    self->Notify();
  });
  while (!*shut || !ended_) {
    input_.clear();
    ReadMore();
    const bool in_time = co_await WaitUntil(deadline);
    if (!in_time || aborted_) co_return;
  }
}

ConnectionIo::Awaitable<ConnectionIo::WorkEnd> ConnectionIo::OnThread(Runner run,
                                                                      std::function<void()> work,
                                                                      bool stops_at_end) {
  struct Task {
    bool done = false;
    bool ok = false;
    std::atomic<bool> is_unwanted{false};
  };
  auto task = std::make_shared<Task>();
  run([self = shared_from_this(), task, work = std::move(work)] {
    bool ok = false;
    try {
      if (!task->is_unwanted) {
        const WatchedWork watched(task->is_unwanted);
        work();
        ok = true;
      }
    } catch (const std::exception& exception) {
      LOG_ERROR("a request's work failed: {}", exception.what());
    }
    asio::post(self->strand_, [self, task, ok] {
      task->done = true;
      task->ok = ok;
      self->Notify();
    });
  });
  // It looks at what lives here, so that it is waited for whatever happens.
  while (!task->done) {
    co_await WaitUntil(SteadyTime::time_point::max());
    if (aborted_ || lost_ || (stops_at_end && ended_)) task->is_unwanted = true;
  }
  if (!task->is_unwanted) co_return task->ok ? WorkEnd::kDone : WorkEnd::kUndone;
  co_return ended_ && !aborted_ ? WorkEnd::kGone : WorkEnd::kUndone;
}

ConnectionIo::Awaitable<bool> ConnectionIo::WaitUntil(SteadyTime::time_point deadline) {
  if (!notified_) {
    timer_.expires_at(deadline);
    boost::system::error_code cancelled;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  notified_ = false;
  co_return SteadyTime::now() < deadline;
}

ConnectionIo::Awaitable<bool> ConnectionIo::Write(std::string data, bool stop_at_end) {
  if (!write_ok_) co_return false;
  // A stream's next event nearly always finds room: it costs a call of the kernel and no more.
  const size_t written = ended_ ? 0 : socket_->WriteSome(data);
  if (written == data.size()) co_return true;
  data.erase(0, written);
  const auto give_up = SteadyTime::now() + times_.write_all;
  auto deadline = SteadyTime::now() + times_.write;
  WriteProgress seen = socket_->progress();
  write_buffer_ = std::move(data);
  writing_ = true;
  socket_->AsyncWrite(write_buffer_, [self = shared_from_this()](bool ok) {
    self->writing_ = false;
    self->write_ok_ = self->write_ok_ && ok;
    self->Notify();
  });
  while (writing_) {
    const bool in_time = co_await WaitUntil(std::min(deadline, give_up));
    const bool goes_on = !lost_ && (!while_writing_ || while_writing_());
    if (!writing_) break;
    if (goes_on && !(stop_at_end && ended_)) {
      if (in_time) continue;
      const WriteProgress now = socket_->progress();
      if (now != seen && SteadyTime::now() < give_up) {
        seen = now;
        deadline = SteadyTime::now() + times_.write;
        continue;
      }
      OnWriteTimeout();
    }
    // The buffer stays until the callback has run; nothing is sent after this.
    write_ok_ = false;
    ended_ = true;
    socket_->Close();
    co_return false;
  }
  write_buffer_ = std::string();  // megabytes perhaps, and the next request may be long in coming
  co_return write_ok_;
}

void ConnectionIo::ReadMore() {
  if (reading_ || ended_ || input_.size() >= kInputBytesMax) return;
  reading_ = true;
  socket_->AsyncReadSome(read_buffer_.data(), read_buffer_.size(),
                         [self = shared_from_this()](size_t bytes) { self->OnRead(bytes); });
}

void ConnectionIo::OnRead(size_t bytes) {
  reading_ = false;
  if (bytes == 0) {
    ended_ = true;
  } else {
    input_.append(read_buffer_.data(), bytes);
    ReadMore();
  }
  Notify();
}

void ConnectionIo::Notify() {
  notified_ = true;
  timer_.cancel();
}

std::function<void()> ConnectionIo::MakeWaker() {
  return [self = shared_from_this()] {
    if (self->wake_posted_.exchange(true)) return;  // one wake-up looks at every stream
    asio::post(self->strand_, [self] {
      self->wake_posted_ = false;
      self->Notify();
    });
  };
}

void ConnectionIo::BeginExchange() {
  ++num_exchanges_;
  lost_ = false;
}

std::function<void()> ConnectionIo::MakeLossWaker() {
  return [self = shared_from_this(), number = num_exchanges_] {
    asio::post(self->strand_, [self, number] {
      if (self->num_exchanges_ != number) return;  // that request has its answer
      self->lost_ = true;
      self->Notify();
    });
  };
}

}  // namespace graft
