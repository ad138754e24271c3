// Hopper's warpgroup matrix instruction: D[64, N] += A[64, 16] B[N, 16]^T, with bf16 or fp16
// operands in shared memory and fp32 sums in registers. Both operands lie as rows of 64 elements
// (128 bytes), in groups of eight rows (1 KiB, on a border of 1 KiB). The copy engine has swizzled
// the 16-byte pieces of each group (CU_TENSOR_MAP_SWIZZLE_128B). Source: PTX ISA, "Asynchronous
// warpgroup level matrix instructions". Include it only where GRAFT_HOPPER is defined
// (cuda_tma.cuh).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace graft {

// An operand: its first row begins at `address` of shared memory. Adding 2 to the result moves on
// by 16 columns.
__device__ __forceinline__ uint64_t WgmmaOperand(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kGroupBytes = uint64_t{1024 >> 4} << 32;
  constexpr uint64_t kUnused = uint64_t{1} << 16;  // the other distance has no meaning here
  return kSwizzle128 | kGroupBytes | kUnused | ((address & 0x3ffffu) >> 4);
}

// A transposed operand: shared memory has a row for each of the operand's 16 columns. Such a row
// holds 64 of the operand's rows (128 bytes). Eight of them are a swizzled group on a border of
// 1 KiB, as above. The operand's next 64 rows follow group_bytes further on.
__device__ __forceinline__ uint64_t WgmmaOperandOfRows(uint32_t address, uint32_t group_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kEightRows = uint64_t{1024 >> 4} << 32;
  return kSwizzle128 | kEightRows | uint64_t{group_bytes >> 4} << 16 | ((address & 0x3ffffu) >> 4);
}
// An operand of 16 columns that lies in shared memory as two columns of 16 bytes, column_bytes
// apart.
__device__ __forceinline__ uint64_t WgmmaOperandOfColumns(uint32_t address, uint32_t column_bytes) {
  constexpr uint64_t kEightRows = uint64_t{128 >> 4} << 32;
  return kEightRows | uint64_t{column_bytes >> 4} << 16 | ((address & 0x3ffffu) >> 4);
}

// Called before a series of products: makes registers that ordinary code wrote visible to them.
__device__ __forceinline__ void WgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void WgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending committed groups are still running.
template <int kPending>
__device__ __forceinline__ void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from reading the sums before this point.
template <int kCount>
__device__ __forceinline__ void WgmmaKeep(float (&sum)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sum[i])::"memory");
}

// All threads of a warpgroup call one of these: each thread goes down to kCount registers, or up to
// kCount by taking some that other threads gave.
template <int kCount>
__device__ __forceinline__ void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Which operand is transposed (a WgmmaOperandOfRows).
enum class WgmmaByRows { kNone, kFirst, kSecond };

// One specialisation per N. For each j < N / 8, thread t of the warpgroup holds columns 8 j + 2 (t
// % 4) + {0, 1} of row 16 (t / 32) + t % 32 / 4 in sum[4 j + {0, 1}], and the same columns of the
// row 8 below in sum[4 j + {2, 3}]. With `add` 0 the sums start from zero.
template <DType kType, int kN, WgmmaByRows kByRows = WgmmaByRows::kNone>
struct Wgmma;

