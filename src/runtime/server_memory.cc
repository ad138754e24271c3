#include "runtime/server_memory.h"

#include <algorithm>
#include <cmath>

#include "assist/cpu_assist.h"
#include "base/thread_pool.h"
#include "executor/decode_graphs.h"
#include "executor/model_executor.h"
#include "layers/lora_store.h"
#include "model/kv_pool.h"
#include "model/weights.h"
#include "runtime/page_size.h"
#include "runtime/weights_kept.h"

namespace graft {
namespace {

// A quarter of what the machine has left: the rest is the page cache's, which holds the files.
constexpr double kHostShare = 0.25;
// An allowance for kernels, which are loaded onto a GPU when they first run, and for its driver.
// When a kernel that keeps arrays in local memory first runs, the driver takes room for every
// thread that the card could hold at once: for attention over prompts, which keeps up to 912 bytes
// a thread, 247 MB on an H200 (132 multiprocessors of 2,048 threads).
constexpr int64_t kDriverBytes = int64_t{512} << 20;
// The most drafts in a step, whatever the number of sequences: drafts pay for few sequences alone,
// and each is a row of logits.
constexpr int32_t kDraftsMax = 64;

std::string Flags(const std::string& a, const std::string& b = "") {
  return " (" + a + (b.empty() || a == b ? "" : ", " + b) + ")";
}

std::string Count(int64_t n, const std::string& of) { return std::to_string(n) + " " + of; }

// A CPU's room for rows of x, which every thread that multiplies keeps, and for the logits of a
// row.
int64_t CpuScratchBytes(const ServedShape& shape, int64_t rows, int threads) {
  const ModelConfig& config = shape.config;
  const int64_t k =
      std::max<int64_t>({config.hidden_size, config.intermediate_size, config.q_size()});
  constexpr int64_t kBytesOfLogit = 16;
  return GemmScratchBytes(rows, k, shape.types.operands, threads) +
         threads * kBytesOfLogit * config.vocab_size;
}

void AddAssist(const RuntimeOptions& options, const ServedShape& shape, int32_t rows,
               const SizeFlags& flags, MemorySum* sum) {
  if (CpuAssistOf(options) == CpuAssistPlace::kOff) return;
  const CpuAssistOptions assist{.num_workers = ChooseAssistWorkers(options.cpu_assist_workers)};
  sum->Add("the CPU assist's rows" + Flags("--cpu-assist", flags.rows),
           CpuAssist::BytesFor(assist, shape.config, shape.types, rows, shape.device));
}

void AddGraphs(const RuntimeOptions& options, const ServedShape& shape,
               const ExecutorLimits& limits, bool lora, const SizeFlags& flags, MemorySum* sum) {
  if (shape.device.is_cpu()) return;
  sum->Add("decode graphs, about" + Flags(flags.sequences),
           DecodeGraphs::BytesFor(shape.config.num_layers, limits.sequences_max,
                                  lora ? kLoraRankMax : 0, options.limits.draft_tokens_max > 0));
}

}  // namespace

// A GPU multiplies with its weights fully busy from about 2,048 rows on; on an H200 these take
// about 50 ms for a model of 8 billion parameters. Larger steps are fewer, which is what counts for
// throughput. A CPU reads the weights anew for every 256 rows.
int32_t StepTokensMax(const RuntimeOptions& options, const Device& device) {
  if (options.limits.step_tokens_max > 0) return options.limits.step_tokens_max;
  if (device.is_cpu()) return 512;
  return options.engine.scheduler.goal == Goal::kThroughput ? kThroughputRows : 2048;
}

// Slow memory may take longer than half of that for the weights alone. Then a step without a row of
// a prompt would be about as long as its bound, and prompts would go on by a few rows a step. There
// prompts have as long again as the weights.
int64_t StepNsMax(const RuntimeOptions& options, const Device& device, int64_t weights_ns) {
  if (options.engine.scheduler.step_ns_max > 0) return options.engine.scheduler.step_ns_max;
  if (device.is_cpu()) return 0;
  if (options.engine.scheduler.goal == Goal::kThroughput) return kThroughputNs;
  return std::max(50 * kMsInNs, 2 * weights_ns);
}

int64_t WeightsReadingNs(int64_t weights_bytes, const DeviceTraits& traits) {
  if (traits.memory_gbytes_per_s <= 0.0) return 0;
  return std::llround(static_cast<double>(weights_bytes) / traits.memory_gbytes_per_s);
}

int32_t ContextTokensMax(const RuntimeOptions& options, const ModelConfig& config) {
  if (options.limits.context_tokens_max == 0) return config.context_tokens_max;
  return std::min(options.limits.context_tokens_max, config.context_tokens_max);
}

ExecutorLimits ExecutorLimitsOf(const RuntimeOptions& options, const ServedShape& shape,
                                bool lora) {
  ExecutorLimits limits = options.limits;
  limits.step_tokens_max = std::max(StepTokensMax(options, shape.device), limits.sequences_max);
  limits.context_tokens_max = ContextTokensMax(options, shape.config);
  if (lora) limits.page_tokens = PageTokens(shape.config, shape.types, limits.page_tokens);
  limits.page_bytes = MakeKvLayout(shape.config, limits.page_tokens, shape.types.kv).PageBytes();
  limits.vocab_size = shape.config.vocab_size;
  limits.runs_ahead = !shape.device.is_cpu();
  const int64_t drafts = int64_t{limits.draft_tokens_max} * limits.sequences_max;
  limits.draws_max =
      limits.sequences_max + static_cast<int32_t>(std::min<int64_t>(drafts, kDraftsMax));
  if (!lora) limits.adapters_max = 0;
  return limits;
}

TransformerLimits TransformerLimitsOf(const RuntimeOptions& options, const ExecutorLimits& limits) {
  TransformerLimits transformer;
  transformer.step_tokens_max = limits.step_tokens_max;
  transformer.logits_rows_max = std::max(limits.draws_max, 64);
  transformer.sequences_max = limits.sequences_max;
  transformer.context_tokens_max = limits.context_tokens_max;
  transformer.lora_beside = options.lora == LoraTiming::kAuto;
  return transformer;
}

GpuExchangeLimits ExchangeLimitsOf(const RuntimeOptions& options, const ServedShape& shape) {
  const TransformerLimits transformer =
      TransformerLimitsOf(options, ExecutorLimitsOf(options, shape, /*lora=*/true));
  return {.part_floats = PartFloatsOf(transformer, shape.config, shape.num_ranks),
          .tokens_max = transformer.step_tokens_max};
}

KvLayout LayoutOf(const ServedShape& shape, const ExecutorLimits& limits) {
  return MakeKvLayout(shape.config, limits.page_tokens, shape.types.kv);
}

int64_t PagesPerContext(const ExecutorLimits& limits) {
  return (int64_t{limits.context_tokens_max} + limits.page_tokens - 1) / limits.page_tokens;
}

Status CheckPage(const ExecutorLimits& limits) {
  if (limits.page_bytes <= INT32_MAX) return OkStatus();
  return InvalidArgumentError("a page of " + std::to_string(limits.page_tokens) +
                              " tokens would have " + std::to_string(limits.page_bytes) +
                              " bytes, 2 GiB is the most; lower --tune page-tokens");
}

Status CheckPool(const ExecutorLimits& limits, int64_t num_pages) {
  const int64_t pages_per_context = PagesPerContext(limits);
  if (num_pages >= pages_per_context) return OkStatus();
  return ResourceExhaustedError(
      "the page pool would hold " + std::to_string(num_pages) + " pages of " +
      std::to_string(limits.page_tokens) + " tokens, one full context needs " +
      std::to_string(pages_per_context) + "; raise --pool-gib or lower --context-tokens-max (now " +
      std::to_string(limits.context_tokens_max) + ")");
}

void AddWeights(const ServedShape& shape, bool drawn, MemorySum* sum) {
  sum->Add("weights in " + ServedWeightsText(shape.config, shape.types) +
               Flags(shape.types.has_codes() ? "--weights" : "--dtype"),
           WeightsBytes(shape.config, shape.types, shape.device, shape.num_ranks));
  if (!shape.device.is_cpu()) sum->Add("kernels and the driver, about", kDriverBytes);
  // Plain numbers are packed out of the mapped files.
  if (shape.device.is_cpu() && !drawn && !shape.config.quantisation.has_value()) return;
  sum->AddOnHost("reading them, a tensor at a time",
                 WeightsReadingBytes(shape.config, shape.types));
}

void AddRanks(const RuntimeOptions& options, const ServedShape& shape, MemorySum* sum,
              const SizeFlags& flags) {
  if (shape.num_ranks == 1) return;
  const GpuExchangeLimits limits = ExchangeLimitsOf(options, shape);
  constexpr int64_t kTurns = 2;
  sum->Add("what the ranks write for each other" + Flags("--tensor-parallel", flags.rows),
           shape.device.is_cpu() ? kTurns * limits.part_floats * int64_t{sizeof(float)}
                                 : GpuExchangeBytes(limits, shape.num_ranks));
}

void AddServer(const RuntimeOptions& options, const ServedShape& shape, bool lora, MemorySum* sum,
               const SizeFlags& flags) {
  const ModelConfig& config = shape.config;
  const Device& device = shape.device;
  const ExecutorLimits limits = ExecutorLimitsOf(options, shape, lora);
  TransformerLimits transformer = TransformerLimitsOf(options, limits);
  transformer.has_ranks = shape.num_ranks > 1;
  const TransformerSizes sizes =
      SizesOf(transformer, config, shape.types, LayoutOf(shape, limits), device);
  const bool goal_decides =
      options.limits.step_tokens_max == 0 && options.engine.scheduler.goal == Goal::kThroughput;
  const std::string rows =
      Count(limits.step_tokens_max, "rows" + Flags(flags.rows, goal_decides ? "--goal" : ""));
  const std::string contexts = Count(limits.sequences_max, "sequences of ") +
                               Count(limits.context_tokens_max, "tokens") +
                               Flags(flags.sequences, flags.context);
  sum->Add("activations of " + rows, sizes.activations());
  sum->Add("training beside the serving (--learn-gib)", GibToBytes(options.learn_gib));
  sum->AddOnHost("the encoder's files (--learn-encoder)", options.learn_encoder_bytes);
  sum->Add("LoRA of " + rows, sizes.lora());
  sum->Add("room of products of codes, of " + rows, sizes.codes_room);
  sum->Add("attention and page tables of " + contexts,
           BytesNeeded{sizes.attention_scratch + sizes.batch, sizes.batch_on_host});
  sum->Add("logits and draws of " +
               Count(transformer.logits_rows_max, "rows" + Flags(flags.sequences, "--speculate")),
           [&] {
             BytesNeeded needed = ModelExecutor::BytesFor(transformer, config, device);
             needed.on_device += sizes.all_logits();
             return needed;
           }());
  sum->Add(
      "rotary tables of " + Count(limits.context_tokens_max, "positions" + Flags(flags.context)),
      sizes.ropes);
  if (device.is_cpu()) {
    sum->Add("the threads' rows" + Flags("--threads"),
             CpuScratchBytes(shape, limits.step_tokens_max, ThreadsOfRank(options)));
  }
  if (device.is_cpu()) AddRanks(options, shape, sum, flags);
  AddGraphs(options, shape, limits, lora, flags, sum);
  if (!lora) return;
  sum->Add("tables of " + Count(limits.adapters_max, "adapters" + Flags(flags.adapters)),
           LoraStore::BytesFor(config, limits.adapters_max, device));
  AddAssist(options, shape, limits.step_tokens_max, flags, sum);
  if (options.host_gib > 0.0) {
    sum->AddOnHost("adapters in the host's memory (--host-gib)", GibToBytes(options.host_gib));
  }
}

void AddLeastPool(const RuntimeOptions& options, const ServedShape& shape, bool lora,
                  MemorySum* sum, const SizeFlags& flags) {
  if (options.pool_gib > 0.0) {
    sum->Add("page pool" + Flags(flags.pool), GibToBytes(options.pool_gib));
    return;
  }
  const ExecutorLimits limits = ExecutorLimitsOf(options, shape, lora);
  sum->Add("page pool of one full context, " +
               Count(limits.context_tokens_max, "tokens" + Flags(flags.context)),
           PagesPerContext(limits) * limits.page_bytes);
}

AdapterMemory AddAdapters(const RuntimeOptions& options, const ServedShape& shape,
                          const MemoryBudget& budget, MemorySum* sum) {
  MemorySum pool(shape.device);
  AddLeastPool(options, shape, /*lora=*/true, &pool);
  const int64_t others =
      shape.device.is_cpu() ? sum->on_device() + pool.on_device() : sum->on_host();
  const int64_t left = std::max<int64_t>(0, budget.LeftOnHost() - others);
  AdapterMemory memory{.fetches = FetchLimitsOf(AdapterCores(NumCpus(), shape.device), left)};
  sum->AddOnHost("adapters on their way from their folders", memory.fetches.bytes_max);
  if (options.host_gib >= 0.0) {  // AddServer has counted it
    memory.store_bytes = GibToBytes(options.host_gib);
  } else {
    const int64_t for_store = std::max<int64_t>(0, left - memory.fetches.bytes_max);
    memory.store_bytes = static_cast<int64_t>(static_cast<double>(for_store) * kHostShare);
    sum->AddOnHost("adapters in the host's memory", memory.store_bytes);
  }
  return memory;
}

CheckMemory ServerFits(const RuntimeOptions& options) {
  return [&options](const ServedShape& shape, const MemoryBudget& budget, MemorySum sum) {
    const ExecutorLimits limits = ExecutorLimitsOf(options, shape, /*lora=*/true);
    RETURN_IF_ERROR(CheckPage(limits));
    if (options.pool_gib > 0.0) {
      RETURN_IF_ERROR(CheckPool(limits, GibToBytes(options.pool_gib) / limits.page_bytes));
    }
    AddServer(options, shape, /*lora=*/true, &sum);
    AddLeastPool(options, shape, /*lora=*/true, &sum);
    return sum.Check(budget);
  };
}

}  // namespace graft
