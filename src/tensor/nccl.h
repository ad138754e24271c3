// NCCL among the ranks of a model, one GPU each. The library is opened only when it is asked for,
// since the program runs without it. It moves bytes. Its order of summing may change with a
// message's size, so its sums are used only for comparison.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "tensor/communicator.h"
#include "tensor/device.h"
#include "tensor/stream.h"

namespace graft {

class Nccl {
 public:
  // All ranks call it at the same time. kFailedPrecondition says what is missing, on the ranks
  // where it is missing; ranks that wait for those are told by the communicator.
  static Result<std::unique_ptr<Nccl>> Join(Communicator& communicator, const Device& device);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // Launches, in the same order on all ranks. On every rank, all [num_ranks, n] gets every rank's
  // part [n]; out [n] the sum of the parts.
  void AllGather(const float* part, float* all, int64_t n, const Stream& stream);
  void AllReduce(const float* part, float* out, int64_t n, const Stream& stream);

 private:
  struct Library;
  Nccl() = default;

  const Library* library_ = nullptr;
  void* group_ = nullptr;  // ncclComm_t
};

}  // namespace graft
