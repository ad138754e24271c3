// A web server on loopback for tests: answers as a function says, cuts bodies, keeps what it was
// asked. Threads of its own; the function runs on them, one call at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace graft {

struct AskedOfWeb {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;
};

struct ScriptedReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  int64_t cut_after = -1;  // bytes of the body, then the connection is closed; -1: none
};

class ScriptedWeb {
 public:
  using Handler = std::function<ScriptedReply(const AskedOfWeb&)>;
  explicit ScriptedWeb(Handler handler);
  ~ScriptedWeb();

  int port() const { return port_; }
  std::string Url(const std::string& target) const;
  std::vector<AskedOfWeb> asked() const;

  // The reply with the bytes that the request's Range asks for.
  static ScriptedReply Bytes(const AskedOfWeb& asked, const std::string& bytes);

 private:
  void Accept();
  void Serve(int connection);

  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> is_ending_{false};
  mutable std::mutex mutex_;
  std::vector<AskedOfWeb> asked_;
  std::vector<std::thread> threads_;
  std::vector<int> connections_;
  std::thread acceptor_;
};

}  // namespace graft
