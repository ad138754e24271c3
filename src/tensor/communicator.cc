#include "tensor/communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/local_processes.h"
#include "base/log.h"
#include "base/server_log.h"
#include "tensor/shared_word.h"

namespace graft {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr size_t kWhyBytes = 512;
// A sleeping rank looks after the one that it waits for so often: within a step, and else.
constexpr int64_t kLookNs = 50'000'000;
constexpr int64_t kIdleLookNs = 500'000'000;
// After so long the rank that waits says itself that another has ended.
constexpr int64_t kEndIsSaidNs = 1'000'000'000;
constexpr int64_t kForEver = INT64_MAX;
// Where all numbers begin: every server sees them run around early, not one in a thousand.
constexpr uint32_t kFirstNumber = 0u - 5000u;

int64_t Aligned(int64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

enum WordsState : uint32_t { kNotSaid, kSaying, kSaid };

struct alignas(64) Flag {
  SharedWord word;
};

// out = or += the sum of the parts, in their order.
void SumParts(std::span<const float* const> parts, int64_t begin, int64_t end, bool accumulates,
              float* out) {
  // As many as stay in a core's first cache with the parts.
  constexpr int64_t kBlock = 512;
  float sums[kBlock];
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t n = std::min(kBlock, end - i);
    std::copy_n(parts[0] + i, n, sums);
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      const float* const part = parts[rank] + i;
      for (int64_t j = 0; j < n; ++j) sums[j] += part[j];
    }
    if (accumulates) {
      for (int64_t j = 0; j < n; ++j) out[i + j] += sums[j];
    } else {
      std::copy_n(sums, n, out + i);
    }
  }
}

}  // namespace

// What one rank says to all; the first one counts.
struct Communicator::Words {
  Flag state;  // WordsState
  char text[kWhyBytes];

  void Say(const std::string& why) {
    if (!state.word.Replace(kNotSaid, kSaying)) return;
    std::memset(text, 0, kWhyBytes);
    std::strncpy(text, why.c_str(), kWhyBytes - 1);
    state.word.Announce(kSaid);
  }
  // "": nothing was said.
  std::string Hear() const {
    constexpr int kLooksMax = 10'000;  // the rank that says it may be killed meanwhile
    for (int looks = 0; state.word.Load() == kSaying && looks < kLooksMax; ++looks) sched_yield();
    if (state.word.Load() == kNotSaid) return "";
    return state.word.Load() == kSaid ? text : "a rank cannot go on";
  }
};

struct Communicator::Header {
  CommunicatorLimits limits;
  pid_t processes[kRanksMax];  // 0: not known yet
  Words broken;
  Words failed;
  Flag written;               // bytes of messages
  Flag exchanged[kRanksMax];  // exchanges that the rank has come to
  Flag read[kRanksMax];       // bytes of messages that the rank has taken
  Flag reported[kRanksMax];
};

// Waits awake at first: some polls at full speed, then polls that leave the core to any thread that
// wants it. After kAwakeNs it sleeps.
class Communicator::Waiting {
 public:
  Waiting(Communicator& communicator, int64_t timeout_ns)
      : communicator_(communicator), timeout_ns_(timeout_ns) {}

  // Returns once `word`, of `rank`, has `number`, or more.
  Status For(const SharedWord& word, uint32_t number, int32_t rank) {
    for (int polls = 0; polls < kSpins; ++polls) {
      if (word.HasReached(number)) return OkStatus();
      Pause();
    }
    const int64_t begin_ns = SteadyClock::Get().NowNs();
    int64_t now_ns = begin_ns;
    for (; now_ns - begin_ns < kAwakeNs; now_ns = SteadyClock::Get().NowNs()) {
      if (word.HasReached(number)) return OkStatus();
      sched_yield();
    }
    for (int64_t waited_ns = 0;;) {
      const uint32_t seen = word.Load();
      if (static_cast<int32_t>(seen - number) >= 0) return OkStatus();
      RETURN_IF_ERROR(communicator_.Look(rank, waited_ns, timeout_ns_));
      const int64_t look_ns = timeout_ns_ == kForEver ? kIdleLookNs : kLookNs;
      word.SleepWhile(seen, look_ns);
      const int64_t last_ns = std::exchange(now_ns, SteadyClock::Get().NowNs());
      // A longer look means that this process was stopped: no time that the rank took.
      waited_ns += std::min(now_ns - last_ns, 4 * look_ns);
    }
  }

 private:
  static constexpr int kSpins = 1000;
  static constexpr int64_t kAwakeNs = 1'000'000;
  Communicator& communicator_;
  const int64_t timeout_ns_;
};

Communicator::Begins Communicator::BeginsOf(const CommunicatorLimits& limits) {
  Begins begins;
  begins.parts = Aligned(sizeof(Header));
  begins.ring =
      begins.parts + 2 * limits.num_ranks * Aligned(limits.part_floats * int64_t{sizeof(float)});
  begins.end = begins.ring + Aligned(limits.message_bytes);
  return begins;
}

