// Words in memory by which kernels that run at the same time tell each other what is ready. Nothing
// resets them: each launch writes a number that differs from the last one's.
#pragma once

#include <cstdint>

namespace graft {

// Writes the word after everything that this thread wrote, or knows to have been written.
__device__ __forceinline__ void SayWord(uint32_t* word, uint32_t value) {
  asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
// A thread that hears a value may read everything that was written before the value.
__device__ __forceinline__ uint32_t HearWord(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

}  // namespace graft
