// WorkCrew: threads that help with work which falls into pieces, as an adapter does into its
// tensors. The thread that hands in a Batch takes part in it, so that no batch waits for a helper.
// Batches of several threads are helped in turns. Helpers take only those cores that no Presence
// takes: where as many threads are present as there are cores, each of them works alone. Helpers
// are started by the first batch that could use them. Thread-safe; a Batch belongs to one thread,
// but for WaitFor.
//
// Storage may hang for ever, and a thread that reads from it cannot be called back. So there are
// twice as many helpers as cores to help with, and half of them at most are in pieces that read or
// wait for such pieces: the other half is left for batches that compute, whatever hangs. What is
// read beside a storage that hangs is then read by its own thread alone. A thread that waits for
// long takes no core from those that work.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace graft {

class WorkCrew {
 public:
  // A thread that was in a piece that reads, or waited for one, for more than `long_wait_ns` takes
  // no core.
  explicit WorkCrew(int num_cores, int64_t long_wait_ns = 1'000'000'000);
  // Waits for helpers that are in a piece.
  ~WorkCrew();
  WorkCrew(const WorkCrew&) = delete;
  WorkCrew& operator=(const WorkCrew&) = delete;

  // As long as it lives, its thread has a core of the crew's. Null: of no crew.
  class Presence {
   public:
    explicit Presence(WorkCrew* crew);
    ~Presence();
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;

   private:
    WorkCrew* const crew_;
  };

  // Reads: from storage, which may hang. Follows: waits for pieces of such a batch.
  enum class Pieces : uint8_t { kCompute, kRead, kFollow };

  // Pieces 0, 1, ..., begun in this order. If memory runs out in a piece, no further one begins,
  // and those that wait get the exception. Nothing else may be thrown in a piece.
  class Batch {
   public:
    // Helpers begin at once. Null: the caller does it all, while it waits. What `piece` refers to
    // outlives the batch, and so does the flag by which the caller's work is unwanted, which
    // helpers take over (base/unwanted_work.h).
    Batch(WorkCrew* crew, int64_t num_pieces, std::function<void(int64_t piece_idx)> piece,
          Pieces pieces = Pieces::kCompute);
    // Begins no further piece, and waits for those that run.
    ~Batch();
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    // Do pieces until all are done, or this one is, and wait for those of helpers. A piece of
    // another batch may wait for one of this.
    void Wait();
    void WaitFor(int64_t piece_idx);

   private:
    friend class WorkCrew;
    bool has_more() const { return next_ < num_pieces_; }
    void RunNext(std::unique_lock<std::mutex>& lock);
    void RunPiece(int64_t piece_idx, std::unique_lock<std::mutex>& lock);
    void WaitForChange(std::unique_lock<std::mutex>& lock);
    void Close();

    WorkCrew* const crew_;
    const Pieces pieces_;
    const std::atomic<bool>* const is_unwanted_;
    std::mutex own_mutex_;
    std::mutex& mutex_;  // the crew's, which guards the rest, or its own
    std::condition_variable changed_;
    const int64_t num_pieces_;
    const std::function<void(int64_t)> piece_;
    int64_t next_ = 0;
    int64_t num_running_ = 0;
    std::vector<bool> is_done_;
    std::exception_ptr out_of_memory_;
  };

 private:
  class LongWait;
  void StartHelpers();
  void Help();
  void WaitForWork(std::unique_lock<std::mutex>& lock);
  Batch* NextToHelp();
  int NumBusy() const;

  const int num_cores_;
  const int64_t long_wait_ns_;
  std::mutex mutex_;
  std::condition_variable work_came_;
  std::list<Batch*> open_;  // those with pieces that were not begun, in turns
  int num_present_ = 0;
  int num_helping_ = 0;
  int num_helping_to_read_ = 0;     // of these, in batches that do not compute
  int num_looking_ = 0;             // helpers that look again in time whether they may help
  LongWait* first_wait_ = nullptr;  // of each thread that reads or waits, as they began
  LongWait* last_wait_ = nullptr;
  bool stopping_ = false;
  bool has_started_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace graft
