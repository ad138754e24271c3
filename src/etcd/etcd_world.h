// Time and threads, as the classes have them that talk to etcd and follow it. A simulation hands in
// its own, by its EtcdClient. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace graft {

class EtcdWorld {
 public:
  // Its end waits for the thread's.
  class Thread {
   public:
    virtual ~Thread() = default;
  };

  virtual ~EtcdWorld() = default;
  // Monotonic.
  virtual int64_t NowNs() const = 0;
  virtual std::unique_ptr<Thread> Start(std::function<void()> run) = 0;
  // As condition_variable::wait_for; a simulation may find out only at the end that it holds.
  virtual bool WaitFor(std::unique_lock<std::mutex>& lock, std::condition_variable& wake,
                       int64_t ns, const std::function<bool()>& holds) = 0;

  // The machine's.
  static EtcdWorld& Real();
};

}  // namespace graft
