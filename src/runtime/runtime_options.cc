#include "runtime/runtime_options.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "kernels/host_exchange/host_exchange.h"
#include "model/model_folder.h"
#include "runtime/adapter_priorities.h"
#include "tensor/host_memory.h"

namespace graft {
namespace {

constexpr char kMergeRemoved[] = "was removed; use `graft adapters merge`";

// More of anything than this is a slip of the hand, and would end in a lack of memory.
constexpr int kManyMax = 1 << 20;

constexpr OptionWord<LogFormat> kLogFormatWords[] = {{LogFormat::kText, "text"},
                                                     {LogFormat::kJson, "json"}};

const OptionWord<std::string> kLogLevelWords[] = {
    {"debug", "debug"}, {"info", "info"}, {"warn", "warn"}, {"error", "error"}, {"off", "off"}};

constexpr char kOnePool[] =
    "was removed: KV and adapters take pages of one pool as they need them; graft-bench adapters "
    "--suite pool compares that with pools of their own";

OptionGroup MemoryOptionGroup(RuntimeOptions& o) {
  return {
      "Limits and memory",
      {SequencesOptionRow(o.limits.sequences_max),
       {"requests-max", Number(o.engine.requests_max, Between(1, 1 << 30)), "requests in flight"},
       ContextOptionRow(o.limits.context_tokens_max),
       Tuned({"page-tokens", Number(o.limits.page_tokens, Between(1, kManyMax)),
              "of a page of the KV pool"},
             "tokens"),
       PoolGibOptionRow(o.pool_gib),
       {.name = "pool", .target = Removed("shared", kOnePool), .is_removed = true},
       {.name = "adapter-share", .target = Removed("0.25", kOnePool), .is_removed = true},
       {"prefix-cache", Boolean(o.engine.scheduler.prefix_cache),
        "share pages among requests of one adapter and tenant with equal beginnings"}}};
}

OptionGroup AdapterOptionGroup(RuntimeOptions& o) {
  SchedulerOptions& scheduler = o.engine.scheduler;
  OptionGroup group{
      "Adapters",
      {{"adapters", Text(o.adapters),
        "folder whose sub-folders are PEFT adapters; also the jail of loads by HTTP"},
       AdaptersRootOptionRow(o.adapters_roots),
       AdapterTextOptionRow(o.adapter_text),
       StrictTargetsOptionRow(o.strict_targets),
       TextOnlyOptionRow(o.text_only),
       AdaptersMaxOptionRow(o.limits.adapters_max),
       {"adapters-listed-max", Number(o.adapters_listed_max, Between(1, 1 << 24)),
        "adapters that requests may ask for"},
       {"host-gib", Number(o.host_gib),
        "GiB of adapters kept in the host's memory; below 0: a quarter of what is free at start"},
       Tuned({"read-at-start-gib", Number(o.read_at_start_gib, AtLeast(0)),
              "an adapters folder of up to this size is read and checked before serving; a larger "
              "one adapter by adapter at first use; 0: never at start"},
             "GiB"),
       {"read-ahead", Boolean(o.read_ahead),
        "after the start, read listed adapters into the host's memory while it has free room, in "
        "time that nothing else wants"},
       {"pin", Texts(o.pins),
        "an adapter that is read at start and stays in the host's memory; may be repeated; the "
        "start fails if it finds no room there"},
       {"priority", Texts(o.priorities),
        "NAME=N: an adapter that stays there longer than those of lower priorities (0 unless "
        "given), -1000 to 1000; is not read at start for it; may be repeated, for other names"},
       {"registry", Text(o.registry), "SQLite file that remembers loaded adapters across restarts"},
       {"adapter-hashes", Text(o.adapter_hashes),
        "file that remembers which hashes adapters' files were found to have, so that files that "
        "were not written since are not hashed again; auto: graft/adapter-hashes in "
        "$XDG_CACHE_HOME or ~/.cache; off: none"},
       CpuAssistOptionRow(o.cpu_assist),
       Tuned({"cpu-assist-workers", Number(o.cpu_assist_workers, Between(0, kHostFlagsMax)),
              "workers of --cpu-assist; 0: one per core but two"}),
       TurnOptionRow(scheduler.turn_ns)}};
  for (Option& row : ColdStartOptionRows(scheduler.cold_start)) {
    group.options.push_back(std::move(row));
  }
  return group;
}

OptionTarget UsersColdStart(ColdStart& cold_start) {
  OptionTarget target = OneOf(cold_start, kUsersColdStartWords);
  target.set = [set = target.set](const std::vector<std::string>& texts) -> Status {
    const Status status = set(texts);
    for (const OptionWord<ColdStart>& way : kColdStartWords) {
      if (status.ok() || texts.front() != way.word) continue;
      return InvalidArgumentError(status.message() + "; it is a way to compare with: --tune " +
                                  "cold-start=" + way.word);
    }
    return status;
  };
  return target;
}

}  // namespace

Option DTypeOptionRow(std::optional<DType>& dtype) {
  return {"dtype", OneOf(dtype, kServingDTypeWords),
          "auto is the checkpoint's; fp16 on a GPU only"};
}

Option ContextOptionRow(int32_t& context_tokens_max) {
  return {"context-tokens-max", Number(context_tokens_max, AtLeast(0)),
          "prompt and output of one request; 0: the model's own limit, which is also the most"};
}

Option SequencesOptionRow(int32_t& sequences_max) {
  return {"sequences-max", Number(sequences_max, Between(1, 2048)), "sequences in one batch"};
}

Option AdaptersRootOptionRow(std::vector<std::string>& roots) {
  return {
      "adapters-root", Texts(roots),
      "a further folder that links of adapters may lead into, a hub's cache for example; may be "
      "repeated"};
}

Option StrictTargetsOptionRow(bool& strict_targets) {
  return {"strict-targets", Switch(strict_targets),
          "refuse an adapter whose target_modules has a name that names nothing in the model; "
          "without, such names are skipped, as PEFT does it, and the log names them"};
}

Option TextOnlyOptionRow(bool& text_only) {
  return {"text-only", Switch(text_only),
          "of adapters of models that see, leave out what they have for towers and what joins "
          "these to the text; otherwise such adapters are refused"};
}

Option AdaptersMaxOptionRow(int32_t& adapters_max) {
  return {"adapters-max", Number(adapters_max, Between(1, kManyMax)),
          "adapters on the device at once"};
}

Option PoolGibOptionRow(double& pool_gib) {
  return {"pool-gib,kv-gib", Number(pool_gib, AtLeast(0)),
          "GiB of the page pool, of KV and adapters; 0: what can be used, within half of free "
          "memory (a GPU's: all but 3 GiB)"};
}

std::vector<Option> ColdStartOptionRows(ColdStart& cold_start) {
  return {{"cold-start", UsersColdStart(cold_start),
           "which requests wait while an adapter loads: auto: per request, what costs all the "
           "least waiting; cached: none, as all adapters are loaded before serving, and stay"},
          Tuned({"cold-start", OneOf(cold_start, kColdStartWords),
                 "one way for all requests, to compare with auto: join-later: an adapter's "
                 "requests wait until it is loaded, others go on; layerwise: they begin, and their "
                 "steps wait for each layer's rows; cpu-assist: as layerwise, but the CPU computes "
                 "what is missing (where --cpu-assist says); blocking: all requests wait; auto and "
                 "cached as --cold-start's"})};
}

Option CpuAssistOptionRow(std::optional<CpuAssistPlace>& cpu_assist) {
  return {
      "cpu-assist", OneOf(cpu_assist, kCpuAssistWords),
      "where the CPU computes for adapters on their way, where the cold start lets it: nowhere, "
      "threads, or processes (one per worker, on a core of its own)",
      "off; thread with --tune cold-start=cpu-assist"};
}

Option TurnOptionRow(int64_t& turn_ns) {
  return Tuned({"turn-ms", NumberIn(kMsInNs, turn_ns, AtLeast(0)),
                "how long younger requests run ahead of one whose adapter finds no room"},
               "ms");
}

Option GoalOptionRow(Goal& goal) {
  return {"goal", OneOf(goal, kGoalWords),
          "what prompts' rows in a step are chosen by: latency: short gaps between the tokens of "
          "answers; throughput: an early end of all requests, by steps as large as pay"};
}

std::vector<Option> StepOptionRows(RuntimeOptions& o) {
  return {
      GoalOptionRow(o.engine.scheduler.goal),
      {"step-tokens-max", Number(o.limits.step_tokens_max, Between(0, kManyMax)),
       "token rows of one step; long prompts are cut into chunks of it; 0: 2048 on a GPU, 16384 "
       "with --goal throughput; 512 on the CPU"},
      Tuned(
          {"step-ms-max", NumberIn(kMsInNs, o.engine.scheduler.step_ns_max, AtLeast(0)),
           "what a step with decoding sequences is expected to take at most, by fewer rows of "
           "prompts in it, but 64 at least; 0: 50 on a GPU, or twice what its memory takes for the "
           "weights, 1000 with --goal throughput; no bound on the CPU"},
          "ms"),
      Tuned({"prefill-chunk-max", Number(o.engine.scheduler.prefill_chunk_max, AtLeast(0)),
             "rows of one request's prompt in a step, at most; 0: as many as the step has room "
             "for"},
            "tokens"),
      Tuned({"lora", OneOf(o.lora, kLoraTimingWords),
             "when a step computes its adapters' low-rank products. auto: where it has few "
             "adapters, a GPU does while it multiplies with the weights; after: always after that, "
             "to compare with"}),
      {.name = "lora",
       .target = Removed("auto",
                         "is no flag: --adapters DIR has the adapters, and --tune lora=after "
                         "computes their products last"),
       .is_removed = true},
      {.name = "lora-kernel",
       .target = Removed("segmented",
                         "was removed: after is --tune lora=after now, and graft-bench ops "
                         "compares with bmm (--filter lora_padded)"),
       .is_removed = true},
      {.name = "merge", .target = Removed("off", kMergeRemoved), .is_removed = true},
      {.name = "merge-after-steps", .target = Removed("0", kMergeRemoved), .is_removed = true},
      Tuned({"run-ahead", Boolean(o.engine.runs_ahead),
             "on a GPU, begin a decode step before the tokens of the one before it are known"}),
      {"speculate", Number(o.limits.draft_tokens_max, Between(0, 64)),
       "tokens of a request that a step foresees at most, from what stood after the same "
       "tokens in its prompt and output, and checks by drawing them; answers are the same; 0: "
       "none"}};
}

std::vector<Option> DeviceOptionRows(DeviceChoice& device, int& threads) {
  return {{"device", Parsed(device, ParseDeviceChoice, "auto|cpu|cuda:N", device.ToString()),
           "auto: the first GPU that this binary has code for, else the CPU"},
          {"threads", Number(threads, Between(0, 4096)), "kernel threads; 0: one per core"}};
}

OptionTarget ModelFolder(std::string& folder) {
  OptionTarget target = Text(folder);
  target.set = [&folder](const std::vector<std::string>& texts) -> Status {
    ASSIGN_OR_RETURN(folder, ResolveModelFolder(texts.front()));
    return OkStatus();
  };
  return target;
}

std::vector<Option> ModelOptionRows(RuntimeOptions& o) {
  std::vector<Option> rows = {
      {"model", ModelFolder(o.model),
       "HF model folder (config.json, *.safetensors), or a hub's ORG/NAME[@REVISION] or "
       "s3://BUCKET/PREFIX, which is fetched unless it lies there"}};
  for (Option& row : DeviceOptionRows(o.device, o.threads)) rows.push_back(std::move(row));
  rows.push_back(DTypeOptionRow(o.dtype));
  rows.push_back(
      {"weights", OneOf(o.weights, kWeightsKeptWords),
       "what the layers' matrices are kept as: auto, the codes of a quantised model; plain, "
       "numbers; int8, int4, nf4, codes that are made of plain numbers while they are read. A GPU "
       "multiplies codes in bf16: of a model in fp16 auto makes numbers without --dtype bf16"});
  rows.push_back({"memory-gib", Number(o.memory_gib, AtLeast(0)),
                  "GiB that all may take of the device's memory, weights included; more is refused "
                  "at start; 0: what is free"});
  return rows;
}

namespace {

std::vector<Option> RankOptionRows(RuntimeOptions& o) {
  return {{"tensor-parallel", Number(o.ranks.num_ranks, Between(1, kRanksMax)),
           "ranks that share the model, each a process with a slice of the weights, the pages and "
           "the adapters, on the CPU or on a GPU of its own: --device's and those behind it. Sizes "
           "in GiB are each rank's, threads are shared out"},
          {"rank-timeout-seconds", NumberIn(kSecondInNs, o.ranks.timeout_ns, Between(1, 86'400)),
           "a rank that does not answer the others for so long ends the server"},
          Tuned({"rank-transport", OneOf(o.rank_transport, kRankTransportWords),
                 "how GPUs' ranks exchange: peer: kernels read each other's memory; nccl: by NCCL, "
                 "whose library must be there; auto: the first of these that works"})};
}

// What does not work on several ranks, by name.
Status CheckRankOptions(const RuntimeOptions& options) {
  if (options.ranks.num_ranks == 1) return OkStatus();
  const std::string with =
      " does not go with --tensor-parallel " + std::to_string(options.ranks.num_ranks);
  const auto refused = [&](const std::string& what, const std::string& instead) {
    return InvalidArgumentError(what + with + "; " + instead);
  };
  if (options.engine.scheduler.cold_start == ColdStart::kCpuAssist) {
    return refused("--tune cold-start=cpu-assist", "use auto, layerwise or join-later");
  }
  if (options.cpu_assist.value_or(CpuAssistPlace::kOff) != CpuAssistPlace::kOff) {
    return refused("--cpu-assist", "leave it off");
  }
  if (options.host_gib == 0.0) {
    return refused("--host-gib 0", "ranks read adapters in the host's memory: leave some for them");
  }
  return OkStatus();
}

}  // namespace

CpuAssistPlace CpuAssistOf(const RuntimeOptions& options) {
  const ColdStart cold_start = options.engine.scheduler.cold_start;
  const bool must = cold_start == ColdStart::kCpuAssist;
  if (!must && cold_start != ColdStart::kAuto) return CpuAssistPlace::kOff;
  return options.cpu_assist.value_or(must ? CpuAssistPlace::kThread : CpuAssistPlace::kOff);
}

int ThreadsOfRank(const RuntimeOptions& options) {
  const int threads = options.threads == 0 ? NumCpus() : options.threads;
  return std::max(1, threads / options.ranks.num_ranks);
}

Option LogFormatOptionRow(LogFormat& format) {
  return {"log-format", OneOf(format, kLogFormatWords), "of the lines on stderr"};
}

Option LogLevelOptionRow(std::string& log_level) {
  return {"log-level", OneOf(log_level, kLogLevelWords), "how much is said on stderr"};
}

std::vector<OptionGroup> RuntimeOptionGroups(RuntimeOptions& o) {
  OptionGroup model{"Model", ModelOptionRows(o)};
  model.options.push_back({.name = "model-name",
                           .target = Text(o.model_name),
                           .help = "the base model's name for clients",
                           .default_help = "the folder's name"});
  for (Option& row : RankOptionRows(o)) model.options.push_back(std::move(row));
  model.options.push_back(LogLevelOptionRow(o.log.level));
  return {model, MemoryOptionGroup(o), AdapterOptionGroup(o), {"Steps", StepOptionRows(o)}};
}

Status CheckOptions(const RuntimeOptions& options) {
  const int64_t machine_gib = TotalHostBytes() >> 30;
  if (options.host_gib > static_cast<double>(machine_gib)) {
    return InvalidArgumentError("--host-gib is at most the machine's " +
                                std::to_string(machine_gib) + "; below 0 it is chosen for you");
  }
  if (options.cpu_assist == CpuAssistPlace::kOff &&
      options.engine.scheduler.cold_start == ColdStart::kCpuAssist) {
    return InvalidArgumentError(
        "--tune cold-start=cpu-assist has nothing to compute with under --cpu-assist off; use "
        "--cpu-assist thread or process, or leave the cold start auto");
  }
  RETURN_IF_ERROR(CheckRankOptions(options));
  return ParseAdapterPriorities(options.priorities, options.pins).status();
}

}  // namespace graft
