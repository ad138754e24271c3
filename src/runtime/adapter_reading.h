// How much of the machine the first use of adapters may take beside serving: cores that read and
// convert them, and memory that they take on their way; and where hashes are remembered. Pure
// functions but for MakeHashMemory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "adapters/paged_loader.h"
#include "base/hash_memory.h"
#include "base/status.h"
#include "tensor/device.h"

namespace graft {

// Beside a GPU all of the machine's but two, which steps and connections have to themselves; at
// least two. On the CPU two: steps compute on all cores, and each ends with its slowest thread.
int AdapterCores(int machine_cores, const Device& device);

// One tenant may keep all of these cores busy, 32 at most. The memory is a sixteenth of what is
// free on the host, 256 MiB at least or a quarter where that is less, and no more than as many
// large adapters take as there are cores.
FetchLimits FetchLimitsOf(int cores, int64_t free_bytes);

// Fetches that the engine orders before others have ended, so that a core that is done finds the
// next one. See SchedulerOptions::fetches_max.
int32_t FetchesAtOnce(const FetchLimits& limits);

// `file` is --adapter-hashes: a path, auto or off. Null: off, or auto without a place to write to.
std::unique_ptr<HashMemory> MakeHashMemory(const std::string& file);

}  // namespace graft
