// Which device a program works on: what was asked for against what the machine has and this binary
// has code for. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/device.h"

namespace graft {

struct DeviceChoice {
  enum class Kind : uint8_t { kAuto, kCpu, kCuda };
  Kind kind = Kind::kAuto;
  int index = 0;  // of kCuda

  bool operator==(const DeviceChoice&) const = default;
  std::string ToString() const;  // "auto", "cpu", "cuda:0"
};

// "auto", "cpu", "cuda" or "cuda:N"; the error reads "must be ...".
Result<DeviceChoice> ParseDeviceChoice(const std::string& text);

// A CUDA device as its driver shows it.
struct CudaCard {
  std::string name;          // or why the driver shows nothing of it
  int major = 0, minor = 0;  // compute capability
  int64_t shared_bytes = 0;  // of a thread block at most
  bool has_image = false;    // whether this binary has code for it
};
// Looks, and takes nothing: no card has a context of this process for it.
std::vector<CudaCard> ListCudaCards();

// Which of a binary's architectures, as CMake names them ("80-real,90a-real"), a card of that
// compute capability runs: 80, 90; 0 where it has no code for it. The driver takes what was
// compiled for the card's generation before what it would have to compile, and the latest of each.
// Names that are no number are taken to hold all.
int ArchitectureFor(std::string_view architectures, int major, int minor);

inline bool HasCodeFor(std::string_view architectures, int major, int minor) {
  return ArchitectureFor(architectures, major, minor) != 0;
}

// kFailedPrecondition where kernels do not run on the chosen device, whatever its capability
// promises. Makes a context there.
Status CheckRunsCode(const Device& device);

// The least that every kernel finds room in: what Ada's cards have, see device_traits.h.
inline constexpr int64_t kCudaSharedBytesMin = int64_t{99} << 10;

// The first generation that has what all kernels are written with: bf16 and asynchronous copies.
inline constexpr int kCudaMajorMin = 8;

// Why no kernel would run on the card, as "compute capability 8.6 has ..."; "" where all do.
std::string WhyUnusable(const CudaCard& card);

struct ChosenDevice {
  Device device;
  std::string warning;  // "" where nothing is to be said
};

// kAuto takes the first card that is usable; if none is, it takes the CPU, with a warning that
// names the cards. A card that was asked for by its index, and does not exist or is not usable, is
// refused. kInvalidArgument: the binary has no CUDA backend. kNotFound: there is no such card.
// kFailedPrecondition: the card is not usable.
Result<ChosenDevice> ChooseDevice(const DeviceChoice& choice, std::span<const CudaCard> cards);

// The same for one of several ranks: on GPUs each has the card behind that of the rank before it.
// kFailedPrecondition where there are not so many.
Result<ChosenDevice> ChooseRankDevice(const DeviceChoice& choice, int rank, int num_ranks,
                                      std::span<const CudaCard> cards);

}  // namespace graft
