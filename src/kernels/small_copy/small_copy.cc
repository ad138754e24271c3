#include "kernels/small_copy/small_copy.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(SmallCopy, SmallCopyArgs)

void SmallCopy(const SmallCopyArgs& args, Stream& stream) {
  if (args.ranges.empty()) return;
  CHECK(args.target != nullptr && args.source != nullptr);
  for (const ByteRange& range : args.ranges) {
    CHECK(range.begin >= 0 && range.begin < range.end)
        << "bytes " << range.begin << " to " << range.end;
  }
  SmallCopyOnDevice(args, stream);
}

}  // namespace graft
