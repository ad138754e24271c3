#include "runtime/adapter_reading.h"

#include <algorithm>

#include "base/log.h"

namespace graft {

int AdapterCores(int machine_cores, const Device& device) {
  return device.is_cpu() ? 2 : std::max(2, machine_cores - 2);
}

FetchLimits FetchLimitsOf(int cores, int64_t free_bytes) {
  constexpr int64_t kBytesLeast = int64_t{1} << 20;
  constexpr int64_t kBytesMin = int64_t{256} << 20;
  constexpr int64_t kBytesPerCore = int64_t{512} << 20;
  FetchLimits limits;
  limits.threads = std::min(cores, 32);
  limits.bytes_max = std::clamp(free_bytes / 16, kBytesMin, cores * kBytesPerCore);
  limits.bytes_max = std::max(kBytesLeast, std::min(limits.bytes_max, free_bytes / 4));
  return limits;
}

int32_t FetchesAtOnce(const FetchLimits& limits) { return std::max(4, 2 * limits.threads); }

std::unique_ptr<HashMemory> MakeHashMemory(const std::string& file) {
  if (file == "off") return nullptr;
  HashMemoryOptions options;
  options.path = file == "auto" ? CacheFilePath("adapter-hashes") : file;
  if (options.path.empty()) {
    LOG_INFO(
        "neither XDG_CACHE_HOME nor HOME is set: what adapters' files were found to be is not "
        "remembered; --adapter-hashes FILE names a place");
    return nullptr;
  }
  auto memory = std::make_unique<HashMemory>(std::move(options));
  LOG_INFO("hashes of {} adapters are remembered", memory->num_entries());
  return memory;
}

}  // namespace graft
