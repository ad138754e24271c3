// Communicator: how the ranks of one model exchange data through memory that all of them map: sums
// of their parts of a product, and messages from rank 0 to the others. A rank is a process of this
// machine. Sums are formed element by element, in the order of the ranks, so their bits depend on
// the number of ranks alone, and not on how much is summed at once. All ranks notice a rank that
// has ended or has not answered for `timeout_ns`. Their waiting call fails then, with the same
// words on every rank, and so do all later calls. A rank's Communicator is for one thread at a
// time, except for functions that say otherwise: Break, state and the reports.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"

namespace graft {

inline constexpr int32_t kRanksMax = 64;

struct CommunicatorLimits {
  int32_t num_ranks = 1;
  int64_t part_floats = 0;              // of each rank, in one exchange
  int64_t message_bytes = 4 << 20;      // of messages under way; one message may be larger
  int64_t timeout_ns = 60'000'000'000;  // of a rank that the others wait for
};

class Communicator {
 public:
  static int64_t Bytes(const CommunicatorLimits& limits);
  // Makes zeroed memory of that size, on a border of 64, ready for the ranks, before any is there.
  static void Format(const CommunicatorLimits& limits, char* memory);

  // Rank `rank`'s end, in the process that calls. The memory outlives it.
  Communicator(char* memory, int32_t rank);

  int32_t rank() const { return rank_; }
  int32_t num_ranks() const;
  int64_t part_floats() const;
  int64_t timeout_ns() const;
  // Says which process a rank is. The process that started it calls this, so that a rank that ends
  // before it has made its Communicator is noticed, too.
  void SetProcess(int32_t rank, pid_t process);

  // ---- Exchanges, which all ranks do in the same order ----
  // Where this rank writes its part of the next exchange: part_floats floats. The rank may write as
  // soon as the previous exchange has ended for it.
  float* part();
  // Waits until all ranks have written their parts; part_of may be read until the next exchange.
  Status Exchange();
  const float* part_of(int32_t rank) const;
  // Exchanges parts of n floats and sums: out = or (where it `accumulates`) += part of rank 0 +
  // part of rank 1 + and so on.
  Status AllReduce(int64_t n, bool accumulates, float* out, ThreadPool& threads);

  // ---- Messages, from rank 0 to each of the others, in order ----
  // Returns when the message is under way, which may wait for ranks to take what was sent before.
  Status Send(std::span<const char> message);
  // Waits for the next message, for as long as it takes.
  Status Receive(std::vector<char>* message);

  // ---- Reports of the others to rank 0: a number that rises, by a thread of each ----
  void Report(uint32_t number);
  // Waits until all of them have reported the number, or a later one. With no limit where they are
  // not `hurried`. On rank 0, by any thread.
  Status AwaitReports(uint32_t number, bool hurried);

  // ---- Steps that fail ----
  // This rank stops computing its part of a step, but takes part in the rest of the step's
  // exchanges after this call. The step's results mean nothing then. The first rank's reason
  // counts.
  void Fail(const std::string& why);
  // Rank 0, after the step's last exchange: why it means nothing; "" where all went well. Once.
  std::string TakeFailure();

  // ---- For GPUs that wait for each other ----
  // What holds the word below, on borders of 4096 bytes.
  std::span<char> header() const;
  // Not 0 as soon as a rank cannot go on.
  const uint32_t* broken() const;
  // The rank was waited for in vain, for timeout_ns: says so to all.
  Status Blame(int32_t rank);

  // For a rank that waits for its device, which waits for the other ranks: fails where one of them
  // is stopped, once `waited_ns` has reached timeout_ns.
  Status LookForStopped(int64_t waited_ns);

  // Tells all ranks why this rank, or what watches over it, cannot go on. The first reason counts.
  // Any thread.
  void Break(const std::string& why);
  // Why nothing works any more; OK while all is well. Any thread.
  Status state() const;

 private:
  struct Header;
  struct Words;
  struct Begins {
    int64_t parts = 0;
    int64_t ring = 0;
    int64_t end = 0;
  };
  class Waiting;

  static Begins BeginsOf(const CommunicatorLimits& limits);
  Header& shared() const { return *reinterpret_cast<Header*>(memory_); }
  float* PartAt(uint32_t exchange, int32_t rank) const;
  Status SendBytes(std::span<const char> bytes);
  Status ReceiveBytes(std::span<char> bytes);
  // The first of the readers that leave no room in the ring; -1: there is room.
  int32_t FullReader(uint32_t written) const;
  // Fails where the rank has ended, or was waited for in vain.
  Status Look(int32_t rank, int64_t waited_ns, int64_t timeout_ns);

  char* const memory_;
  const Begins begins_;
  const int32_t rank_;
  uint32_t num_exchanges_;  // runs around
  uint32_t num_bytes_;      // of messages, sent or received; runs around
  uint32_t ring_at_ = 0;    // where the next one lies in the ring
};

// Ends the process of a rank that cannot go on, as no rank can serve without the others. Rank 0
// says why in its log, the others are silent. Any thread.
[[noreturn]] void EndRank(int32_t rank, const Status& why);

}  // namespace graft
