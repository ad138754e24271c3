#include <cstring>

#include "kernels/common/simd.h"
#include "kernels/small_copy/small_copy.h"

namespace graft::GRAFT_CPU_NAMESPACE {

void SmallCopy(const SmallCopyArgs& args, Stream& /*stream*/) {
  for (const auto [begin, end] : args.ranges) {
    std::memcpy(static_cast<char*>(args.target) + begin,
                static_cast<const char*>(args.source) + begin, static_cast<size_t>(end - begin));
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
