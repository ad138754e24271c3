// The host's memory, and what of it a process could still take. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace graft {

// Bytes that can be allocated without anything being swapped or killed: what the kernel estimates
// to be available, with caches of files counted as free, limited by the memory cgroups of this
// process (a container's limit). `root`: the root of the file system, another one in tests.
int64_t AvailableHostBytes(const std::string& root = "");

// HostClaim: bytes of pages that its holder is about to write first, from the check that the host
// has them until they are written. The system does not refuse such a write: it kills a process. So
// whatever takes much memory at once, while others do, claims it before. Threads of this process do
// not count on each other's bytes; pages that are written already may count twice until the claim
// ends.
class HostClaim {
 public:
  // OutOfMemory where the host has not that many bytes left, and some to spare.
  explicit HostClaim(int64_t bytes);
  ~HostClaim();
  HostClaim(const HostClaim&) = delete;
  HostClaim& operator=(const HostClaim&) = delete;

 private:
  const int64_t bytes_;
};

// For tests: a host that has so many bytes left at the most. One at a time.
class AvailableLimit {
 public:
  explicit AvailableLimit(int64_t bytes);
  ~AvailableLimit();
  AvailableLimit(const AvailableLimit&) = delete;
  AvailableLimit& operator=(const AvailableLimit&) = delete;
};

// All that the machine has.
int64_t TotalHostBytes();

}  // namespace graft
