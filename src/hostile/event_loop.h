// EventLoop: the calls of a hostile simulation by the virtual clock, and processes that can be
// stopped, resumed and ended. Calls for the same time run in the order in which they were added.
// One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "sim/virtual_time.h"

namespace graft {

class EventLoop {
 public:
  VirtualClock& clock() { return clock_; }
  int64_t now_ns() const { return clock_.NowNs(); }
  void After(int64_t ns, std::function<void()> call) {
    calls_.emplace(std::pair(now_ns() + std::max<int64_t>(ns, 0), num_calls_++), std::move(call));
  }
  bool empty() const { return calls_.empty(); }
  void RunNext() {
    const auto first = calls_.begin();
    clock_.Set(first->first.first);
    const std::function<void()> call = std::move(first->second);
    calls_.erase(first);
    call();
  }

 private:
  VirtualClock clock_;
  std::map<std::pair<int64_t, int64_t>, std::function<void()>> calls_;
  int64_t num_calls_ = 0;
};

// Calls into a process wait while it is stopped, and never run after its end. A process does not
// end itself: a call of the loop ends it.
class SimProcess {
 public:
  explicit SimProcess(EventLoop& loop) : loop_(loop), state_(std::make_shared<State>()) {}
  ~SimProcess() { state_->has_ended = true; }
  SimProcess(const SimProcess&) = delete;
  SimProcess& operator=(const SimProcess&) = delete;

  // At once, unless it is stopped.
  void Run(std::function<void()> call) { RunIn(state_, std::move(call)); }
  void After(int64_t ns, std::function<void()> call) {
    loop_.After(ns, [state = state_, call = std::move(call)] { RunIn(state, call); });
  }
  void Stop() { state_->is_stopped = true; }
  void Continue() {
    if (!std::exchange(state_->is_stopped, false)) return;
    loop_.After(0, [state = state_] { Resume(*state); });
  }
  bool is_stopped() const { return state_->is_stopped; }

 private:
  // Shared with the calls that are still to come.
  struct State {
    bool is_stopped = false;
    bool has_ended = false;
    std::deque<std::function<void()>> deferred;
  };

  static void RunIn(const std::shared_ptr<State>& state, std::function<void()> call) {
    if (state->has_ended) return;
    if (!state->is_stopped && state->deferred.empty()) return call();
    state->deferred.push_back(std::move(call));
  }
  static void Resume(State& state) {
    while (!state.is_stopped && !state.has_ended && !state.deferred.empty()) {
      const std::function<void()> call = std::move(state.deferred.front());
      state.deferred.pop_front();
      call();
    }
  }

  EventLoop& loop_;
  const std::shared_ptr<State> state_;
};

}  // namespace graft