int64_t Communicator::Bytes(const CommunicatorLimits& limits) { return BeginsOf(limits).end; }

void Communicator::Format(const CommunicatorLimits& limits, char* memory) {
  CHECK(limits.num_ranks >= 1 && limits.num_ranks <= kRanksMax) << limits.num_ranks;
  CHECK(limits.part_floats >= 0 && limits.message_bytes > 0);
  CHECK_LT(limits.message_bytes, int64_t{1} << 30) << "its numbers run around";
  Header& header = *reinterpret_cast<Header*>(memory);
  header.limits = limits;
  header.written.word.Store(kFirstNumber);
  for (int32_t rank = 0; rank < limits.num_ranks; ++rank) {
    header.exchanged[rank].word.Store(kFirstNumber);
    header.read[rank].word.Store(kFirstNumber);
  }
}

Communicator::Communicator(char* memory, int32_t rank)
    : memory_(memory),
      begins_(BeginsOf(reinterpret_cast<const Header*>(memory)->limits)),
      rank_(rank),
      num_exchanges_(kFirstNumber),
      num_bytes_(kFirstNumber) {
  CHECK(rank >= 0 && rank < num_ranks()) << rank;
  SetProcess(rank, getpid());
}

int32_t Communicator::num_ranks() const { return shared().limits.num_ranks; }
int64_t Communicator::part_floats() const { return shared().limits.part_floats; }
int64_t Communicator::timeout_ns() const { return shared().limits.timeout_ns; }

void Communicator::SetProcess(int32_t rank, pid_t process) {
  __atomic_store_n(&shared().processes[rank], process, __ATOMIC_SEQ_CST);
}

// Two places take turns. A rank that comes to an exchange has read all parts of the one before, and
// no rank writes for the one after it until all have come.
float* Communicator::PartAt(uint32_t exchange, int32_t rank) const {
  const CommunicatorLimits& limits = shared().limits;
  const int64_t place = int64_t{exchange % 2} * limits.num_ranks + rank;
  const int64_t bytes = Aligned(limits.part_floats * int64_t{sizeof(float)});
  return reinterpret_cast<float*>(memory_ + begins_.parts + place * bytes);
}

float* Communicator::part() { return PartAt(num_exchanges_ + 1, rank_); }
const float* Communicator::part_of(int32_t rank) const { return PartAt(num_exchanges_, rank); }

Status Communicator::Exchange() {
  shared().exchanged[rank_].word.Announce(++num_exchanges_);
  for (int32_t other = 0; other < num_ranks(); ++other) {
    if (other == rank_) continue;
    RETURN_IF_ERROR(Waiting(*this, shared().limits.timeout_ns)
                        .For(shared().exchanged[other].word, num_exchanges_, other));
  }
  return OkStatus();
}

Status Communicator::AllReduce(int64_t n, bool accumulates, float* out, ThreadPool& threads) {
  constexpr int64_t kGrain = 4096;
  CHECK_LE(n, shared().limits.part_floats);
  RETURN_IF_ERROR(Exchange());
  const float* parts[kRanksMax];
  for (int32_t rank = 0; rank < num_ranks(); ++rank) parts[rank] = part_of(rank);
  const std::span<const float* const> all(parts, static_cast<size_t>(num_ranks()));
  threads.ParallelFor(
      n, kGrain, [&](int64_t begin, int64_t end) { SumParts(all, begin, end, accumulates, out); });
  return OkStatus();
}

Status Communicator::Send(std::span<const char> message) {
  CHECK_EQ(rank_, 0) << "the other ranks listen";
  const auto size = static_cast<int64_t>(message.size());
  RETURN_IF_ERROR(SendBytes({reinterpret_cast<const char*>(&size), sizeof(size)}));
  return SendBytes(message);
}

Status Communicator::Receive(std::vector<char>* message) {
  CHECK_NE(rank_, 0) << "who speaks does not listen";
  int64_t size = 0;
  RETURN_IF_ERROR(ReceiveBytes({reinterpret_cast<char*>(&size), sizeof(size)}));
  message->resize(static_cast<size_t>(size));
  return ReceiveBytes(*message);
}

int32_t Communicator::FullReader(uint32_t written) const {
  const auto room = static_cast<uint32_t>(shared().limits.message_bytes);
  for (int32_t reader = 1; reader < num_ranks(); ++reader) {
    if (written - shared().read[reader].word.Load() >= room) return reader;
  }
  return -1;
}

