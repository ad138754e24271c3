// Words in memory by which kernels that run at the same time tell each other what is there. Nobody
// resets them: what is said is a number that changes from launch to launch.
#pragma once

#include <cstdint>

namespace graft {

// After all that this thread wrote, or knows to have been written.
__device__ __forceinline__ void SayWord(uint32_t* word, uint32_t value) {
  asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
// Whoever hears what was said may read what was written before it was.
__device__ __forceinline__ uint32_t HearWord(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

}  // namespace graft