// Pieces of the operand list's text, with four registers for each.
#define GRAFT_R1(a, b, c, d) "%" #a ",%" #b ",%" #c ",%" #d
#define GRAFT_T8 GRAFT_R1(0, 1, 2, 3)
#define GRAFT_T16 GRAFT_T8 "," GRAFT_R1(4, 5, 6, 7)
#define GRAFT_T24 GRAFT_T16 "," GRAFT_R1(8, 9, 10, 11)
#define GRAFT_T32 GRAFT_T24 "," GRAFT_R1(12, 13, 14, 15)
#define GRAFT_T40 GRAFT_T32 "," GRAFT_R1(16, 17, 18, 19)
#define GRAFT_T48 GRAFT_T40 "," GRAFT_R1(20, 21, 22, 23)
#define GRAFT_T56 GRAFT_T48 "," GRAFT_R1(24, 25, 26, 27)
#define GRAFT_T64 GRAFT_T56 "," GRAFT_R1(28, 29, 30, 31)
#define GRAFT_T72 GRAFT_T64 "," GRAFT_R1(32, 33, 34, 35)
#define GRAFT_T80 GRAFT_T72 "," GRAFT_R1(36, 37, 38, 39)
#define GRAFT_T88 GRAFT_T80 "," GRAFT_R1(40, 41, 42, 43)
#define GRAFT_T96 GRAFT_T88 "," GRAFT_R1(44, 45, 46, 47)
#define GRAFT_T104 GRAFT_T96 "," GRAFT_R1(48, 49, 50, 51)
#define GRAFT_T112 GRAFT_T104 "," GRAFT_R1(52, 53, 54, 55)
#define GRAFT_T120 GRAFT_T112 "," GRAFT_R1(56, 57, 58, 59)
#define GRAFT_T128 GRAFT_T120 "," GRAFT_R1(60, 61, 62, 63)
#define GRAFT_T136 GRAFT_T128 "," GRAFT_R1(64, 65, 66, 67)
#define GRAFT_T144 GRAFT_T136 "," GRAFT_R1(68, 69, 70, 71)
#define GRAFT_T152 GRAFT_T144 "," GRAFT_R1(72, 73, 74, 75)
#define GRAFT_T160 GRAFT_T152 "," GRAFT_R1(76, 77, 78, 79)
#define GRAFT_T168 GRAFT_T160 "," GRAFT_R1(80, 81, 82, 83)
#define GRAFT_T176 GRAFT_T168 "," GRAFT_R1(84, 85, 86, 87)
#define GRAFT_T184 GRAFT_T176 "," GRAFT_R1(88, 89, 90, 91)
#define GRAFT_T192 GRAFT_T184 "," GRAFT_R1(92, 93, 94, 95)
#define GRAFT_T200 GRAFT_T192 "," GRAFT_R1(96, 97, 98, 99)
#define GRAFT_T208 GRAFT_T200 "," GRAFT_R1(100, 101, 102, 103)
#define GRAFT_T216 GRAFT_T208 "," GRAFT_R1(104, 105, 106, 107)
#define GRAFT_T224 GRAFT_T216 "," GRAFT_R1(108, 109, 110, 111)
#define GRAFT_T232 GRAFT_T224 "," GRAFT_R1(112, 113, 114, 115)
#define GRAFT_T240 GRAFT_T232 "," GRAFT_R1(116, 117, 118, 119)
#define GRAFT_T248 GRAFT_T240 "," GRAFT_R1(120, 121, 122, 123)
#define GRAFT_T256 GRAFT_T248 "," GRAFT_R1(124, 125, 126, 127)

#define GRAFT_F1(i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3])
#define GRAFT_F8 GRAFT_F1(0)
#define GRAFT_F16 GRAFT_F8, GRAFT_F1(4)
#define GRAFT_F24 GRAFT_F16, GRAFT_F1(8)
#define GRAFT_F32 GRAFT_F24, GRAFT_F1(12)
#define GRAFT_F40 GRAFT_F32, GRAFT_F1(16)
#define GRAFT_F48 GRAFT_F40, GRAFT_F1(20)
#define GRAFT_F56 GRAFT_F48, GRAFT_F1(24)
#define GRAFT_F64 GRAFT_F56, GRAFT_F1(28)
#define GRAFT_F72 GRAFT_F64, GRAFT_F1(32)
#define GRAFT_F80 GRAFT_F72, GRAFT_F1(36)
#define GRAFT_F88 GRAFT_F80, GRAFT_F1(40)
#define GRAFT_F96 GRAFT_F88, GRAFT_F1(44)
#define GRAFT_F104 GRAFT_F96, GRAFT_F1(48)
#define GRAFT_F112 GRAFT_F104, GRAFT_F1(52)
#define GRAFT_F120 GRAFT_F112, GRAFT_F1(56)
#define GRAFT_F128 GRAFT_F120, GRAFT_F1(60)
#define GRAFT_F136 GRAFT_F128, GRAFT_F1(64)
#define GRAFT_F144 GRAFT_F136, GRAFT_F1(68)
#define GRAFT_F152 GRAFT_F144, GRAFT_F1(72)
#define GRAFT_F160 GRAFT_F152, GRAFT_F1(76)
#define GRAFT_F168 GRAFT_F160, GRAFT_F1(80)
#define GRAFT_F176 GRAFT_F168, GRAFT_F1(84)
#define GRAFT_F184 GRAFT_F176, GRAFT_F1(88)
#define GRAFT_F192 GRAFT_F184, GRAFT_F1(92)
#define GRAFT_F200 GRAFT_F192, GRAFT_F1(96)
#define GRAFT_F208 GRAFT_F200, GRAFT_F1(100)
#define GRAFT_F216 GRAFT_F208, GRAFT_F1(104)
#define GRAFT_F224 GRAFT_F216, GRAFT_F1(108)
#define GRAFT_F232 GRAFT_F224, GRAFT_F1(112)
#define GRAFT_F240 GRAFT_F232, GRAFT_F1(116)
#define GRAFT_F248 GRAFT_F240, GRAFT_F1(120)
#define GRAFT_F256 GRAFT_F248, GRAFT_F1(124)

