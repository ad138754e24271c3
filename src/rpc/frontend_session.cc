#include "rpc/frontend_session.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/log.h"
#include "rpc/protocol.h"
#include "rpc/runner.grpc.pb.h"

namespace graft {

FrontendSession::FrontendSession(Generator& generator, grpc::ServerContext& context, Stream& stream,
                                 uint64_t frontend, MakeState state, uint64_t adapters_told,
                                 bool logs_requests)
    : context_(context),
      stream_(stream),
      frontend_(frontend),
      state_(std::move(state)),
      what_is_told_{.adapters = adapters_told},
      heard_ns_(SteadyClock::Get().NowNs()),
      requests_(generator, frontend, logs_requests, [this] { OnNews(); }) {}

void FrontendSession::Run() {
  std::thread writer([this] { WriteLoop(); });
  rpc::FrontendMessage message;
  while (stream_.Read(&message)) {
    heard_ns_ = SteadyClock::Get().NowNs();
    requests_.Take(message);
  }
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    wake_.notify_one();
    told_.notify_one();
  }
  context_.TryCancel();  // a write that waits for its reader
  writer.join();
  requests_.End();
}

void FrontendSession::OnNews() {
  std::lock_guard lock(mutex_);
  news_due_ = true;
  wake_.notify_one();
}

void FrontendSession::SendState() {
  std::lock_guard lock(mutex_);
  state_due_ = true;
  state_is_written_ = false;
  wake_.notify_one();
}

bool FrontendSession::HasSentState() const {
  std::lock_guard lock(mutex_);
  return state_is_written_ || ended_;
}

void FrontendSession::AwaitTold(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  if (stuck_ || !requests_.has_newcomers()) return;
  stuck_ = !told_.wait_until(lock, until, [this] { return !requests_.has_newcomers() || ended_; });
}

void FrontendSession::WriteLoop() {
  auto heartbeat = std::chrono::steady_clock::now();
  while (true) {
    rpc::RunnerMessage message;
    bool says_state = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, heartbeat, [this] { return ended_ || state_due_ || news_due_; });
      if (ended_) return;
      says_state = std::exchange(state_due_, false);
      news_due_ = false;
    }
    const bool says_step = requests_.Collect(&message);
    if (says_state || std::chrono::steady_clock::now() >= heartbeat) {
      *message.mutable_state() = state_(&what_is_told_);
      heartbeat = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kHeartbeatNs);
    }
    write_begun_ns_ = SteadyClock::Get().NowNs();
    const bool written = stream_.Write(message);
    write_begun_ns_ = 0;
    if (says_step) {
      requests_.OnTold();
      std::lock_guard lock(mutex_);
      stuck_ = false;
      told_.notify_one();
    }
    if (says_state) {
      std::lock_guard lock(mutex_);
      state_is_written_ = !state_due_;
    }
    if (written) continue;
    context_.TryCancel();  // Run sees the end
    return;
  }
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

}  // namespace graft