Status Communicator::SendBytes(std::span<const char> bytes) {
  const auto room = static_cast<uint32_t>(shared().limits.message_bytes);
  char* const ring = memory_ + begins_.ring;
  RETURN_IF_ERROR(state());
  while (!bytes.empty()) {
    for (int32_t full = FullReader(num_bytes_); full >= 0; full = FullReader(num_bytes_)) {
      RETURN_IF_ERROR(Waiting(*this, shared().limits.timeout_ns)
                          .For(shared().read[full].word, num_bytes_ - room + 1, full));
    }
    uint32_t most_behind = 0;
    for (int32_t reader = 1; reader < num_ranks(); ++reader) {
      most_behind = std::max(most_behind, num_bytes_ - shared().read[reader].word.Load());
    }
    // Up to the ring's end: its size need not divide the numbers, which run around.
    const size_t n = std::min<size_t>({bytes.size(), room - most_behind, room - ring_at_});
    std::memcpy(ring + ring_at_, bytes.data(), n);
    ring_at_ = static_cast<uint32_t>((ring_at_ + n) % room);
    num_bytes_ += static_cast<uint32_t>(n);
    shared().written.word.Announce(num_bytes_);
    bytes = bytes.subspan(n);
  }
  return OkStatus();
}

Status Communicator::ReceiveBytes(std::span<char> bytes) {
  const auto room = static_cast<uint32_t>(shared().limits.message_bytes);
  const char* const ring = memory_ + begins_.ring;
  while (!bytes.empty()) {
    RETURN_IF_ERROR(Waiting(*this, kForEver).For(shared().written.word, num_bytes_ + 1, 0));
    const uint32_t there = shared().written.word.Load() - num_bytes_;
    const size_t n = std::min<size_t>({bytes.size(), there, room - ring_at_});
    std::memcpy(bytes.data(), ring + ring_at_, n);
    ring_at_ = static_cast<uint32_t>((ring_at_ + n) % room);
    num_bytes_ += static_cast<uint32_t>(n);
    shared().read[rank_].word.Announce(num_bytes_);
    bytes = bytes.subspan(n);
  }
  return OkStatus();
}

void Communicator::Report(uint32_t number) { shared().reported[rank_].word.Announce(number); }

Status Communicator::AwaitReports(uint32_t number, bool hurried) {
  const int64_t timeout_ns = hurried ? shared().limits.timeout_ns : kForEver;
  for (int32_t other = 1; other < num_ranks(); ++other) {
    RETURN_IF_ERROR(Waiting(*this, timeout_ns).For(shared().reported[other].word, number, other));
  }
  return OkStatus();
}

std::span<char> Communicator::header() const {
  return {memory_, static_cast<size_t>(begins_.parts)};
}

const uint32_t* Communicator::broken() const { return shared().broken.state.word.address(); }

Status Communicator::Blame(int32_t rank) {
  return Look(rank, shared().limits.timeout_ns, shared().limits.timeout_ns);
}

Status Communicator::LookForStopped(int64_t waited_ns) {
  if (waited_ns < shared().limits.timeout_ns) return state();
  for (int32_t other = 0; other < num_ranks(); ++other) {
    const pid_t process = __atomic_load_n(&shared().processes[other], __ATOMIC_SEQ_CST);
    if (other == rank_ || process == 0 || StateOfProcess(process) != ProcessState::kStopped) {
      continue;
    }
    RETURN_IF_ERROR(Look(other, waited_ns, shared().limits.timeout_ns));
  }
  return state();
}

void Communicator::Fail(const std::string& why) { shared().failed.Say(why); }

std::string Communicator::TakeFailure() {
  std::string why = shared().failed.Hear();
  if (!why.empty()) shared().failed.state.word.Store(kNotSaid);
  return why;
}

void Communicator::Break(const std::string& why) { shared().broken.Say(why); }

Status Communicator::state() const {
  const std::string why = shared().broken.Hear();
  return why.empty() ? OkStatus() : UnavailableError(why);
}

Status Communicator::Look(int32_t rank, int64_t waited_ns, int64_t timeout_ns) {
  RETURN_IF_ERROR(state());
  const pid_t process = __atomic_load_n(&shared().processes[rank], __ATOMIC_SEQ_CST);
  const ProcessState now = process == 0 ? ProcessState::kRuns : StateOfProcess(process);
  const std::string who =
      "rank " + std::to_string(rank) + " (process " + std::to_string(process) + ")";
  // The process that started the rank may know more of its end, and is given time to say so first.
  if (now == ProcessState::kEnded && waited_ns >= kEndIsSaidNs) {
    Break(who + " has ended");
  } else if (waited_ns >= timeout_ns) {
    Break(who + (now == ProcessState::kStopped ? " is stopped and" : "") +
          " has not answered for " + std::to_string(timeout_ns / 1'000'000'000) + " s");
  }
  return state();
}

void EndRank(int32_t rank, const Status& why) {
  static std::atomic<bool> is_ending{false};
  while (is_ending.exchange(true)) pause();  // another thread has said it
  if (rank == 0) {
    LOG_ERROR("{}; the model is in all ranks together, so the server ends", why.message());
    ServerLog::Flush(std::chrono::milliseconds(500));
  }
  _exit(1);
}

}  // namespace graft
