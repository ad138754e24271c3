// One thread per sixteen bytes, so that all of the host's memory is asked for at once. blockIdx.y
// is the range.
#include <algorithm>
#include <cstddef>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/small_copy/small_copy.h"

namespace graft {
namespace {

constexpr int kThreads = 128;
constexpr int kVectorBytes = 16;
constexpr size_t kRangesMax = 24;  // of one launch

struct Pieces {
  char* target;
  const char* source;
  bool vectors;  // both pointers lie on 16-byte borders
  ByteRange ranges[kRangesMax];
};

__global__ void __launch_bounds__(kThreads) SmallCopyKernel(const __grid_constant__ Pieces pieces) {
  const ByteRange range = pieces.ranges[blockIdx.y];
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  // A thread's bytes begin on a border; the first ones may begin before the range.
  int64_t begin = (range.begin / kVectorBytes + thread) * kVectorBytes;
  const int64_t end = min(begin + kVectorBytes, range.end);
  begin = max(begin, range.begin);
  WaitForPrevious();
  if (pieces.vectors && end - begin == kVectorBytes) {
    *reinterpret_cast<uint4*>(pieces.target + begin) =
        __ldcv(reinterpret_cast<const uint4*>(pieces.source + begin));
  } else {
    for (; begin < end; ++begin) pieces.target[begin] = __ldcv(pieces.source + begin);
  }
  // No kernel begins before this one's end. One that then begins may read the target without
  // waiting.
  __threadfence();
}

}  // namespace

void SmallCopyCuda(const SmallCopyArgs& args, Stream& stream) {
  for (size_t first = 0; first < args.ranges.size(); first += kRangesMax) {
    const auto ranges =
        args.ranges.subspan(first, std::min(kRangesMax, args.ranges.size() - first));
    Pieces pieces{.target = static_cast<char*>(args.target),
                  .source = static_cast<const char*>(args.source),
                  .vectors = IsVectorAligned(args.target) && IsVectorAligned(args.source)};
    std::ranges::copy(ranges, pieces.ranges);
    int64_t vectors_max = 0;
    for (const auto [begin, end] : ranges) {
      vectors_max = std::max(vectors_max, CeilDiv(end, kVectorBytes) - begin / kVectorBytes);
    }
    const dim3 grid = GridOf(CeilDiv(vectors_max, kThreads), static_cast<int64_t>(ranges.size()));
    LaunchKernel(SmallCopyKernel, grid, dim3(kThreads), 0, CudaStreamOf(stream), pieces);
  }
}

}  // namespace graft
