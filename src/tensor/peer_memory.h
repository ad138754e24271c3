// PeerMemory: memory on the GPU of each of several ranks, which the kernels of all of them read and
// write. A rank is a process with its own GPU, or with a share of one. The memory is freed with the
// object, when no rank's kernels use it any more.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/buffer.h"
#include "tensor/communicator.h"
#include "tensor/device.h"

namespace graft {

class PeerMemory {
 public:
  // All ranks call it at the same time and for as many bytes, zeroed. Where one cannot reach
  // another's memory, all get the same kFailedPrecondition, which names the two.
  static Result<PeerMemory> Share(Communicator& communicator, const Device& device, int64_t bytes);

  PeerMemory(PeerMemory&& other) noexcept
      : own_(std::move(other.own_)),
        blocks_(std::move(other.blocks_)),
        mapped_(std::exchange(other.mapped_, {})) {}
  PeerMemory& operator=(PeerMemory&&) = delete;
  ~PeerMemory();

  // Where this rank's kernels find the memory of `rank`.
  char* of(int32_t rank) const { return blocks_[static_cast<size_t>(rank)]; }

 private:
  explicit PeerMemory(Buffer own) : own_(std::move(own)) {}
  Status Map(const Communicator& communicator, const Device& device);

  Buffer own_;
  std::vector<char*> blocks_;  // by rank
  std::vector<void*> mapped_;  // of others
};

}  // namespace graft
