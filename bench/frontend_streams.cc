// How many streams and tokens a second a frontend carries: `graft frontend` before runners that
// answer at once, and clients that hold many streams open. One process is all runners (engines
// that draw a token for every request, so many times a second, behind the real RunnerService) and
// all clients (one thread, epoll). It starts the frontend itself and reads its CPU time from /proc,
// so that what the others take of the same cores does not count.
//
//   frontend_streams GRAFT MODEL [STREAMS] [TOKENS] [STEPS_PER_SECOND] [RUNNERS] [SECONDS]
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "request/adapter_catalog.h"
#include "rpc/runner_service.h"

namespace graft {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kWarmSeconds = 5;
constexpr int32_t kFirstToken = 300;  // text by itself in any vocabulary that is not tiny

struct Settings {
  std::string graft;
  std::string model;
  int streams = 4000;
  int tokens = 200;  // of an answer
  int steps_per_second = 12;
  int runners = 4;
  double seconds = 20;
};

// Any thread submits and cancels; one steps.
class InstantGenerator : public Generator {
 public:
  Status Submit(Request request, std::shared_ptr<TokenStream> stream) override {
    std::lock_guard lock(mutex_);
    running_[request.id] = {std::move(stream), request.sampling.tokens_max,
                            static_cast<int32_t>(request.prompt_tokens.size())};
    return OkStatus();
  }
  void Cancel(RequestId id) override {
    std::lock_guard lock(mutex_);
    const auto it = running_.find(id);
    if (it == running_.end()) return;
    it->second.stream->Push({.finish_reason = FinishReason::kCancelled});
    running_.erase(it);
  }
  GeneratorLimits limits() const override {
    return {.context_tokens_max = 1 << 20, .vocab_size = 1 << 30, .requests_max = 1 << 20};
  }
  void Step() {
    std::lock_guard lock(mutex_);
    for (auto it = running_.begin(); it != running_.end();) {
      Running& one = it->second;
      ++num_drawn_;
      TokenEvent event{.token = kFirstToken + one.num_drawn++ % 64};
      const bool is_last = one.num_drawn >= one.tokens_max;
      if (is_last) {
        event.finish_reason = FinishReason::kLength;
        event.usage = {.prompt_tokens = one.num_prompt, .output_tokens = one.num_drawn};
      }
      one.stream->Push(std::move(event));
      it = is_last ? running_.erase(it) : std::next(it);
    }
  }

  int64_t num_drawn() const { return num_drawn_; }

 private:
  struct Running {
    std::shared_ptr<TokenStream> stream;  // shared with its reader
    int32_t tokens_max = 0;
    int32_t num_prompt = 0;
    int32_t num_drawn = 0;
  };
  std::mutex mutex_;
  std::unordered_map<RequestId, Running> running_;
  std::atomic<int64_t> num_drawn_{0};
};

class NoAdapters : public AdapterCatalog {
 public:
  std::vector<AdapterInfo> ListAfter(const std::string&, size_t) const override { return {}; }
  Result<AdapterInfo> Find(const std::string&) const override { return NotFoundError("none"); }
  std::string NamesNear(const std::string&, const NameFilter&) const override { return ""; }
  AdapterState StateOf(const AdapterInfo&) const override { return AdapterState::kHost; }
  Result<AdapterInfo> Load(const AdapterLoad&) override { return NotFoundError("none"); }
  Status Unload(const std::string&, const std::string&) override { return NotFoundError("none"); }
};

// Steps at its own moments: `phase` of a step after the others.
class InstantRunner {
 public:
  InstantRunner(const Settings& settings, double phase)
      : service_(RunnerService::Start({.arithmetic_id = "instant"}, generator_, adapters_,
                                      [] { return RunnerLoad{}; })
                     .value()),
        thread_([this, settings, phase] { Loop(1.0 / settings.steps_per_second, phase); }) {}
  ~InstantRunner() {
    stopping_ = true;
    thread_.join();
  }
  int64_t num_drawn() const { return generator_.num_drawn(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(service_->port()); }

 private:
  void Loop(double period, double phase) {
    const auto step =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(period));
    auto next = Clock::now() + std::chrono::duration_cast<Clock::duration>(step * phase);
    while (!stopping_) {
      std::this_thread::sleep_until(next);
      generator_.Step();
      service_->OnDelivered();
      next = std::max(next + step, Clock::now());
    }
  }

