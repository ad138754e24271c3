#include "cli/stop_signals.h"

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/server_log.h"
#include "base/thread_name.h"

namespace graft {
namespace {

// Programs that signal a process and its group, as timeout(1) does, mean a single signal.
constexpr std::chrono::seconds kOneAndTheSame{1};
constexpr std::chrono::milliseconds kFlushTime{500};

sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// As a shell tells of a process that a signal ended.
[[noreturn]] void EndAtOnce(int signal, const char* why) {
  LOG_WARN("{}: {}", strsignal(signal), why);
  ServerLog::Flush(kFlushTime);
  std::_Exit(128 + signal);
}

}  // namespace

struct StopSignals::State {
  std::mutex mutex;
  std::condition_variable came;
  bool is_serving = false;
  int received = 0;
  std::chrono::steady_clock::time_point received_at;

  std::mutex reload_mutex;  // held while one runs
  std::function<void()> reload;

  void TakeOther(int signal) {
    const std::lock_guard lock(reload_mutex);
    if (signal == SIGHUP && reload) return reload();
    LOG_INFO("{}: nothing to do", strsignal(signal));
  }

  void Run(const sigset_t& signals) {
    for (;;) {
      int signal = 0;
      if (sigwait(&signals, &signal) != 0) continue;
      if (signal != SIGTERM && signal != SIGINT) {
        TakeOther(signal);
        continue;
      }
      const std::lock_guard lock(mutex);
      if (!is_serving) EndAtOnce(signal, "stopped before serving");
      const auto now = std::chrono::steady_clock::now();
      if (received != 0) {
        if (now - received_at < kOneAndTheSame) continue;
        EndAtOnce(signal, "again: what is in flight is not waited for");
      }
      received = signal;
      received_at = now;
      came.notify_one();
    }
  }
};

StopSignals::StopSignals() : state_(std::make_shared<State>()) {
  const sigset_t signals = BlockSignals();
  std::thread([state = state_, signals] {
    NameThread("signals");
    state->Run(signals);
  }).detach();
}

void StopSignals::BeginServing() {
  const std::lock_guard lock(state_->mutex);
  state_->is_serving = true;
}

void StopSignals::OnReload(std::function<void()> reload) {
  const std::lock_guard lock(state_->reload_mutex);
  state_->reload = std::move(reload);
}

int StopSignals::Wait() {
  std::unique_lock lock(state_->mutex);
  state_->came.wait(lock, [this] { return state_->received != 0; });
  return state_->received;
}

}  // namespace graft
