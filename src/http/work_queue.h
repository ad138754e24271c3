// WorkQueue: threads for work that would hold up an HTTP thread, such as parsing and tokenising
// long bodies, or long lists. Clients take turns by the cost of their work, in bytes: a client with
// much work waits behind one with little, and every client gets its turn (self-clocked fair
// queueing). If there are several threads, one of them never does long work, so that short work
// finds a free one. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace graft {

class WorkQueue {
 public:
  // Work of more bytes than this is long.
  static constexpr int64_t kLongBytes = 256 << 10;

  explicit WorkQueue(int32_t num_threads);
  // Does all work that was asked for, and ends the threads.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Runs `work`, which must not throw, on a thread. Work of one `owner` shares a turn.
  void Run(uint64_t owner, int64_t bytes, std::function<void()> work);

 private:
  // Ordered by when each would end if all owners were served at once and alike, then by arrival.
  using Line = std::map<std::pair<int64_t, int64_t>, std::function<void()>>;

  void Loop();
  // The line with the next piece at its head; null if none may run.
  Line* NextLine();

  const int32_t num_threads_;
  std::mutex mutex_;
  std::condition_variable came_;
  Line short_;
  Line long_;
  std::unordered_map<uint64_t, int64_t> ends_;  // of each owner's last piece
  int64_t now_ = 0;                             // the end of the piece that was begun last
  int64_t num_asked_ = 0;
  int32_t num_long_running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace graft
