// SimThreads: threads of a simulated process. They are real threads, but only one runs at a time,
// and only while the event loop or another of them waits for it. So code that blocks runs unchanged
// by the virtual clock, and a seed gives the same run each time. What a process waits for does not
// come while the process is stopped.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "etcd/etcd_world.h"
#include "hostile/event_loop.h"

namespace graft {

class SimThread;

class SimThreads : public EtcdWorld {
 public:
  // Its threads end before it.
  SimThreads(EventLoop& loop, SimProcess& process) : loop_(loop), process_(process) {}

  int64_t NowNs() const override { return loop_.now_ns(); }
  std::unique_ptr<Thread> Start(std::function<void()> run) override;
  // Whether `holds` does is looked at before and after the time, not in between.
  bool WaitFor(std::unique_lock<std::mutex>& lock, std::condition_variable& wake, int64_t ns,
               const std::function<bool()>& holds) override;

  // Ends the next Wait of the calling thread; the loop calls it.
  std::function<void()> NextWaker();
  // The calling thread waits for its waker, or so long. At once outside of these threads, and from
  // the end on.
  void Wait(int64_t ns);
  // The process is dead: no thread waits for anything any more.
  void End() { has_ended_ = true; }
  bool has_ended() const { return has_ended_; }

 private:
  friend class SimThread;

  EventLoop& loop_;
  SimProcess& process_;
  bool has_ended_ = false;
};

}  // namespace graft
