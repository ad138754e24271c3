#include "hostile/sim_threads.h"

#include <utility>

namespace graft {
namespace {

thread_local SimThread* current_thread = nullptr;

}  // namespace

class SimThread : public EtcdWorld::Thread {
 public:
  SimThread(SimThreads& world, std::function<void()> run)
      : world_(world), thread_([this, run = std::move(run)] {
          current_thread = this;
          AwaitTurn();
          run();
          std::lock_guard lock(mutex_);
          has_finished_ = true;
          has_turn_ = false;
          changed_.notify_all();
        }) {
    Schedule(0);
  }

  // The owner has told it to stop before: what it still waits for is over at once.
  ~SimThread() override {
    *lives_ = false;
    is_joined_ = true;
    GiveTurn();
    thread_.join();
  }

  std::function<void()> NextWaker() {
    return [this, lives = lives_, wait = num_waits_ + 1] {
      if (*lives) Wake(wait);
    };
  }
  void Wait(int64_t ns) {
    if (is_joined_ || world_.has_ended_) return;
    ++num_waits_;
    Schedule(ns);
    {
      std::lock_guard lock(mutex_);
      has_turn_ = false;
      changed_.notify_all();
    }
    AwaitTurn();
  }

 private:
  void Schedule(int64_t ns) {
    world_.process_.After(ns, [this, lives = lives_, wait = num_waits_] {
      if (*lives) WakeNow(wait);
    });
  }
  void Wake(int64_t wait) {
    world_.process_.Run([this, lives = lives_, wait] {
      if (*lives) WakeNow(wait);
    });
  }
  // Unless it has been woken from that wait.
  void WakeNow(int64_t wait) {
    if (wait != num_waits_ || woken_ == wait) return;
    woken_ = wait;
    GiveTurn();
  }
  // Until it waits again, or ends.
  void GiveTurn() {
    std::unique_lock lock(mutex_);
    if (has_finished_) return;
    has_turn_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !has_turn_; });
  }
  void AwaitTurn() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_turn_; });
  }

  SimThreads& world_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_turn_ = false;
  bool has_finished_ = false;
  bool is_joined_ = false;
  int64_t num_waits_ = 0;
  int64_t woken_ = -1;                                          // from which wait
  std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);  // shared with calls to come
  std::thread thread_;

  friend class SimThreads;
};

std::unique_ptr<EtcdWorld::Thread> SimThreads::Start(std::function<void()> run) {
  return std::make_unique<SimThread>(*this, std::move(run));
}

bool SimThreads::WaitFor(std::unique_lock<std::mutex>& lock, std::condition_variable& /*wake*/,
                         int64_t ns, const std::function<bool()>& holds) {
  if (holds()) return true;
  lock.unlock();
  Wait(ns);
  lock.lock();
  return holds();
}

std::function<void()> SimThreads::NextWaker() {
  if (current_thread == nullptr) return [] {};
  return current_thread->NextWaker();
}

void SimThreads::Wait(int64_t ns) {
  if (current_thread != nullptr) current_thread->Wait(ns);
}

}  // namespace graft
