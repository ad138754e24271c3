#include "kernels/common/cpu_isa.h"

#include <cstdlib>
#include <string>
#include <string_view>

namespace graft {
namespace {

CpuIsa MachineIsa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return CpuIsa::kAvx512;
  }
  // F16C is older than AVX2 and in every processor that has it; clang 14 cannot ask for it.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return CpuIsa::kAvx2;
  }
#endif
  return CpuIsa::kPortable;
}

CpuIsa& Active() {
  static CpuIsa isa = BestCpuIsa();
  return isa;
}

}  // namespace

#if defined(GRAFT_ONLY_CPU_ISA)
Status CheckCpuRunsKernels() {
  if (MachineIsa() >= CpuIsa::GRAFT_ONLY_CPU_ISA) return OkStatus();
  return FailedPreconditionError(std::string("this program was built for processors with ") +
                                 CpuIsaName(CpuIsa::GRAFT_ONLY_CPU_ISA) +
                                 " alone, which this one is not; make build builds it for all");
}

CpuIsa BestCpuIsa() { return CpuIsa::GRAFT_ONLY_CPU_ISA; }
#else
namespace {

CpuIsa DetectIsa() {
  const CpuIsa machine = MachineIsa();
  const char* text = std::getenv("GRAFT_CPU_ISA");
  if (text == nullptr) return machine;
  CpuIsa wanted = machine;
  if (std::string_view(text) == "portable") wanted = CpuIsa::kPortable;
  if (std::string_view(text) == "avx2") wanted = CpuIsa::kAvx2;
  return wanted < machine ? wanted : machine;
}

}  // namespace

Status CheckCpuRunsKernels() { return OkStatus(); }

CpuIsa BestCpuIsa() {
  static const CpuIsa isa = DetectIsa();
  return isa;
}
#endif

CpuIsa ActiveCpuIsa() { return Active(); }

const char* CpuIsaName(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable:
      return "portable";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
  }
  return "?";
}

bool CpuHasAvx512Bf16() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512bf16") != 0;
  return has;
#else
  return false;
#endif
}

bool CpuHasAvx512Vnni() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512vnni") != 0;
  return has;
#else
  return false;
#endif
}

ScopedCpuIsa::ScopedCpuIsa(CpuIsa isa) : before_(Active()) {
  CHECK(isa <= BestCpuIsa()) << "this machine does not run " << CpuIsaName(isa);
  Active() = isa;
}

ScopedCpuIsa::~ScopedCpuIsa() { Active() = before_; }

}  // namespace graft
