// Drives a generator or a server with a workload and times every token. One thread per request in
// flight (benchmarks keep few), each taking the next request when its arrival has come.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "request/generator.h"

namespace graft {

struct LoadRequest {
  std::string model;         // adapter name for HTTP; "" for the base
  std::string adapter_hash;  // for a Generator; "" for the base
  std::vector<int32_t> prompt_tokens;
  int32_t output_tokens = 0;
  double arrival_seconds = 0.0;  // after the start
};

struct LoadTiming {
  Status status;
  double begin_ms = 0.0;  // after the load's
  double first_token_ms = 0.0;
  double token_ms = 0.0;  // mean over the tokens after the first
  double total_ms = 0.0;
  int32_t output_tokens = 0;
};

struct LoadResult {
  std::vector<LoadTiming> requests;
  double seconds = 0.0;
  int64_t output_tokens = 0;
  int64_t failed = 0;

  double TokensPerSecond() const {
    return seconds > 0.0 ? static_cast<double>(output_tokens) / seconds : 0.0;
  }
};

// Means over the time in which any request was between its first token and its end.
struct Concurrency {
  double requests = 0.0;
  double adapters = 0.0;  // different ones of these requests
};
Concurrency MeanConcurrency(const std::vector<LoadRequest>& requests,
                            const std::vector<LoadTiming>& timings);

// For a Generator, as of now.
inline Request MakeRequest(const LoadRequest& load, RequestId id) {
  Request request;
  request.id = id;
  request.UseAdapter(load.adapter_hash);
  request.prompt_tokens = load.prompt_tokens;
  request.sampling.temperature = 0.0f;
  request.sampling.tokens_max = load.output_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

// Runs one request to its end, calling on_token for each output token.
using RunRequest =
    std::function<Status(const LoadRequest& request, const std::function<void()>& on_token)>;

// At most `requests_max` at once.
LoadResult RunLoad(const std::vector<LoadRequest>& requests, int32_t requests_max,
                   const RunRequest& run);

// Requests straight to a Generator.
RunRequest ViaGenerator(Generator& generator);
// Streamed completions over HTTP to 127.0.0.1:port.
RunRequest ViaHttp(uint16_t port, const std::string& base_model);

}  // namespace graft
