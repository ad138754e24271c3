#include "tensor/device.h"

namespace graft {

std::string Device::ToString() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index); }

Result<Device> ParseDevice(const std::string& text) {
  if (text == "cpu" || text == "auto") return Device{};
  if (text.rfind("cuda", 0) == 0) {
    return UnimplementedError("device '" + text +
                              "': this binary was built without a CUDA backend; use --device cpu");
  }
  return InvalidArgumentError("unknown device '" + text + "'; use auto, cpu or cuda:N");
}

}  // namespace graft
