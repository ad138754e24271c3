#include "kernels/common/simd.h"
#include "kernels/common/unroll.h"
#include "kernels/peak/peak.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// Enough independent sums to keep two multiply-add units of latency 4 busy.
constexpr int kSums = 12;

// The largest of all lanes: the cheapest use of every byte that has no slow operands.
void Read(const PeakArgs& args) {
  constexpr int kVecs = 256 / (Vec::kLanes * 4);
  constexpr int64_t kFetchBytes = 12288;
  Vec largest[kVecs];
  Unroll<kVecs>([&](auto v) { largest[v] = Vec::Zero(); });
  for (int64_t i = 0; i < args.bytes; i += 256) {
    const char* p = args.memory + i;
    Unroll<4>([&](auto line) { __builtin_prefetch(p + kFetchBytes + line * 64, 0, 2); });
    Unroll<kVecs>([&](auto v) {
      const float* lanes = reinterpret_cast<const float*>(p) + v * Vec::kLanes;
      largest[v] = Max(largest[v], Vec::Load(lanes));
    });
  }
  Vec total = largest[0];
  for (int v = 1; v < kVecs; ++v) total = Max(total, largest[v]);
  *args.sink = total.Max();
}

void MultiplyAdd(const PeakArgs& args) {
  Vec sum[kSums];
  Unroll<kSums>([&](auto i) { sum[i] = Vec::Set(static_cast<float>(int{i})); });
  const Vec factor = Vec::Set(0.5f);
  double operations = 2.0 * kSums * Vec::kLanes;
#if defined(GRAFT_ISA_AVX512)
  if (args.dtype == DType::kBF16 && CpuHasAvx512Bf16()) {
    operations *= 2.0;
    const __m512i pairs = _mm512_set1_epi32(0x3e803e80);  // 0.25, 0.25
    for (int64_t n = 0; n < args.iterations; ++n) {
      Unroll<kSums>([&](auto i) { sum[i] = DotBf16(pairs, pairs, sum[i]); });
    }
  } else
#endif
  {
    for (int64_t n = 0; n < args.iterations; ++n) {
      Unroll<kSums>([&](auto i) { sum[i] = Fma(sum[i], factor, factor); });
    }
  }
  Vec total = sum[0];
  for (int i = 1; i < kSums; ++i) total = total + sum[i];
  *args.sink = total.Sum();
  *args.operations = operations * static_cast<double>(args.iterations);
}

}  // namespace

void Peak(const PeakArgs& args, Stream&) {
  if (args.memory != nullptr) {
    Read(args);
  } else {
    MultiplyAdd(args);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
