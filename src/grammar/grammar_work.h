// How much the library may do for one grammar: XGrammar's loops count what they do here
// (tools/grammar_patches.py), so that a hostile grammar ends with an error, and not the thread or
// the memory that compiles it. Of each thread its own.
#pragma once

#include <time.h>

#include <cstdint>
#include <string>

namespace graft {

struct GrammarWorkCounts {
  int64_t cpu_ns_max = 0;
  int64_t until_ns = 0;  // of this thread's time; 0: nothing is counted
  int64_t num_counted = 0;
  int64_t num_made = 0;
};

class GrammarWork {
 public:
  // While it lives, this thread may take so much time of a core, and make so many states and edges.
  explicit GrammarWork(int64_t cpu_ns_max) {
    now_ = GrammarWorkCounts{.cpu_ns_max = cpu_ns_max, .until_ns = CpuNs() + cpu_ns_max};
  }
  ~GrammarWork() { now_ = GrammarWorkCounts(); }
  GrammarWork(const GrammarWork&) = delete;
  GrammarWork& operator=(const GrammarWork&) = delete;

  // A step of a loop. False: it is one too many.
  static bool Count() {
    return now_.until_ns == 0 || ++now_.num_counted % kLookEvery != 0 || CpuNs() <= now_.until_ns;
  }
  // A state or an edge, likewise.
  static bool CountMade() { return Count() && (now_.until_ns == 0 || ++now_.num_made <= kMadeMax); }
  // What was wrong, after that.
  static std::string Refusal() {
    return "it takes more than " + std::to_string(now_.cpu_ns_max / 1'000'000'000) +
           " s of a core to compile, or has too many states; send a smaller one";
  }

 private:
  static constexpr int64_t kLookEvery = 1024;
  static constexpr int64_t kMadeMax = 8'000'000;  // some hundred bytes each

  static int64_t CpuNs() {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  static inline thread_local GrammarWorkCounts now_;
};

}  // namespace graft
