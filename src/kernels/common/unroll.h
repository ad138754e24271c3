// Unroll<n>(f): f(Index<0>), ..., f(Index<n - 1>), expanded while compiling, so that arrays of Vec
// indexed by it become registers. A loop with a pragma is unrolled too late for that under gcc 12.
// Include from op_cpu.cc files only (simd.h).
#pragma once

#include "kernels/common/cpu_isa.h"

namespace graft::GRAFT_CPU_NAMESPACE {

template <int kValue>
struct Index {
  static constexpr int value = kValue;
  constexpr operator int() const { return kValue; }  // NOLINT: an index is its value
};

template <int kCount, int kFirst = 0, typename Function>
__attribute__((always_inline)) inline void Unroll(const Function& function) {
  if constexpr (kFirst < kCount) {
    function(Index<kFirst>{});
    Unroll<kCount, kFirst + 1>(function);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
