// A 32-bit word in memory that processes share. It has one writer, which may wake the threads that
// sleep until it changes. Numbers wrap around: of two numbers less than half of the range apart,
// the later one is known. Any thread.
#pragma once

#include <cstdint>

namespace graft {

class SharedWord {
 public:
  uint32_t Load() const { return __atomic_load_n(&value_, __ATOMIC_SEQ_CST); }
  void Store(uint32_t value) { __atomic_store_n(&value_, value, __ATOMIC_SEQ_CST); }
  // Stores `value` if the word is `expected`; false: it is another.
  bool Replace(uint32_t expected, uint32_t value) {
    return __atomic_compare_exchange_n(&value_, &expected, value, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
  }
  // Stores, and wakes the threads that sleep for the word.
  void Announce(uint32_t value);
  // Returns when the word is not `seen` any more, or after `timeout_ns`, or now and then for no
  // reason.
  void SleepWhile(uint32_t seen, int64_t timeout_ns) const;
  // For a GPU, which cannot call the above.
  const uint32_t* address() const { return &value_; }
  bool HasReached(uint32_t number) const { return static_cast<int32_t>(Load() - number) >= 0; }

 private:
  uint32_t value_ = 0;
  mutable uint32_t num_sleeping_ = 0;
};

}  // namespace graft
