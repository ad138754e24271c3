// A limit on the library's work for one grammar. XGrammar's loops count their steps here
// (tools/grammar_patches.py), so that a hostile grammar ends with an error, before it exhausts the
// thread or the memory that compiles it. Each thread has its own count.
#pragma once

#include <time.h>

#include <cstdint>
#include <functional>
#include <utility>

namespace graft {

// What counts as memory: what a compiled grammar is made of, or the states that a matcher keeps of
// the tokens it accepts. A look ahead keeps nothing.
enum class GrammarMemory : uint8_t { kNone, kMade, kKept };

struct GrammarWorkCounts {
  int64_t until_ns = 0;  // of this thread's time; 0: nothing is counted
  GrammarMemory memory = GrammarMemory::kNone;
  int64_t bytes_max = 0;
  const std::function<bool()>* stops = nullptr;
  int64_t num_counted = 0;
  int64_t bytes = 0;
  bool is_over = false;
};

class GrammarWork {
 public:
  // While it lives, this thread may take so much time of a core and so many bytes, until `stops`,
  // which is asked now and then, is true. One at a time.
  GrammarWork(int64_t cpu_ns_max, GrammarMemory memory, int64_t bytes_max,
              std::function<bool()> stops)
      : begin_ns_(CpuNs()), stops_(std::move(stops)) {
    now_ = GrammarWorkCounts{.until_ns = begin_ns_ + cpu_ns_max,
                             .memory = memory,
                             .bytes_max = bytes_max,
                             .stops = &stops_};
  }
  ~GrammarWork() { now_ = GrammarWorkCounts(); }
  GrammarWork(const GrammarWork&) = delete;
  GrammarWork& operator=(const GrammarWork&) = delete;

  // A step of a loop. False: it is one too many, and so are all after it.
  static bool Count() {
    if (now_.until_ns == 0 || ++now_.num_counted % kLookEvery != 0) return !now_.is_over;
    now_.is_over = now_.is_over || CpuNs() > now_.until_ns || (*now_.stops)();
    return !now_.is_over;
  }
  // Counts something that takes memory. False: it is too much, and so is all after it.
  static bool CountMade(int64_t bytes) { return CountBytes(GrammarMemory::kMade, bytes); }
  static bool CountKept(int64_t bytes) { return CountBytes(GrammarMemory::kKept, bytes); }
  static bool is_over() { return now_.is_over; }
  static int64_t bytes() { return now_.bytes; }
  int64_t used_ns() const { return CpuNs() - begin_ns_; }

  // What is wrong once a count was too many.
  static const char* Refusal() {
    return "it takes too much time to compile, or has too many states; send a smaller one";
  }

 private:
  static constexpr int64_t kLookEvery = 256;

  static bool CountBytes(GrammarMemory memory, int64_t bytes) {
    if (memory == now_.memory) now_.bytes += bytes;
    now_.is_over = now_.is_over || now_.bytes > now_.bytes_max;
    return Count();
  }

  static int64_t CpuNs() {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  static inline thread_local GrammarWorkCounts now_;
  const int64_t begin_ns_;
  const std::function<bool()> stops_;
};

}  // namespace graft
