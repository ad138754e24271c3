#include <unistd.h>

#include <cstring>
#include <string>

#include "tensor/cuda_check.h"
#include "tensor/cuda_memory.h"
#include "tensor/peer_memory.h"

namespace graft {
namespace {

// What a rank tells the others of its memory.
struct Offer {
  cudaIpcMemHandle_t handle;
  int32_t device;
  pid_t process;
  char* address;  // in that process
};

// What a rank found: "" where it reaches all.
struct Verdict {
  char problem[512];
};

// No driver gives others a part of what it hands out at once.
constexpr int64_t kGranularity = int64_t{2} << 20;

template <typename T>
Status Tell(Communicator& communicator, const T& value) {
  CHECK_LE(static_cast<int64_t>(sizeof(T)),
           communicator.part_floats() * static_cast<int64_t>(sizeof(float)));
  std::memcpy(communicator.part(), &value, sizeof(T));
  return communicator.Exchange();
}

template <typename T>
T ToldBy(const Communicator& communicator, int32_t rank) {
  T value;
  std::memcpy(&value, communicator.part_of(rank), sizeof(T));
  return value;
}

std::string NameOf(int32_t rank, int32_t device) {
  return "rank " + std::to_string(rank) + " (cuda:" + std::to_string(device) + ")";
}

}  // namespace

Result<PeerMemory> PeerMemory::Share(Communicator& communicator, const Device& device,
                                     int64_t bytes) {
  UseDevice(device);
  PeerMemory memory(Buffer((bytes + kGranularity - 1) / kGranularity * kGranularity, device));
  Offer offer = {
      .handle = {}, .device = device.index, .process = getpid(), .address = memory.own_.as<char>()};
  CUDA_CHECK(cudaIpcGetMemHandle(&offer.handle, memory.own_.data()));
  RETURN_IF_ERROR(Tell(communicator, offer));
  const Status mapped = memory.Map(communicator, device);
  Verdict verdict = {};
  std::strncpy(verdict.problem, mapped.message().c_str(), sizeof(verdict.problem) - 1);
  RETURN_IF_ERROR(Tell(communicator, verdict));
  for (int32_t rank = 0; rank < communicator.num_ranks(); ++rank) {
    const Verdict told = ToldBy<Verdict>(communicator, rank);
    if (told.problem[0] != '\0') return FailedPreconditionError(told.problem);
  }
  return memory;
}

Status PeerMemory::Map(const Communicator& communicator, const Device& device) {
  for (int32_t rank = 0; rank < communicator.num_ranks(); ++rank) {
    const Offer offer = ToldBy<Offer>(communicator, rank);
    if (offer.process == getpid()) {
      blocks_.push_back(offer.address);
      continue;
    }
    int reaches = offer.device == device.index ? 1 : 0;
    if (reaches == 0) CUDA_CHECK(cudaDeviceCanAccessPeer(&reaches, device.index, offer.device));
    const std::string both =
        NameOf(communicator.rank(), device.index) + " and " + NameOf(rank, offer.device);
    if (reaches == 0) return FailedPreconditionError(both + " do not reach each other's memory");
    void* block = nullptr;
    const cudaError_t error =
        cudaIpcOpenMemHandle(&block, offer.handle, cudaIpcMemLazyEnablePeerAccess);
    if (error != cudaSuccess) {
      cudaGetLastError();
      return FailedPreconditionError(both + " cannot share memory: " + cudaGetErrorString(error));
    }
    mapped_.push_back(block);
    blocks_.push_back(static_cast<char*>(block));
  }
  return OkStatus();
}

PeerMemory::~PeerMemory() {
  for (void* const block : mapped_) {
    // Its owner may have ended before.
    if (cudaIpcCloseMemHandle(block) != cudaSuccess) cudaGetLastError();
  }
}

}  // namespace graft
