// The RankExchanges of ranks on GPUs. All of them sum by the same kernels (kernels/rank_sum), in
// rank order; they differ in how what the ranks wrote comes to where these read it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "layers/rank_exchange.h"
#include "tensor/communicator.h"
#include "tensor/device.h"

namespace graft {

// How GPUs' ranks exchange: kernels read each other's memory; NCCL brings it; or the first of these
// that works.
enum class RankTransport : uint8_t { kAuto, kPeer, kNccl };

struct GpuExchangeLimits {
  int64_t part_floats = 0;  // PartFloatsOf
  int32_t tokens_max = 0;   // of a step
};

// How each transport is set up, on this rank.
struct ExchangeMakers {
  std::function<Result<std::unique_ptr<RankExchange>>()> peers;
  std::function<Result<std::unique_ptr<RankExchange>>()> nccl;
};
// The exchange that `transport` asks for. kAuto: GPUs that do not reach each other's memory, as
// GeForce cards and cards of two sockets may not, take NCCL, and rank 0 logs why; where there is
// none, the error has both reasons.
Result<std::unique_ptr<RankExchange>> FirstExchange(RankTransport transport,
                                                    const ExchangeMakers& makers);

// FirstExchange of these GPUs. GRAFT_PEERS_OFF makes them act as if they did not reach each other.
// All ranks call it at the same time, with the same limits. Borrows the communicator, which tells
// why a rank does not come. kFailedPrecondition says what stands in the way.
Result<std::unique_ptr<RankExchange>> MakeGpuExchange(Communicator& communicator,
                                                      const Device& device,
                                                      const GpuExchangeLimits& limits,
                                                      RankTransport transport);
// What it allocates on the GPU, at most.
int64_t GpuExchangeBytes(const GpuExchangeLimits& limits, int32_t num_ranks);

// What an exchange between GPUs is said to take, beside the kernels that sum: `us` for each, and
// what a rank receives of the others at so many GB/s (0: no time).
struct LinkModel {
  double us = 0.0;
  double gbytes_per_s = 0.0;
  int64_t DelayNs(int64_t bytes) const;
};

// One rank that computes as if there were others: it takes its own parts for theirs, and the link's
// time for theirs. On a CPU, too, where the link takes no time.
std::unique_ptr<RankExchange> MakeModelledExchange(int32_t num_ranks, const Device& device,
                                                   const GpuExchangeLimits& limits,
                                                   const LinkModel& link);

}  // namespace graft
