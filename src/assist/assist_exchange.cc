#include "assist/assist_exchange.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <new>

#include "base/check.h"
#include "base/clock.h"

namespace graft {
namespace {

constexpr int64_t kAlignment = 4096;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The flags are plain words, as kernels and other processes see them.
template <typename T>
T Load(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
}
template <typename T>
void Store(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
}

// Waits for what comes soon: some polls at full speed, then for a while polls that leave the core
// to other threads, then polls with short sleeps in between. (Where cores are short, a thread that
// yields runs after all others, and one that wakes runs before them.)
class Patience {
 public:
  explicit Patience(int64_t awake_ns) : awake_ns_(awake_ns) {}

  void Wait() {
    if (++polls_ < kSpins) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
      return;
    }
    const int64_t now_ns = SteadyClock::Get().NowNs();
    if (polls_ == kSpins) begin_ns_ = now_ns;
    if (now_ns - begin_ns_ < awake_ns_) {
      sched_yield();
      return;
    }
    is_over_ = true;
    const timespec pause = {0, 20'000};
    nanosleep(&pause, nullptr);
  }
  bool is_over() const { return is_over_; }

 private:
  static constexpr int kSpins = 1000;
  const int64_t awake_ns_;
  int polls_ = 0;
  int64_t begin_ns_ = 0;
  bool is_over_ = false;
};

// How long a wait polls before it sleeps: in a step, as long as most kernels take; between steps
// less, because a post wakes the sleeping workers and comes ahead of the rows.
constexpr int64_t kAwakeInStepNs = 300'000;
constexpr int64_t kAwakeBetweenNs = 50'000;

}  // namespace

struct AssistExchange::Header {
  AssistLimits limits;
  alignas(64) uint32_t posted;
  uint32_t stopping;
  alignas(64) uint32_t num_sleeping;
  alignas(64) uint32_t exported;
  alignas(64) uint32_t answered[kHostFlagsMax * kFlagStride];
};

AssistExchange::Begins AssistExchange::BeginsOf(const AssistLimits& limits) {
  Begins begins;
  begins.jobs = Aligned(sizeof(Header));
  begins.x = begins.jobs + Aligned(int64_t{kAssistJobs} * int64_t{sizeof(AssistJob)});
  begins.delta = begins.x + Aligned(limits.rows_max * limits.x_row_bytes);
  begins.end =
      begins.delta + Aligned(limits.rows_max * limits.delta_columns * int64_t{sizeof(float)});
  return begins;
}

int64_t AssistExchange::Bytes(const AssistLimits& limits) { return BeginsOf(limits).end; }

AssistExchange::AssistExchange(const AssistLimits& limits, char* memory)
    : memory_(memory), begins_(BeginsOf(limits)) {
  CHECK(limits.num_workers >= 1 && limits.num_workers <= kHostFlagsMax) << limits.num_workers;
  header().limits = limits;
  for (uint32_t i = 0; i < kAssistJobs; ++i) new (&job(i)) AssistJob();
}

AssistExchange::AssistExchange(char* memory)
    : memory_(memory), begins_(BeginsOf(reinterpret_cast<const Header*>(memory)->limits)) {}

const AssistLimits& AssistExchange::limits() const { return header().limits; }
uint32_t* AssistExchange::exported() { return &header().exported; }
uint32_t* AssistExchange::answered() { return header().answered; }

AssistJob& AssistExchange::job(uint32_t number) const {
  return reinterpret_cast<AssistJob*>(memory_ + begins_.jobs)[number % kAssistJobs];
}

uint32_t AssistExchange::NextNumber(uint32_t ahead) const {
  CHECK_LT(ahead, kAssistJobs);
  const uint32_t number = header().posted + 1;
  const uint32_t before = number - ahead - 1;
  const AssistJob& last = job(before);
  if (last.number != before) return number;  // long ago, or there were not so many
  for (int32_t worker = 0; worker < last.num_shares; ++worker) {
    Patience patience(kAwakeInStepNs);
    while (!HasReached(Load(header().answered[worker * kFlagStride]), before)) patience.Wait();
  }
  return number;
}

AssistJob& AssistExchange::Prepare(uint32_t number) {
  AssistJob& next = job(number);
  Store(next.number, number - kAssistJobs);  // workers without a share of it may still look
  return next;
}

void AssistExchange::Post(uint32_t number, int32_t num_shares) {
  Store(job(number).num_shares, num_shares);
  Store(job(number).number, number);
  Store(header().posted, number);
  if (Load(header().num_sleeping) == 0) return;
  syscall(SYS_futex, &header().posted, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void AssistExchange::Stop() {
  Store(header().stopping, uint32_t{1});
  // A worker that is about to sleep for this value does not: it has changed.
  Store(header().posted, header().posted + 1);
  syscall(SYS_futex, &header().posted, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// All before it are answered.
uint32_t AssistExchange::FirstNumber() const { return Load(header().posted) - kAssistJobs; }

const AssistJob* AssistExchange::Take(int32_t worker, int64_t until_ns, uint32_t* number) {
  Header& shared = header();
  for (Patience patience(kAwakeBetweenNs);;) {
    if (Load(shared.stopping) != 0) return nullptr;
    const uint32_t posted = Load(shared.posted);
    if (HasReached(*number, posted)) {
      const int64_t left_ns = until_ns - SteadyClock::Get().NowNs();
      if (left_ns <= 0) return nullptr;
      if (patience.is_over()) {
        SleepUntilPost(posted, left_ns);
      } else {
        patience.Wait();
      }
      continue;
    }
    if (posted - *number > kAssistJobs) *number = posted - kAssistJobs;
    ++*number;
    if (HasReached(Load(shared.answered[worker * kFlagStride]), *number)) continue;
    // A job that this worker has no share of may be replaced while it looks.
    const AssistJob& next = job(*number);
    if (Load(next.number) == *number) {
      const int32_t num_shares = Load(next.num_shares);
      if (Load(next.number) == *number && worker < num_shares) return &next;
    }
    Answer(worker, *number);  // else its flag would come to lie half the numbers behind
  }
}

void AssistExchange::SleepUntilPost(uint32_t posted, int64_t sleep_ns) {
  const timespec timeout = {static_cast<time_t>(sleep_ns / 1'000'000'000),
                            sleep_ns % 1'000'000'000};
  __atomic_add_fetch(&header().num_sleeping, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &header().posted, FUTEX_WAIT, posted, &timeout, nullptr, 0);
  __atomic_sub_fetch(&header().num_sleeping, 1, __ATOMIC_SEQ_CST);
}

void AssistExchange::WaitForExport(uint32_t number) const {
  Patience patience(kAwakeInStepNs);
  while (!HasReached(Load(header().exported), number)) {
    if (Load(header().stopping) != 0) return;
    patience.Wait();
  }
}

void AssistExchange::Answer(int32_t worker, uint32_t number) {
  Store(header().answered[worker * kFlagStride], number);
}

}  // namespace graft
