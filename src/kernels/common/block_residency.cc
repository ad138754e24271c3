#include "kernels/common/block_residency.h"

#include <algorithm>

#include "base/check.h"

namespace graft {
namespace {

constexpr int kWarp = 32;
// The system has so much of the shared memory for each block, and gives it out in such units.
constexpr int kSystemBytes = 1 << 10;
constexpr int kUnitBytes = 128;

int RoundUp(int n, int unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

int BlocksThatFit(const DeviceTraits& traits, const BlockNeeds& block) {
  const int bytes = RoundUp(block.static_bytes + block.dynamic_bytes + kSystemBytes, kUnitBytes);
  return std::min({traits.shared_bytes_of_multiprocessor / bytes,
                   traits.threads_of_multiprocessor / RoundUp(block.threads, kWarp),
                   traits.blocks_of_multiprocessor});
}

int PaddedBytes(const BlockNeeds& block, int num_blocks, int shared_bytes) {
  CHECK_GT(num_blocks, 0);
  // Just too much for one block more.
  const int bytes = RoundUp(shared_bytes / (num_blocks + 1) + 1, kUnitBytes);
  CHECK_LE(bytes * num_blocks, shared_bytes);
  return std::max(block.dynamic_bytes, bytes - kSystemBytes - block.static_bytes);
}

}  // namespace graft
