// SIGTERM and SIGINT, taken by a thread of its own: while a server starts they end the process;
// while it serves, the first is a request to finish and the second ends the process after all.
#pragma once

#include <memory>

namespace graft {

class StopSignals {
 public:
  // To be made before any other thread: those that start later leave both signals to it.
  StopSignals();

  // There is something to finish from here on.
  void BeginServing();
  // Until the first signal since BeginServing, which it returns.
  int Wait();

 private:
  struct State;
  const std::shared_ptr<State> state_;  // the thread's, too, which outlives this
};

}  // namespace graft
