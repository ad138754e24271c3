// StopSignals: a thread of its own takes the process's signals. SIGTERM and SIGINT end the process
// while a server starts. While it serves, the first of them asks it to finish, and the second ends
// the process. SIGHUP reloads what can be read anew. SIGUSR1 and SIGUSR2 do nothing.
#pragma once

#include <functional>
#include <memory>

namespace graft {

class StopSignals {
 public:
  // To be made before any other thread: those that start later leave these signals to it.
  StopSignals();

  // From here on the first signal asks the server to finish.
  void BeginServing();
  // From here on SIGHUP calls `reload` on the signals' thread; nothing if empty. Returns when no
  // former one runs any more.
  void OnReload(std::function<void()> reload);
  // Waits for the first signal since BeginServing, and returns it.
  int Wait();

 private:
  struct State;
  const std::shared_ptr<State> state_;  // the thread's, too, which outlives this
};

}  // namespace graft
