// The host's memory, and what of it a process could still take. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace graft {

// Bytes that can be allocated without anything being swapped or killed: what the kernel estimates
// to be available, with caches of files counted as free, limited by the memory cgroups of this
// process (a container's limit). `root`: the root of the file system, another one in tests.
int64_t AvailableHostBytes(const std::string& root = "");

// All that the machine has.
int64_t TotalHostBytes();

}  // namespace graft
