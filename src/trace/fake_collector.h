// A collector that keeps what it is sent, or answers badly. For tests; thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace graft {

class FakeCollector {
 public:
  FakeCollector();
  ~FakeCollector();

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // What it answers from now on; 0: it closes the connection without a word.
  void set_status(int status);
  // Holds every answer back while true.
  void set_hold(bool hold);
  // The heads and bodies so far, once there are so many.
  std::vector<std::string> WaitForMessages(size_t count);

 private:
  void Loop();

  int fd_ = -1;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> messages_;
  int status_ = 200;
  bool hold_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace graft
