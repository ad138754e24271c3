#include <cuda_runtime.h>

#include <compare>
#include <map>
#include <mutex>

#include "kernels/common/block_residency.h"
#include "tensor/cuda_check.h"

namespace graft {
namespace {

Device CurrentDevice() {
  int index = 0;
  CUDA_CHECK(cudaGetDevice(&index));
  return {DeviceKind::kCuda, index};
}

int AttributeOfCard(cudaDeviceAttr attribute, const Device& device) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device.index));
  return value;
}

struct AskedLaunch {
  int device = 0;
  const void* kernel = nullptr;
  int threads = 0;
  size_t dynamic_bytes = 0;
  auto operator<=>(const AskedLaunch&) const = default;
};

struct Residency {
  int blocks = 0;         // on each multiprocessor
  int dynamic_bytes = 0;  // to ask for, that there are no more
  int allowed_bytes = 0;  // of dynamic shared memory, that the card has for the kernel
};

int BlocksOnCard(const AskedLaunch& launch, int dynamic_bytes) {
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, launch.kernel, launch.threads,
                                                           static_cast<size_t>(dynamic_bytes)));
  return blocks;
}

void Allow(const void* kernel, int bytes) {
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

Residency ResidencyOf(const AskedLaunch& launch, const Device& device) {
  const DeviceTraits& traits = TraitsOf(device);
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, launch.kernel));
  const BlockNeeds block = {.threads = launch.threads,
                            .static_bytes = static_cast<int>(attributes.sharedSizeBytes),
                            .dynamic_bytes = static_cast<int>(launch.dynamic_bytes)};
  CHECK_LE(block.static_bytes + block.dynamic_bytes, traits.shared_bytes_max)
      << "bytes of shared memory for a block of " << launch.threads << " threads"
      << (traits.is_forced() ? ", standing in for " + std::string(traits.stands_in_for) : "");
  Residency found = {
      .dynamic_bytes = block.dynamic_bytes,
      .allowed_bytes =
          AttributeOfCard(cudaDevAttrMaxSharedMemoryPerBlockOptin, device) - block.static_bytes};
  Allow(launch.kernel, found.allowed_bytes);  // else more than 48 KiB would be an error
  found.blocks = BlocksOnCard(launch, block.dynamic_bytes);
  if (!traits.is_forced() || found.blocks <= BlocksThatFit(traits, block)) return found;
  found.blocks = BlocksThatFit(traits, block);
  found.dynamic_bytes = PaddedBytes(
      block, found.blocks, AttributeOfCard(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  CHECK_LE(BlocksOnCard(launch, found.dynamic_bytes), found.blocks);
  return found;
}

// Asking takes microseconds, and launches of a kernel are of few kinds.
const Residency& KnownResidency(const AskedLaunch& launch, const Device& device) {
  static std::mutex mutex;
  static std::map<AskedLaunch, Residency> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find(launch);
  if (found != known.end()) return found->second;
  return known.emplace(launch, ResidencyOf(launch, device)).first->second;
}

}  // namespace

size_t SharedBytesToLaunch(const void* kernel, int threads, size_t dynamic_bytes) {
  const Device device = CurrentDevice();
  if (!TraitsOf(device).is_forced()) return dynamic_bytes;
  const Residency& residency =
      KnownResidency({device.index, kernel, threads, dynamic_bytes}, device);
  // A launcher may have set it to what its kernel needs since.
  Allow(kernel, residency.allowed_bytes);
  return static_cast<size_t>(residency.dynamic_bytes);
}

int ResidentBlocksOf(const void* kernel, int threads, size_t dynamic_bytes) {
  const Device device = CurrentDevice();
  return KnownResidency({device.index, kernel, threads, dynamic_bytes}, device).blocks;
}

}  // namespace graft
