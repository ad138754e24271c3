#include <array>
#include <cstdlib>
#include <mutex>

#include "tensor/cuda_check.h"
#include "tensor/device_traits.h"

namespace graft {
namespace {

constexpr int kDevicesMax = 64;

int AttributeOf(cudaDeviceAttr attribute, const Device& device) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device.index));
  return value;
}

// Both edges of a clock of so many kHz move a bit of each line. Virtual machines may hide it.
double MemoryGbytesPerSecond(const Device& device) {
  const double khz = AttributeOf(cudaDevAttrMemoryClockRate, device);
  const double lines = AttributeOf(cudaDevAttrGlobalMemoryBusWidth, device);
  return 2.0 * khz * 1e3 * lines / 8.0 / 1e9;
}

DeviceTraits AskTraits(const Device& device) {
  const DeviceTraits card = {
      .compute = 10 * AttributeOf(cudaDevAttrComputeCapabilityMajor, device) +
                 AttributeOf(cudaDevAttrComputeCapabilityMinor, device),
      .num_multiprocessors = AttributeOf(cudaDevAttrMultiProcessorCount, device),
      .shared_bytes_max = AttributeOf(cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
      .shared_bytes_of_multiprocessor =
          AttributeOf(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device),
      .threads_of_multiprocessor = AttributeOf(cudaDevAttrMaxThreadsPerMultiProcessor, device),
      .l2_bytes = AttributeOf(cudaDevAttrL2CacheSize, device),
      .blocks_of_multiprocessor = AttributeOf(cudaDevAttrMaxBlocksPerMultiprocessor, device),
      .memory_gbytes_per_s = MemoryGbytesPerSecond(device)};
  const DeviceTraits traits = TraitsOfCard(card, GRAFT_CUDA_ARCHITECTURES);
  const char* const family = std::getenv("GRAFT_GPU_FAMILY");
  return family == nullptr ? traits : LoweredTo(family, traits);
}

}  // namespace

const DeviceTraits& TraitsOf(const Device& device) {
  static constexpr DeviceTraits kCpu;
  if (device.is_cpu()) return kCpu;
  static std::array<DeviceTraits, kDevicesMax> traits;
  static std::array<std::once_flag, kDevicesMax> asked;
  CHECK(device.index >= 0 && device.index < kDevicesMax) << device.ToString();
  std::call_once(asked[device.index], [&] { traits[device.index] = AskTraits(device); });
  return traits[device.index];
}

}  // namespace graft
