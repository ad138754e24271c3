#include "etcd/etcd_testing.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/check.h"
#include "base/local_processes.h"

extern char** environ;

namespace graft {
namespace {

pid_t Spawn(const std::vector<std::string>& arguments, const std::string& log_file) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  CHECK_EQ(error, 0) << "cannot start " << arguments[0] << ": is etcd-server installed?";
  return pid;
}

}  // namespace

TestEtcd::TestEtcd(std::vector<std::string> flags, bool tls)
    : flags_(std::move(flags)), tls_(tls), port_(*FindFreePort()), peer_port_(*FindFreePort()) {
  std::string pattern = std::filesystem::temp_directory_path() / "graft_etcd_XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr);
  folder_ = pattern;
  if (tls_) {
    const std::string make =
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1 -keyout " +
        folder_ + "/key.pem -out " + folder_ + "/cert.pem 2>/dev/null";
    CHECK_EQ(std::system(make.c_str()), 0);
  }
  Start();
}

TestEtcd::~TestEtcd() {
  if (pid_ > 0) Kill();
  std::filesystem::remove_all(folder_);
}

std::vector<std::string> TestEtcd::Arguments() const {
  const std::string url =
      (tls_ ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_);
  const std::string peer_url = "http://127.0.0.1:" + std::to_string(peer_port_);
  std::vector<std::string> arguments = {"etcd",
                                        "--name=test",
                                        "--data-dir=" + folder_ + "/data",
                                        "--listen-client-urls=" + url,
                                        "--advertise-client-urls=" + url,
                                        "--listen-peer-urls=" + peer_url,
                                        "--initial-advertise-peer-urls=" + peer_url,
                                        "--initial-cluster=test=" + peer_url,
                                        "--heartbeat-interval=20",
                                        "--election-timeout=200",
                                        "--logger=zap",
                                        "--log-level=error"};
  if (tls_) {
    arguments.push_back("--cert-file=" + folder_ + "/cert.pem");
    arguments.push_back("--key-file=" + folder_ + "/key.pem");
    arguments.push_back("--trusted-ca-file=" + folder_ + "/cert.pem");
    arguments.push_back("--client-cert-auth");
  }
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  return arguments;
}

EtcdOptions TestEtcd::Options() const {
  EtcdOptions options;
  options.endpoints = {"127.0.0.1:" + std::to_string(port_)};
  options.deadline_ms = 1000;
  if (tls_) {
    options.ca_file = options.cert_file = folder_ + "/cert.pem";
    options.key_file = folder_ + "/key.pem";
  }
  return options;
}

std::unique_ptr<EtcdClient> TestEtcd::Client() const { return *EtcdClient::Make(Options()); }

void TestEtcd::Kill() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void TestEtcd::Pause() {
  kill(pid_, SIGSTOP);
  waitpid(pid_, nullptr, WUNTRACED);  // all its threads have stopped
}
void TestEtcd::Resume() { kill(pid_, SIGCONT); }

void TestEtcd::Start(bool keep_data) {
  if (!keep_data) std::filesystem::remove_all(folder_ + "/data");
  pid_ = Spawn(Arguments(), folder_ + "/log");
  Status status;
  const auto answers = [&] {
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) StartAgain();
    status = Client()->ReadPrefix("none").status();
    return status.ok();
  };
  CHECK(Eventually(answers)) << status.ToString();
  has_answered_ = true;
}

// Another process took a port since it was free. One that clients know is waited for.
void TestEtcd::StartAgain() {
  if (!has_answered_) {
    std::filesystem::remove_all(folder_ + "/data");
    port_ = *FindFreePort();
    peer_port_ = *FindFreePort();
  }
  pid_ = Spawn(Arguments(), folder_ + "/log");
}

TestEtcdNodes::TestEtcdNodes() {
  std::string pattern = std::filesystem::temp_directory_path() / "graft_etcd_XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr);
  folder_ = pattern;
  std::vector<std::string> peers;
  std::string members;
  for (int i = 0; i < kCount; ++i) {
    ports_.push_back(*FindFreePort());
    peers.push_back("http://127.0.0.1:" + std::to_string(*FindFreePort()));
    members += (i == 0 ? "n" : ",n") + std::to_string(i) + "=" + peers.back();
  }
  for (int i = 0; i < kCount; ++i) {
    const std::string name = "n" + std::to_string(i);
    const std::string& peer = peers[static_cast<size_t>(i)];
    const std::string url = "http://127.0.0.1:" + std::to_string(ports_[static_cast<size_t>(i)]);
    pids_.push_back(Spawn({"etcd", "--name=" + name, "--data-dir=" + folder_ + "/" + name,
                           "--listen-client-urls=" + url, "--advertise-client-urls=" + url,
                           "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
                           "--initial-cluster=" + members, "--heartbeat-interval=50",
                           "--election-timeout=500", "--logger=zap", "--log-level=error"},
                          folder_ + "/" + name + ".log"));
  }
  for (int i = 0; i < kCount; ++i) {
    const auto client = *EtcdClient::Make(Options({i}));
    CHECK(Eventually([&] { return client->ReadPrefix("none").ok(); }, std::chrono::seconds(60)));
  }
}

TestEtcdNodes::~TestEtcdNodes() {
  for (const pid_t pid : pids_) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  std::filesystem::remove_all(folder_);
}

EtcdOptions TestEtcdNodes::Options(const std::vector<int>& nodes) const {
  EtcdOptions options;
  for (const int node : nodes) {
    options.endpoints.push_back("127.0.0.1:" + std::to_string(ports_[static_cast<size_t>(node)]));
  }
  return options;
}

void TestEtcdNodes::Pause(int node) {
  kill(pids_[static_cast<size_t>(node)], SIGSTOP);
  waitpid(pids_[static_cast<size_t>(node)], nullptr, WUNTRACED);
}
void TestEtcdNodes::Resume(int node) { kill(pids_[static_cast<size_t>(node)], SIGCONT); }

bool Eventually(const std::function<bool()>& holds, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace graft
