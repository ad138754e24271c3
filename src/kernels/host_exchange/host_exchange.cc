#include "kernels/host_exchange/host_exchange.h"

#include <sched.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(HostExport, HostExportArgs)
GRAFT_OP(HostAdd, HostAddArgs)
void HostWaitCuda(const HostWaitArgs& args, Stream& stream);

namespace {

void CheckRows(const HostSegments& rows) {
  CHECK(rows.count >= 0 && rows.count <= kHostSegmentsMax) << rows.count;
  int32_t row = 0;
  for (int32_t i = 0; i < rows.count; ++i) {
    const HostSegments::Segment& segment = rows.segments[i];
    CHECK(row <= segment.row_begin && segment.row_begin <= segment.row_end)
        << "segment " << i << ": rows [" << segment.row_begin << ", " << segment.row_end
        << ") after row " << row;
    row = segment.row_end;
  }
}

// The caller's core may be the one that a worker waits for.
void WaitOnCpu(const HostWaitArgs& args) {
  constexpr int64_t kAwakeNs = 300'000;
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  for (int32_t i = 0; i < args.num_flags; ++i) {
    const uint32_t* const flag = args.flags + i * args.flag_stride;
    while (!HasReached(__atomic_load_n(flag, __ATOMIC_ACQUIRE), args.step)) {
      if (SteadyClock::Get().NowNs() - begin_ns < kAwakeNs) {
        sched_yield();
      } else {
        const timespec pause = {0, 20'000};
        nanosleep(&pause, nullptr);
      }
    }
  }
}

}  // namespace

void HostExport(const HostExportArgs& args, Stream& stream) {
  CheckRows(args.rows);
  CHECK(args.flag != nullptr && args.k > 0);
  CHECK(stream.device.is_cpu() || args.num_done != nullptr);
  HostExportOnDevice(args, stream);
  // The CPU's copies leave the flag to this file, which sanitizers watch.
  if (stream.device.is_cpu()) __atomic_store_n(args.flag, args.step, __ATOMIC_RELEASE);
}

void HostWait(const HostWaitArgs& args, Stream& stream) {
  CHECK(args.num_flags >= 0 && args.num_flags <= kHostFlagsMax) << args.num_flags;
  if (args.num_flags == 0) return;
  if (stream.device.is_cpu()) return WaitOnCpu(args);
  if constexpr (kHasCuda) HostWaitCuda(args, stream);
}

void HostAdd(const HostAddArgs& args, Stream& stream) {
  CheckRows(args.rows);
  CHECK(args.num_slices >= 1 && args.num_slices <= kLoraSlicesMax) << args.num_slices;
  HostAddOnDevice(args, stream);
}

}  // namespace graft
