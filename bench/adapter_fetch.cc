// What it takes to read adapters' folders into the host's memory, without a model and without a
// device: each folder of a directory once by itself, then all at once on so many threads, and both
// again with what was remembered of their hashes. Prints milliseconds for each adapter.
//
//   adapter_fetch CONFIG_JSON ADAPTERS_FOLDER [CORES]
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "adapters/peft_backend.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "model/config.h"

namespace graft {
namespace {

struct Bench {
  ModelConfig config;
  std::vector<std::string> folders;
  int cores = 1;
};

double MsSince(int64_t begin_ns) {
  return NsToSeconds(SteadyClock::Get().NowNs() - begin_ns) * 1e3;
}

// Fetches every folder once, on so many threads. Returns each fetch's milliseconds, and what all of
// them took.
std::vector<double> FetchAll(const Bench& bench, int num_threads, const AdapterReadHelp& help,
                             double* all_ms) {
  Metrics metrics;
  HostStore store(int64_t{16} << 30, metrics);
  PeftBackend backend(bench.config, TypesOf(DType::kBF16), store, {}, {}, {}, help);
  std::vector<double> times(bench.folders.size());
  std::atomic<size_t> next = 0;
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  std::vector<std::thread> threads;
  for (int t = 0; t < num_threads; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < bench.folders.size(); i = next++) {
        const int64_t fetch_ns = SteadyClock::Get().NowNs();
        const Result<HostStore::Held> held = backend.Fetch(bench.folders[i], "");
        CHECK(held.ok()) << held.status().ToString();
        times[i] = MsSince(fetch_ns);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  *all_ms = MsSince(begin_ns);
  return times;
}

void Print(const char* what, const Bench& bench, int num_threads, const AdapterReadHelp& help) {
  double all_ms = 0.0;
  std::vector<double> times = FetchAll(bench, num_threads, help, &all_ms);
  std::sort(times.begin(), times.end());
  std::printf("%-34s %2d threads: %7.1f ms the median fetch, %7.1f the longest, %7.1f an adapter\n",
              what, num_threads, times[times.size() / 2], times.back(),
              all_ms / static_cast<double>(times.size()));
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "adapter_fetch CONFIG_JSON ADAPTERS_FOLDER [CORES]\n");
    return 2;
  }
  Bench bench;
  bench.config = *ParseModelConfig(*ParseJsonFile(argv[1]));
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
    bench.folders.push_back(entry.path().string());
  }
  bench.cores = argc > 3 ? std::atoi(argv[3]) : NumCpus();
  CHECK(!bench.folders.empty());
  WorkCrew crew(bench.cores);
  HashMemory memory({.path = ""});
  double ms = 0.0;
  (void)FetchAll(bench, bench.cores, {}, &ms);  // brings the files into the page cache
  Print("one after the other, alone", bench, 1, {});
  Print("one after the other, all cores", bench, 1, {.crew = &crew});
  Print("side by side", bench, bench.cores, {.crew = &crew});
  (void)FetchAll(bench, bench.cores, {.crew = &crew, .memory = &memory}, &ms);
  std::printf("%lld hashes are remembered\n", static_cast<long long>(memory.num_entries()));
  Print("known, one after the other", bench, 1, {.crew = &crew, .memory = &memory});
  Print("known, side by side", bench, bench.cores, {.crew = &crew, .memory = &memory});
  return 0;
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) { return graft::Main(argc, argv); }
