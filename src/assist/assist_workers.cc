#include "assist/assist_workers.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "assist/assist_worker.h"
#include "base/clock.h"
#include "base/log.h"

namespace graft {
namespace {

// Where a process finds what it maps; it gets nothing else but the standard three.
constexpr int kExchangeDescriptor = 3;
constexpr int kStoreDescriptor = 4;
constexpr int kFirstOtherDescriptor = 5;

// A process that ended sooner than this may not work at all: the next one is not started at once.
constexpr int64_t kShortLifeNs = 1'000'000'000;
constexpr int64_t kPauseNs = 300'000'000;

int CopyOf(int descriptor) {
  const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, kFirstOtherDescriptor);
  CHECK_GE(copy, 0) << std::strerror(errno);
  return copy;
}

}  // namespace

AssistWorkers::AssistWorkers(AssistExchange& exchange, const AssistProcesses& processes,
                             Metrics& metrics, int worker_threads)
    : exchange_(exchange),
      command_(processes.command),
      rows_(command_.empty() ? nullptr : processes.store->data()),
      restarts_(metrics.Counter("graft_cpu_assist_restarts_total",
                                "Worker processes of the CPU assist that died and were replaced")),
      processes_(static_cast<size_t>(exchange.limits().num_workers)) {
  if (!command_.empty()) {
    exchange_descriptor_ = CopyOf(processes.exchange->descriptor());
    store_descriptor_ = CopyOf(processes.store->descriptor());
  }
  for (int32_t worker = 0; worker < exchange.limits().num_workers; ++worker) {
    threads_.emplace_back([this, worker, worker_threads] {
      if (command_.empty()) {
        AssistWorker(exchange_, worker, rows_, worker_threads).Serve();
      } else {
        KeepProcess(worker);
      }
    });
  }
}

AssistWorkers::~AssistWorkers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const pid_t process : processes_) {
      if (process != 0) kill(process, SIGKILL);
    }
  }
  exchange_.Stop();
  for (std::thread& thread : threads_) thread.join();
  if (exchange_descriptor_ >= 0) close(exchange_descriptor_);
  if (store_descriptor_ >= 0) close(store_descriptor_);
}

std::vector<pid_t> AssistWorkers::processes() const {
  const std::lock_guard lock(mutex_);
  return processes_;
}

void AssistWorkers::KeepProcess(int32_t worker) {
  for (;;) {
    const int64_t begin_ns = SteadyClock::Get().NowNs();
    const pid_t process = Start(worker);
    if (process > 0) WaitFor(worker, process);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    restarts_.Increment();
    LOG_WARN("CPU assist: worker process {} died; a thread does its work until it is back", worker);
    const int64_t now_ns = SteadyClock::Get().NowNs();
    const bool was_short = now_ns - begin_ns < kShortLifeNs;
    AssistWorker(exchange_, worker, rows_).Serve(was_short ? now_ns + kPauseNs : now_ns);
  }
}

// Its id; 0 when the workers are being stopped, -1 if it could not be started.
pid_t AssistWorkers::Start(int32_t worker) {
  std::vector<std::string> words = command_;
  for (const auto& [flag, value] :
       {std::pair("--exchange", int64_t{kExchangeDescriptor}),
        std::pair("--store", int64_t{kStoreDescriptor}), std::pair("--worker", int64_t{worker}),
        std::pair("--parent", int64_t{getpid()})}) {
    words.emplace_back(flag);
    words.push_back(std::to_string(value));
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, exchange_descriptor_, kExchangeDescriptor);
  posix_spawn_file_actions_adddup2(&actions, store_descriptor_, kStoreDescriptor);
  posix_spawn_file_actions_addclosefrom_np(&actions, kFirstOtherDescriptor);
  pid_t process = 0;
  int error = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      error = posix_spawn(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
      if (error == 0) processes_[static_cast<size_t>(worker)] = process;
    }
  }
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return process;
  LOG_WARN("CPU assist: cannot start {}: {}", command_[0], std::strerror(error));
  return -1;
}

void AssistWorkers::WaitFor(int32_t worker, pid_t process) {
  siginfo_t unused;
  while (waitid(P_PID, static_cast<id_t>(process), &unused, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  // The id is this process's until waitpid: the destructor cannot kill another one by it.
  const std::lock_guard lock(mutex_);
  processes_[static_cast<size_t>(worker)] = 0;
  while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace graft
