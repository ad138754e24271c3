#include "tensor/shared_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace graft {

// A thread that is about to sleep counts itself first and compares then: either it finds the new
// value, or this call finds it counted.
void SharedWord::Announce(uint32_t value) {
  Store(value);
  if (__atomic_load_n(&num_sleeping_, __ATOMIC_SEQ_CST) == 0) return;
  syscall(SYS_futex, &value_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedWord::SleepWhile(uint32_t seen, int64_t timeout_ns) const {
  const timespec timeout = {static_cast<time_t>(timeout_ns / 1'000'000'000),
                            timeout_ns % 1'000'000'000};
  __atomic_add_fetch(&num_sleeping_, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &value_, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  __atomic_sub_fetch(&num_sleeping_, 1, __ATOMIC_SEQ_CST);
}

}  // namespace graft
