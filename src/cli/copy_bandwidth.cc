#include "cli/copy_bandwidth.h"

#include <algorithm>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"
#include "tensor/stream_timer.h"

namespace graft {

double MeasureCopyGbytesPerSecond(const Stream& stream) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  constexpr int kWarmUps = 2;
  constexpr int kReadings = 9;
  Buffer from(kBytes, stream.device);
  Buffer to(kBytes, stream.device);
  std::vector<double> rates;
  for (int i = 0; i < kWarmUps + kReadings; ++i) {
    StreamTimer timer(stream);
    int64_t ns = 0;
    {
      const StreamTimer::Scope scope(&timer, &ns);
      CopyOnDevice(to.data(), from.data(), kBytes, stream);
    }
    timer.Collect();
    if (i >= kWarmUps) rates.push_back(2.0 * kBytes / static_cast<double>(ns));
  }
  std::nth_element(rates.begin(), rates.begin() + kReadings / 2, rates.end());
  return rates[kReadings / 2];
}

}  // namespace graft
