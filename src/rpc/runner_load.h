// What a runner tells of itself, and how it is started. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rpc/protocol.h"
#include "rpc/tls_files.h"

namespace graft {

// What operators look at; no choice depends on it.
struct RunnerFigures {
  int64_t pages_free = 0;  // not in use; with the next three all of the pool
  int64_t pages_cached = 0;
  int64_t pages_referenced = 0;
  int64_t pages_adapters = 0;
  int64_t adapters_resident = 0;
  int64_t step_sequences = 0;  // of the last step, as the next three
  int64_t step_adapters = 0;
  int64_t step_prompt_rows = 0;
  int64_t step_decode_rows = 0;
  int64_t steps = 0;  // since its start, as the next five
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t preemptions = 0;
  int64_t adapter_copies = 0;
  int64_t adapter_evictions = 0;
  bool operator==(const RunnerFigures&) const = default;
};

// What a runner's device holds, of all adapters or of the first so many.
inline constexpr size_t kHeldToldMax = 1024;
struct HeldAdapters {
  std::vector<std::string> resident;  // content hashes
  std::vector<std::string> loading;   // content hashes, on their way to it
  bool is_whole = true;
  bool operator==(const HeldAdapters&) const = default;
};

struct RunnerLoad {
  int64_t requests_waiting = 0;
  int64_t requests_running = 0;
  // Pages that are free, or kept only for unused prefixes and adapters: new requests take them.
  int64_t pages_free = 0;
  RunnerFigures figures = {};
  // Which prefixes it has cached, as PrefixDigest::Read has it; {}: as it said last.
  std::vector<uint64_t> prefixes = {};
  std::optional<HeldAdapters> held = {};  // none: as it said last
};

struct RunnerServiceOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;  // 0: any free one
  TlsFiles tls;
  BaseModelId base;
  std::string arithmetic_id;
  int32_t page_tokens = 0;
  int32_t batch_max = 0;      // requests in one step
  int32_t adapters_max = 0;   // on its device at once
  int64_t num_pages = 0;      // of its pool
  int64_t startup_ms = 0;     // that it took until it served
  bool prefix_cache = true;   // false: frontends need not remember what they send where
  bool logs_requests = true;  // a line for each, when it ends here
  // A frontend that takes nothing, or says nothing, for so long has its requests cancelled.
  int64_t frontend_silence_ns = kFrontendSilenceNs;
};

}  // namespace graft
