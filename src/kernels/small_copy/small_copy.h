// SmallCopy: some kilobytes of the host into the device's memory, by a kernel that reads them where
// they lie. It begins later than a copy engine does, but those serve one stream's copies as long as
// it has more: behind an adapter on its way a step waited for its rows until all of that was there.
//
// All of it is there before anything launched later begins, also what looks at its arguments before
// the kernels in front of it have ended (common/cuda_launch.cuh).
#pragma once

#include <cstdint>
#include <span>

#include "tensor/stream.h"

namespace graft {

struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

struct SmallCopyArgs {
  void* target = nullptr;
  const void* source = nullptr;       // of a GPU: a PinnedBuffer's, or of its own
  std::span<const ByteRange> ranges;  // of both; not empty ones. In the host's memory
};

void SmallCopy(const SmallCopyArgs& args, Stream& stream);

}  // namespace graft
