#include "tensor/device.h"

namespace graft {

std::string Device::ToString() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index); }

}  // namespace graft
