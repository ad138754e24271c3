#include "etcd/etcd_world.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace graft {
namespace {

class RealThread : public EtcdWorld::Thread {
 public:
  explicit RealThread(std::function<void()> run) : thread_(std::move(run)) {}
  ~RealThread() override { thread_.join(); }

 private:
  std::thread thread_;
};

class RealWorld : public EtcdWorld {
 public:
  int64_t NowNs() const override { return SteadyClock::Get().NowNs(); }
  std::unique_ptr<Thread> Start(std::function<void()> run) override {
    return std::make_unique<RealThread>(std::move(run));
  }
  bool WaitFor(std::unique_lock<std::mutex>& lock, std::condition_variable& wake, int64_t ns,
               const std::function<bool()>& holds) override {
    return wake.wait_for(lock, std::chrono::nanoseconds(ns), holds);
  }
};

}  // namespace

EtcdWorld& EtcdWorld::Real() {
  static RealWorld world;
  return world;
}

}  // namespace graft
