// Begin and end of every kernel of a program, by CUPTI's activity records: of graphs, too, and of
// kernels that begin before the one in front has ended. A library to be preloaded, for
// bench/kernel_trace.py to read; no part of Graft.
//
//   g++ -std=c++20 -shared -fPIC bench/kernel_trace.cc -lcupti -o libkernel_trace.so
//
// (CPATH and LIBRARY_PATH: CUDA's include and lib64), then
//
//   KERNEL_TRACE=trace.txt LD_PRELOAD=./libkernel_trace.so build/gpu/graft-bench step ...
//
// KERNEL_TRACE_ALL=1 keeps the kernels of all steps, not of two of sixteen: training wants that.
//
// Steps of some hundred kernels take up to 5 % longer, those of graphs of small kernels up to 17 %.
#include <cupti.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace {

struct Kernel {
  const std::string* name;
  uint64_t begin_ns;
  uint64_t end_ns;
  int64_t num_blocks;
};

// Never destroyed: written when the program has left main.
struct Trace {
  std::mutex mutex;
  std::unordered_set<std::string> names;
  std::vector<Kernel> kernels;
};
Trace& TheTrace() {
  static auto& trace = *new Trace;
  return trace;
}

void GiveBuffer(uint8_t** buffer, size_t* bytes, size_t* records_max) {
  constexpr size_t kBytes = 8 << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBytes));
  *bytes = kBytes;
  *records_max = 0;
}

void TakeBuffer(CUcontext /*context*/, uint32_t /*stream*/, uint8_t* buffer, size_t /*bytes*/,
                size_t valid_bytes) {
  Trace& trace = TheTrace();
  const std::lock_guard lock(trace.mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    trace.kernels.push_back({&*trace.names.insert(kernel.name).first, kernel.start, kernel.end,
                             int64_t{kernel.gridX} * kernel.gridY * kernel.gridZ});
  }
  std::free(buffer);
}

// Two steps of sixteen: a step looks up an embedding twice, the second time for the rows that
// sample. Training looks up others, too.
bool IsKept(int64_t num_embeddings) {
  static const bool keeps_all = std::getenv("KERNEL_TRACE_ALL") != nullptr;
  return keeps_all || num_embeddings / 2 % 16 < 2;
}

// Lines "#id name" when a kernel comes for the first time, then "id begin end blocks", in ns from
// the first.
void Write() {
  cuptiActivityFlushAll(1);
  std::vector<Kernel>& kernels = TheTrace().kernels;
  const char* const path = std::getenv("KERNEL_TRACE");
  if (path == nullptr || kernels.empty()) return;
  std::ranges::sort(kernels, {}, &Kernel::begin_ns);
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return std::perror(path);
  std::unordered_map<const std::string*, size_t> ids;
  int64_t num_embeddings = 0;
  for (const Kernel& kernel : kernels) {
    if (kernel.name->find("mbedding") != std::string::npos) ++num_embeddings;
    if (!IsKept(num_embeddings)) continue;
    const auto [found, is_new] = ids.emplace(kernel.name, ids.size());
    if (is_new) std::fprintf(file, "#%zu %s\n", found->second, kernel.name->c_str());
    std::fprintf(file, "%zu %llu %llu %lld\n", found->second,
                 static_cast<unsigned long long>(kernel.begin_ns - kernels[0].begin_ns),
                 static_cast<unsigned long long>(kernel.end_ns - kernels[0].begin_ns),
                 static_cast<long long>(kernel.num_blocks));
  }
  std::fclose(file);
}

__attribute__((constructor)) void Begin() {
  if (std::getenv("KERNEL_TRACE") == nullptr) return;
  TheTrace();
  cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer);
  if (cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
    std::fprintf(stderr, "CUPTI records no kernels here\n");
  }
  std::atexit(Write);
}

}  // namespace