#define GRAFT_WGMMA_OF(N, DTYPE, TEXT, ROWS, FLAGS, A, B, ADD)                                     \
  template <>                                                                                      \
  struct Wgmma<DTYPE, N, WgmmaByRows::ROWS> {                                                      \
    static __device__ __forceinline__ void Multiply(uint64_t a, uint64_t b, int add,               \
                                                    float (&sum)[N / 2]) {                         \
      asm volatile("{.reg .pred p; setp.ne.b32 p, " ADD                                            \
                   ", 0;\n"                                                                        \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TEXT "." TEXT " {" GRAFT_T##N \
                   "}, " A ", " B ", p, 1, 1, " FLAGS ";}"                                         \
                   : GRAFT_F##N                                                                    \
                   : "l"(a), "l"(b), "r"(add));                                                    \
    }                                                                                              \
  };
#define GRAFT_WGMMA(N, A, B, ADD)                                     \
  GRAFT_WGMMA_OF(N, DType::kBF16, "bf16", kNone, "0, 0", A, B, ADD)   \
  GRAFT_WGMMA_OF(N, DType::kBF16, "bf16", kFirst, "1, 0", A, B, ADD)  \
  GRAFT_WGMMA_OF(N, DType::kBF16, "bf16", kSecond, "0, 1", A, B, ADD) \
  GRAFT_WGMMA_OF(N, DType::kF16, "f16", kNone, "0, 0", A, B, ADD)

GRAFT_WGMMA(8, "%4", "%5", "%6")
GRAFT_WGMMA(16, "%8", "%9", "%10")
GRAFT_WGMMA(24, "%12", "%13", "%14")
GRAFT_WGMMA(32, "%16", "%17", "%18")
GRAFT_WGMMA(40, "%20", "%21", "%22")
GRAFT_WGMMA(48, "%24", "%25", "%26")
GRAFT_WGMMA(56, "%28", "%29", "%30")
GRAFT_WGMMA(64, "%32", "%33", "%34")
GRAFT_WGMMA(72, "%36", "%37", "%38")
GRAFT_WGMMA(80, "%40", "%41", "%42")
GRAFT_WGMMA(88, "%44", "%45", "%46")
GRAFT_WGMMA(96, "%48", "%49", "%50")
GRAFT_WGMMA(104, "%52", "%53", "%54")
GRAFT_WGMMA(112, "%56", "%57", "%58")
GRAFT_WGMMA(120, "%60", "%61", "%62")
GRAFT_WGMMA(128, "%64", "%65", "%66")
GRAFT_WGMMA(136, "%68", "%69", "%70")
GRAFT_WGMMA(144, "%72", "%73", "%74")
GRAFT_WGMMA(152, "%76", "%77", "%78")
GRAFT_WGMMA(160, "%80", "%81", "%82")
GRAFT_WGMMA(168, "%84", "%85", "%86")
GRAFT_WGMMA(176, "%88", "%89", "%90")
GRAFT_WGMMA(184, "%92", "%93", "%94")
GRAFT_WGMMA(192, "%96", "%97", "%98")
GRAFT_WGMMA(200, "%100", "%101", "%102")
GRAFT_WGMMA(208, "%104", "%105", "%106")
GRAFT_WGMMA(216, "%108", "%109", "%110")
GRAFT_WGMMA(224, "%112", "%113", "%114")
GRAFT_WGMMA(232, "%116", "%117", "%118")
GRAFT_WGMMA(240, "%120", "%121", "%122")
GRAFT_WGMMA(248, "%124", "%125", "%126")
GRAFT_WGMMA(256, "%128", "%129", "%130")

#undef GRAFT_WGMMA
#undef GRAFT_WGMMA_OF

// The same with bf16 and A in registers: thread t has, in a[0] and a[1], columns 2 (t % 4) and the
// next of row 16 (t / 32) + t % 32 / 4 and of the row 8 below, and in a[2] and a[3] those 8 columns
// further on. The registers are read until WgmmaWait says that the products are over.
template <int kN>
struct WgmmaOfRegisters;

#define GRAFT_WGMMA(N, A0, A1, A2, A3, B, ADD)                                                   \
  template <>                                                                                    \
  struct WgmmaOfRegisters<N> {                                                                   \
    static __device__ __forceinline__ void Multiply(const uint32_t (&a)[4], uint64_t b, int add, \
                                                    float (&sum)[N / 2]) {                       \
      asm volatile("{.reg .pred p; setp.ne.b32 p, " ADD                                          \
                   ", 0;\n"                                                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" GRAFT_T##N       \
                   "}, {" A0 ", " A1 ", " A2 ", " A3 "}, " B ", p, 1, 1, 0;}"                    \
                   : GRAFT_F##N                                                                  \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));              \
    }                                                                                            \
  };

GRAFT_WGMMA(8, "%4", "%5", "%6", "%7", "%8", "%9")
GRAFT_WGMMA(16, "%8", "%9", "%10", "%11", "%12", "%13")
GRAFT_WGMMA(32, "%16", "%17", "%18", "%19", "%20", "%21")
GRAFT_WGMMA(64, "%32", "%33", "%34", "%35", "%36", "%37")
GRAFT_WGMMA(128, "%64", "%65", "%66", "%67", "%68", "%69")

#undef GRAFT_WGMMA

}  // namespace graft
