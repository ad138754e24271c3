#include "tensor/device.h"

#include <charconv>

namespace graft {

std::string Device::ToString() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index); }

Result<Device> ParseDevice(const std::string& text) {
  const int num_cuda = NumCudaDevices();
  if (text == "cpu") return Device{};
  if (text == "auto") return num_cuda > 0 ? Device{DeviceKind::kCuda, 0} : Device{};
  int index = 0;
  if (text.rfind("cuda:", 0) == 0) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + 5, end, index);
    if (error != std::errc() || rest != end || index < 0) index = -1;
  } else if (text != "cuda") {
    index = -1;
  }
  if (index < 0) {
    return InvalidArgumentError("unknown device '" + text + "'; use auto, cpu or cuda:N");
  }
  if (!kHasCuda) {
    return UnimplementedError("device '" + text +
                              "': this binary was built without a CUDA backend; use --device cpu");
  }
  if (index >= num_cuda) {
    return NotFoundError("device '" + text + "': this machine has " + std::to_string(num_cuda) +
                         " CUDA devices that its driver shows; use --device cpu or auto");
  }
  return Device{DeviceKind::kCuda, index};
}

}  // namespace graft
