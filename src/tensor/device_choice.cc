#include "tensor/device_choice.h"

#include <charconv>

namespace graft {
namespace {

// What a card can do with code of one architecture.
enum class Use { kNone, kCompile, kRun };

struct Architecture {
  int number = 0;
  Use use = Use::kNone;
};

// Code runs on its own generation and no earlier member of it; text is compiled by the driver for
// later cards. With an "a" it runs on no other card, with an "f" on none of another generation.
Architecture UseOf(std::string_view architecture, int major, int minor) {
  int number = 0;
  const char* const end = architecture.data() + architecture.size();
  const auto [rest, error] = std::from_chars(architecture.data(), end, number);
  const int card = major * 10 + minor;
  if (error != std::errc()) return {card, Use::kRun};
  std::string_view suffix(rest, static_cast<size_t>(end - rest));
  const bool is_same_generation = number / 10 == major;
  bool fits = number <= card;
  if (suffix.starts_with("a")) fits = number == card;
  if (suffix.starts_with("f")) fits = fits && is_same_generation;
  if (!fits) return {number, Use::kNone};
  suffix.remove_prefix(suffix.starts_with("a") || suffix.starts_with("f") ? 1 : 0);
  if (suffix != "-virtual" && is_same_generation) return {number, Use::kRun};
  return {number, suffix != "-real" ? Use::kCompile : Use::kNone};
}

std::string DescribeCard(const CudaCard& card, size_t index) {
  return "cuda:" + std::to_string(index) + " (" + card.name + "): " + WhyUnusable(card);
}

}  // namespace

std::string DeviceChoice::ToString() const {
  if (kind == Kind::kAuto) return "auto";
  return kind == Kind::kCpu ? "cpu" : "cuda:" + std::to_string(index);
}

Result<DeviceChoice> ParseDeviceChoice(const std::string& text) {
  using Kind = DeviceChoice::Kind;
  if (text == "auto") return DeviceChoice{Kind::kAuto};
  if (text == "cpu") return DeviceChoice{Kind::kCpu};
  if (text == "cuda") return DeviceChoice{Kind::kCuda};
  if (text.starts_with("cuda:")) {
    int index = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + 5, end, index);
    if (error == std::errc() && rest == end && index >= 0) return DeviceChoice{Kind::kCuda, index};
  }
  return InvalidArgumentError("must be auto, cpu or cuda:N, got '" + text + "'");
}

int ArchitectureFor(std::string_view architectures, int major, int minor) {
  Architecture best;
  for (;;) {
    const size_t comma = architectures.find(',');
    const Architecture found = UseOf(architectures.substr(0, comma), major, minor);
    const bool is_better =
        found.use > best.use || (found.use == best.use && found.number > best.number);
    if (found.use != Use::kNone && is_better) best = found;
    if (comma == architectures.npos) return best.number;
    architectures.remove_prefix(comma + 1);
  }
}

std::string WhyUnusable(const CudaCard& card) {
  const std::string capability =
      "compute capability " + std::to_string(card.major) + "." + std::to_string(card.minor);
  if (card.major > 0 && card.major < kCudaMajorMin) {
    return capability + " is older than 8.0 (Ampere), which kernels need";
  }
  if (!card.has_image) return "this binary has no code for " + capability;
  if (card.shared_bytes < kCudaSharedBytesMin) {
    return capability + " has " + std::to_string(card.shared_bytes >> 10) +
           " KiB of shared memory for a thread block, kernels need " +
           std::to_string(kCudaSharedBytesMin >> 10);
  }
  return "";
}

Result<ChosenDevice> ChooseDevice(const DeviceChoice& choice, std::span<const CudaCard> cards) {
  if (choice.kind == DeviceChoice::Kind::kCpu) return ChosenDevice{};
  if (choice.kind == DeviceChoice::Kind::kAuto) {
    ChosenDevice on_cpu;
    for (size_t i = 0; i < cards.size(); ++i) {
      if (WhyUnusable(cards[i]).empty()) {
        return ChosenDevice{{DeviceKind::kCuda, static_cast<int>(i)}, {}};
      }
      on_cpu.warning += (i == 0 ? "computing on the CPU: " : "; ") + DescribeCard(cards[i], i);
    }
    return on_cpu;
  }
  const std::string asked = "--device " + choice.ToString();
  if (!kHasCuda) {
    return InvalidArgumentError(asked +
                                ": this binary was built without a CUDA backend; use --device cpu");
  }
  if (choice.index >= static_cast<int>(cards.size())) {
    return NotFoundError(asked + ": this machine has " + std::to_string(cards.size()) +
                         " CUDA devices that its driver shows; use --device cpu or auto");
  }
  const CudaCard& card = cards[choice.index];
  if (!WhyUnusable(card).empty()) {
    return FailedPreconditionError(DescribeCard(card, choice.index) + "; use --device cpu or auto");
  }
  return ChosenDevice{{DeviceKind::kCuda, choice.index}, {}};
}

Result<ChosenDevice> ChooseRankDevice(const DeviceChoice& choice, int rank, int num_ranks,
                                      std::span<const CudaCard> cards) {
  ASSIGN_OR_RETURN(ChosenDevice first, ChooseDevice(choice, cards));
  if (first.device.is_cpu()) return first;
  if (first.device.index + num_ranks > static_cast<int>(cards.size())) {
    return FailedPreconditionError("--tensor-parallel " + std::to_string(num_ranks) +
                                   " takes as many GPUs, from " + first.device.ToString() +
                                   " on, and this machine shows " + std::to_string(cards.size()) +
                                   "; ask for fewer ranks, or add --device cpu");
  }
  return ChooseDevice({DeviceChoice::Kind::kCuda, first.device.index + rank}, cards);
}

}  // namespace graft
