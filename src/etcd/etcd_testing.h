// A real etcd for tests: a process on a free port with a folder of its own. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "etcd/etcd_client.h"

namespace graft {

class TestEtcd {
 public:
  // Starts etcd at once. `flags` are added to those that say where it lies.
  explicit TestEtcd(std::vector<std::string> flags = {}, bool tls = false);
  ~TestEtcd();

  EtcdOptions Options() const;
  std::unique_ptr<EtcdClient> Client() const;
  const std::string& folder() const { return folder_; }

  // Ends it by SIGKILL. Its folder stays.
  void Kill();
  // Stop it by SIGSTOP, and let it go on by SIGCONT.
  void Pause();
  void Resume();
  // Starts it again on the same port, with or without the data that it had, and waits until it
  // answers.
  void Start(bool keep_data = true);

 private:
  std::vector<std::string> Arguments() const;
  void StartAgain();

  const std::vector<std::string> flags_;
  const bool tls_;
  std::string folder_;
  int port_ = 0;
  int peer_port_ = 0;
  pid_t pid_ = -1;
  bool has_answered_ = false;
};

// Three real etcds that are one, without TLS.
class TestEtcdNodes {
 public:
  static constexpr int kCount = 3;
  TestEtcdNodes();
  ~TestEtcdNodes();

  // That asks these members alone.
  EtcdOptions Options(const std::vector<int>& nodes) const;
  void Pause(int node);
  void Resume(int node);

 private:
  std::string folder_;
  std::vector<int> ports_;
  std::vector<pid_t> pids_;
};

// Tries until `holds` is true. Returns false if that takes longer than `limit`, which is against
// hangs alone.
bool Eventually(const std::function<bool()>& holds,
                std::chrono::milliseconds limit = std::chrono::seconds(120));

}  // namespace graft
