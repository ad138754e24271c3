#include "base/local_processes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "base/fault.h"
#include "base/json.h"

extern char** environ;

namespace graft {
namespace {

constexpr std::chrono::milliseconds kEndPoll(50);
constexpr int kStartTimeField = 22;  // of /proc/PID/stat
constexpr int kFirstPort = 10240;
constexpr int kEndPort =
    32768;  // where Linux begins with outgoing connections unless told otherwise
constexpr int kTries = 200;

// The fields of /proc/PID/stat behind the name, which may have blanks and brackets: the state comes
// first. "": there is no such process.
std::string StatOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(") ");
  return end == std::string::npos ? "" : text.substr(end + 2);
}

// 0: there is no such process, or it has ended and is a zombie.
int64_t StartTimeOf(pid_t pid) {
  std::istringstream words(StatOf(pid));
  std::string word;
  if (!(words >> word) || word == "Z") return 0;
  for (int field = 4; field <= kStartTimeField && words >> word; ++field) {
  }
  return std::atoll(word.c_str());
}

// Binds a port of 127.0.0.1, or connects to it, for a moment.
bool CanReach(int port, int (*reach)(int fd, const sockaddr* address, socklen_t bytes)) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool can = reach(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return can;
}

// Binds a name without a file, which the kernel frees when this process ends: its descriptor, -1
// where another process holds it.
int Reserve(int port) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "graft-port-" + std::to_string(port);
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

Result<LocalProcess> StartProcess(const std::string& name,
                                  const std::vector<std::string>& arguments,
                                  const std::string& log_file) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // The starter may have signals blocked.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return SystemError(error, "cannot start " + arguments[0]);
  return LocalProcess{name, pid, StartTimeOf(pid)};
}

bool IsAlive(const LocalProcess& process) {
  waitpid(process.pid, nullptr, WNOHANG);  // if it is a child of ours
  return process.started != 0 && StartTimeOf(process.pid) == process.started;
}

void EndProcesses(const std::vector<LocalProcess>& processes, int patience_s) {
  const auto signal_all = [&](int signal) {
    for (const LocalProcess& process : processes) {
      if (IsAlive(process)) kill(process.pid, signal);
    }
  };
  const auto any_alive = [&] { return std::any_of(processes.begin(), processes.end(), IsAlive); };
  signal_all(SIGTERM);
  signal_all(SIGCONT);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(patience_s);
  while (any_alive() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kEndPoll);
  }
  signal_all(SIGKILL);
}

Json ToJson(const std::vector<LocalProcess>& processes) {
  Json list = Json::array();
  for (const LocalProcess& process : processes) {
    list.push_back({{"name", process.name}, {"pid", process.pid}, {"started", process.started}});
  }
  return list;
}

std::vector<LocalProcess> ProcessesFromJson(const Json& json) {
  std::vector<LocalProcess> processes;
  if (!json.is_array()) return processes;
  for (const Json& item : json) {
    if (!item.is_object() || !item.contains("name") || !item["name"].is_string()) continue;
    if (!item.contains("pid") || !item["pid"].is_number_integer()) continue;
    if (!item.contains("started") || !item["started"].is_number_integer()) continue;
    processes.push_back({item["name"].get<std::string>(), item["pid"].get<pid_t>(),
                         item["started"].get<int64_t>()});
  }
  return processes;
}

bool Listens(int port) { return CanReach(port, connect); }

Result<int> FindFreePort() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(kFirstPort, kEndPort - 1);
  for (int i = 0; i < kTries; ++i) {
    const int port = ports(random);
    const int name = Reserve(port);
    if (name < 0) continue;
    if (CanReach(port, bind)) return port;
    close(name);
  }
  return SystemError(errno, "no free port between " + std::to_string(kFirstPort) + " and " +
                                std::to_string(kEndPort - 1));
}

ProcessState StateOfProcess(pid_t pid) {
  const std::string stat = StatOf(pid);
  if (stat.empty() || stat[0] == 'Z' || stat[0] == 'X') return ProcessState::kEnded;
  return stat[0] == 'T' || stat[0] == 't' ? ProcessState::kStopped : ProcessState::kRuns;
}

}  // namespace graft
