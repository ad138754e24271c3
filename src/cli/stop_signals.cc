#include "cli/stop_signals.h"

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/log.h"

namespace graft {
namespace {

// Who signals a process and its group, as timeout(1) does, means it once.
constexpr std::chrono::seconds kOneAndTheSame{1};

sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// As a shell tells of a process that a signal ended.
[[noreturn]] void EndAtOnce(int signal, const char* why) {
  LOG_WARN("{}: {}", strsignal(signal), why);
  std::_Exit(128 + signal);
}

}  // namespace

struct StopSignals::State {
  std::mutex mutex;
  std::condition_variable came;
  bool is_serving = false;
  int received = 0;
  std::chrono::steady_clock::time_point received_at;

  void Run(const sigset_t& signals) {
    for (;;) {
      int signal = 0;
      if (sigwait(&signals, &signal) != 0) continue;
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
  std::thread([state = state_, signals] { state->Run(signals); }).detach();
}

void StopSignals::BeginServing() {
  const std::lock_guard lock(state_->mutex);
  state_->is_serving = true;
}

int StopSignals::Wait() {
  std::unique_lock lock(state_->mutex);
  state_->came.wait(lock, [this] { return state_->received != 0; });
  return state_->received;
}

}  // namespace graft