  NoAdapters adapters_;
  InstantGenerator generator_;
  std::unique_ptr<RunnerService> service_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

int Connect(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

// All clients: each asks again as soon as its answer has ended.
class Clients {
 public:
  Clients(const Settings& settings, uint16_t port) : epoll_(epoll_create1(0)) {
    const std::string body = R"({"model": "model", "prompt": "It was", "max_tokens": )" +
                             std::to_string(settings.tokens) +
                             R"(, "stream": true, "ignore_eos": true})";
    request_ =
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    tails_.resize(static_cast<size_t>(settings.streams));
    for (int i = 0; i < settings.streams; ++i) Open(port, i);
  }

  // Reads for so long.
  void Run(double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    std::vector<epoll_event> events(1024);
    while (Clock::now() < end) {
      const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 100);
      for (int i = 0; i < count; ++i) {
        Read(static_cast<int>(events[static_cast<size_t>(i)].data.u64 >> 32),
             events[static_cast<size_t>(i)].data.u64 & 0xFFFFFFFFu);
      }
    }
  }

  int64_t num_events = 0;  // each has a token, or several that came late
  int64_t num_answers = 0;
  int num_open = 0;
  std::string failure;

 private:
  void Open(uint16_t port, int idx) {
    const int fd = Connect(port);
    if (fd < 0) {
      failure = "cannot connect";
      return;
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = (static_cast<uint64_t>(fd) << 32) | static_cast<uint64_t>(idx);
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
    ++num_open;
    Ask(fd);
  }
  void Ask(int fd) {
    if (send(fd, request_.data(), request_.size(), MSG_NOSIGNAL) < 0) failure = "cannot send";
  }
  void Read(int fd, size_t idx) {
    constexpr std::string_view kEvent = "data: {";
    constexpr std::string_view kDone = "data: [DONE]";
    char bytes[16384];
    const ssize_t received = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (received < 0) return;
    if (received == 0) {
      epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
      close(fd);
      --num_open;
      failure = "a stream was closed";
      return;
    }
    // What is cut in two is whole with the next bytes.
    std::string text = std::move(tails_[idx]);
    text.append(bytes, static_cast<size_t>(received));
    size_t end = 0;
    for (size_t at = 0; (at = text.find(kEvent, at)) != std::string::npos; at += kEvent.size()) {
      ++num_events;
      end = at + kEvent.size();
    }
    if (text.find("\"error\"") != std::string::npos) failure = text.substr(0, 500);
    const size_t done = text.find(kDone, end);
    if (done != std::string::npos) {
      ++num_answers;
      end = done + kDone.size();
      Ask(fd);
    }
    tails_[idx] = text.substr(std::max(end, text.size() - std::min(text.size(), kDone.size() - 1)));
  }

  const int epoll_;
  std::string request_;
  std::vector<std::string> tails_;
};

double CpuSecondsOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  text.erase(0, text.rfind(')') + 2);
  // From the third field on; utime and stime are the 14th and 15th.
  long user = 0;
  long system = 0;
  std::sscanf(text.c_str(), "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system);
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

pid_t StartFrontend(const Settings& settings, const std::string& runners, uint16_t port) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const std::string port_text = std::to_string(port);
  execl(settings.graft.c_str(), "graft", "frontend", "--model", settings.model.c_str(),
        "--model-name", "model", "--runners", runners.c_str(), "--port", port_text.c_str(),
        "--requests-max", "100000", "--connections-max", "100000", "--request-log", "false",
        "--log-level", "warn", static_cast<char*>(nullptr));
  _exit(127);
}

// Until all runners are up, or the frontend has ended.
bool WaitReady(pid_t pid, uint16_t port) {
  const std::string request = "GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  while (waitpid(pid, nullptr, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const int fd = Connect(port);
    if (fd < 0) continue;
    char bytes[64] = {};
    const bool answered = send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0 &&
                          recv(fd, bytes, sizeof(bytes) - 1, 0) > 0;
    close(fd);
    if (!answered || std::string_view(bytes).find(" 200 ") == std::string_view::npos) continue;
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return true;
  }
  return false;
}

uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

int Measure(const Settings& settings) {
  std::vector<std::unique_ptr<InstantRunner>> runners;
  std::string addresses;
  for (int i = 0; i < settings.runners; ++i) {
    runners.push_back(std::make_unique<InstantRunner>(settings, double(i) / settings.runners));
    addresses += (i == 0 ? "" : ",") + runners.back()->address();
  }
  const uint16_t port = FreePort();
  const pid_t pid = StartFrontend(settings, addresses, port);
  if (!WaitReady(pid, port)) return 1;
  Clients clients(settings, port);
  clients.Run(kWarmSeconds);
  const auto num_drawn = [&runners] {
    int64_t sum = 0;
    for (const auto& runner : runners) sum += runner->num_drawn();
    return sum;
  };
  const int64_t drawn_before = num_drawn();
  const int64_t events_before = clients.num_events;
  const double cpu_before = CpuSecondsOf(pid);
  const auto began = Clock::now();
  clients.Run(settings.seconds);
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  const double cpu = CpuSecondsOf(pid) - cpu_before;
  const auto drawn = static_cast<double>(num_drawn() - drawn_before);
  const auto events = static_cast<double>(clients.num_events - events_before);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  // Tokens that share an event cost less: the cost of an event is what counts.
  std::printf(
      "{\"streams_open\": %d, \"answers\": %lld, \"tokens_per_second\": %.0f, "
      "\"events_per_second\": %.0f, \"frontend_cores\": %.2f, \"frontend_cpu_us_per_event\": %.2f, "
      "\"events_per_second_on_two_cores\": %.0f, \"failure\": \"%s\"}\n",
      clients.num_open, static_cast<long long>(clients.num_answers), drawn / seconds,
      events / seconds, cpu / seconds, cpu * 1e6 / events, 2 * events / cpu,
      clients.failure.c_str());
  return clients.failure.empty() ? 0 : 1;
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: frontend_streams GRAFT MODEL [STREAMS] [TOKENS] [STEPS_PER_SECOND] "
                 "[RUNNERS] [SECONDS]\n");
    return 2;
  }
  graft::Settings settings{.graft = argv[1], .model = argv[2]};
  int* const numbers[] = {&settings.streams, &settings.tokens, &settings.steps_per_second,
                          &settings.runners};
  for (int i = 3; i < argc && i < 7; ++i) *numbers[i - 3] = std::atoi(argv[i]);
  if (argc > 7) settings.seconds = std::atof(argv[7]);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  return graft::Measure(settings);
}
