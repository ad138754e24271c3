#include "base/out_of_memory.h"

#include <utility>

namespace graft {

void ThrowOutOfMemory(std::string message) { throw OutOfMemory(std::move(message)); }

}  // namespace graft
