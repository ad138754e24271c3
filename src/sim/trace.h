// Recorded workloads of production services, read from the files that their owners publish: when
// requests came, how long they were, and which adapter (function, tenant) each asked for. Files are
// plain text: unpack .gz first. No thread of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace graft {

struct TraceRequest {
  double arrival_seconds = 0.0;  // after the first one
  int32_t adapter = -1;          // numbered from 0; -1: none named
  int32_t prompt_tokens = 0;     // 0: not recorded
  int32_t output_tokens = 0;
};

// In order of arrival. The format is told from the first line:
//   TIMESTAMP,ContextTokens,GeneratedTokens           Azure's LLM services, 2023
//   req_id,req_time_s,adapter,prompt_len,output_len   LMSYS' arena, in S-LoRA's artifact and VTC's
//   gmt_create,...,groupId,...                        Alibaba's generative AI, by tenant
//   {"timestamp","input_length","output_length"}      Mooncake, JSON lines, milliseconds
//   {"ts","il","ol"}                                  RTP-LLM, JSON lines, milliseconds
// kInvalidArgument names the file and, where one is broken, the line.
Result<std::vector<TraceRequest>> ReadTrace(const std::string& path);

// How often each adapter was asked for, most popular first. Reads the traces above that name
// adapters, and two that have no single arrivals:
//   HashFunction,...,minute_1,...   Azure's functions, 2019 (each an adapter, as in CaraServe)
//   ...,lora_args                   Alibaba's generative AI: every LoRA of every request
Result<std::vector<double>> ReadPopularity(const std::string& path);

// Milliseconds that loads of adapters took, from a CSV's column `value` (as in Alibaba's trace of
// load latencies) or `fetch_ms`.
Result<std::vector<double>> ReadLoadTimes(const std::string& path);

struct RequestLengths {
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
};

// Reads (prompt, output) lengths from a CSV with column names in its first line. The columns are
// those with "prompt", "input", "context" or "prefill", and with "response", "output", "generated"
// or "decode" in their names. Rows with a zero are left out.
Result<std::vector<RequestLengths>> ReadLengths(const std::string& path);

}  // namespace graft
