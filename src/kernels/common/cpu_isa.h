// Instruction sets chosen at run time. Each op_cpu.cc is compiled once per set into its own
// namespace (cmake/graft.cmake, graft_cpu_op); op.cc declares the copies with GRAFT_CPU_OP and
// calls the best one that this machine runs. op_cpu.cc keeps to intrinsics, kernels/common/simd.h
// and file-local functions: an inline function of a library, compiled for AVX-512 and picked by the
// linker for all callers, would crash older machines.
#pragma once

#include "base/status.h"
#include "tensor/stream.h"

// The namespace of the copy being compiled.
#if defined(GRAFT_ISA_AVX512)
#define GRAFT_CPU_NAMESPACE cpu_avx512
#elif defined(GRAFT_ISA_AVX2)
#define GRAFT_CPU_NAMESPACE cpu_avx2
#else
#define GRAFT_CPU_NAMESPACE cpu_portable
#endif

// The one copy of a program that has no other (GRAFT_CPU_ISAS=native, or no x86-64).
#if defined(GRAFT_ONLY_AVX512)
#define GRAFT_ONLY_CPU_ISA kAvx512
#define GRAFT_ONLY_CPU_COPY cpu_avx512
#elif defined(GRAFT_ONLY_AVX2)
#define GRAFT_ONLY_CPU_ISA kAvx2
#define GRAFT_ONLY_CPU_COPY cpu_avx2
#elif defined(GRAFT_ONLY_PORTABLE)
#define GRAFT_ONLY_CPU_ISA kPortable
#define GRAFT_ONLY_CPU_COPY cpu_portable
#endif

namespace graft {

enum class CpuIsa : int { kPortable = 0, kAvx2 = 1, kAvx512 = 2 };  // AVX-512: F, BW, DQ, VL

// The best set that this machine runs and GRAFT_CPU_ISA (portable, avx2, avx512) allows; a
// program's only one.
CpuIsa BestCpuIsa();
// FAILED_PRECONDITION where the program's only copy is for another processor than this one.
Status CheckCpuRunsKernels();
// The set in use; BestCpuIsa() unless a test overrides it.
CpuIsa ActiveCpuIsa();
const char* CpuIsaName(CpuIsa isa);
// AVX512_BF16 (vdpbf16ps): checked at run time by the ops that use it, inside their AVX-512 copy.
bool CpuHasAvx512Bf16();

// AVX512_VNNI (vpdpbusd), checked as that is.
bool CpuHasAvx512Vnni();

// Forces a set not above BestCpuIsa() for a scope. Tests only; not thread-safe.
class ScopedCpuIsa {
 public:
  explicit ScopedCpuIsa(CpuIsa isa);
  ~ScopedCpuIsa();

 private:
  CpuIsa before_;
};

}  // namespace graft

// Declares the compiled copies of `Op(const Args&, Stream&)` and defines OpCpu, which picks one.
#if defined(GRAFT_ONLY_CPU_COPY)
#define GRAFT_CPU_OP(Op, Args)                                   \
  namespace GRAFT_ONLY_CPU_COPY {                                \
  void Op(const Args& args, Stream& stream);                     \
  }                                                              \
  static inline void Op##Cpu(const Args& args, Stream& stream) { \
    GRAFT_ONLY_CPU_COPY::Op(args, stream);                       \
  }
#else
#define GRAFT_CPU_OP(Op, Args)                                   \
  namespace cpu_portable {                                       \
  void Op(const Args& args, Stream& stream);                     \
  }                                                              \
  namespace cpu_avx2 {                                           \
  void Op(const Args& args, Stream& stream);                     \
  }                                                              \
  namespace cpu_avx512 {                                         \
  void Op(const Args& args, Stream& stream);                     \
  }                                                              \
  static inline void Op##Cpu(const Args& args, Stream& stream) { \
    switch (ActiveCpuIsa()) {                                    \
      case CpuIsa::kAvx512:                                      \
        return cpu_avx512::Op(args, stream);                     \
      case CpuIsa::kAvx2:                                        \
        return cpu_avx2::Op(args, stream);                       \
      case CpuIsa::kPortable:                                    \
        return cpu_portable::Op(args, stream);                   \
    }                                                            \
  }
#endif

// Declares the CPU copies and `OpCuda` (op_cuda.cu) and defines OpOnDevice, which picks by the
// stream's device.
#define GRAFT_OP(Op, Args)                                            \
  GRAFT_CPU_OP(Op, Args)                                              \
  void Op##Cuda(const Args& args, Stream& stream);                    \
  static inline void Op##OnDevice(const Args& args, Stream& stream) { \
    if (stream.device.is_cpu()) return Op##Cpu(args, stream);         \
    if constexpr (kHasCuda) Op##Cuda(args, stream);                   \
  }
