#include "base/local_processes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/fault.h"
#include "base/json.h"

extern char** environ;

namespace graft {
namespace {

constexpr std::chrono::milliseconds kEndPoll(50);
constexpr int kStartTimeField = 22;  // of /proc/PID/stat

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// 0: there is no such process, or it has ended and is a zombie.
int64_t StartTimeOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return 0;
  // Its name, in brackets, may have blanks.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream words(text.substr(end + 1));
  std::string word;
  std::string state;
  words >> state;
  if (state == "Z") return 0;
  for (int field = 4; field <= kStartTimeField && words >> word; ++field) {
  }
  return std::atoll(word.c_str());
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

bool Listens(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const sockaddr_in address = Loopback(port);
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

}  // namespace graft
