// RuntimeOptions: what serve, generate and bench build a model, its adapters and the engine by; the
// words of its choices, and the rows that a command line sets it by. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/server_log.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/goal.h"
#include "layers/gpu_exchange.h"
#include "options/command.h"
#include "options/option.h"
#include "runtime/adapter_texts.h"
#include "step/executor.h"
#include "tensor/communicator.h"
#include "tensor/device_choice.h"
#include "tensor/dtype.h"

namespace graft {

// When a step computes its adapters' low-rank products.
enum class LoraTiming : uint8_t {
  kAuto,   // while it multiplies with the weights, where that is faster
  kAfter,  // always after that, to compare with
};
inline constexpr OptionWord<LoraTiming> kLoraTimingWords[] = {{LoraTiming::kAuto, "auto"},
                                                              {LoraTiming::kAfter, "after"}};

inline constexpr OptionWord<Goal> kGoalWords[] = {{Goal::kLatency, GoalName(Goal::kLatency)},
                                                  {Goal::kThroughput, GoalName(Goal::kThroughput)}};

// Where the CPU computes for adapters on their way.
enum class CpuAssistPlace : uint8_t { kOff, kThread, kProcess };
inline constexpr OptionWord<std::optional<CpuAssistPlace>> kCpuAssistWords[] = {
    {CpuAssistPlace::kOff, "off"},
    {CpuAssistPlace::kThread, "thread"},
    {CpuAssistPlace::kProcess, "process"}};

inline constexpr OptionWord<ColdStart> kColdStartWords[] = {{ColdStart::kJoinLater, "join-later"},
                                                            {ColdStart::kLayerwise, "layerwise"},
                                                            {ColdStart::kAuto, "auto"},
                                                            {ColdStart::kCpuAssist, "cpu-assist"},
                                                            {ColdStart::kBlocking, "blocking"},
                                                            {ColdStart::kCached, "cached"}};
// Those of --cold-start; the others are reached by --tune.
inline constexpr OptionWord<ColdStart> kUsersColdStartWords[] = {{ColdStart::kAuto, "auto"},
                                                                 {ColdStart::kCached, "cached"}};

inline constexpr OptionWord<RankTransport> kRankTransportWords[] = {
    {RankTransport::kAuto, "auto"}, {RankTransport::kPeer, "peer"}, {RankTransport::kNccl, "nccl"}};

inline constexpr OptionWord<std::optional<DType>> kServingDTypeWords[] = {
    {std::nullopt, "auto"}, {DType::kBF16, "bf16"}, {DType::kF16, "fp16"}, {DType::kF32, "fp32"}};

// What the matrices of a base's layers are kept as.
enum class WeightsKept : uint8_t {
  kAuto,   // on the CPU the codes of a quantised checkpoint; else numbers
  kPlain,  // numbers in --dtype
  kInt8,   // codes, made of plain numbers while they are read
  kInt4,
  kNf4,
};
inline constexpr OptionWord<WeightsKept> kWeightsKeptWords[] = {{WeightsKept::kAuto, "auto"},
                                                                {WeightsKept::kPlain, "plain"},
                                                                {WeightsKept::kInt8, "int8"},
                                                                {WeightsKept::kInt4, "int4"},
                                                                {WeightsKept::kNf4, "nf4"}};

struct RuntimeOptions {
  std::string model;                        // HF folder
  std::string adapters;                     // folder of PEFT folders; "" for none
  std::vector<std::string> adapters_roots;  // further folders that links of adapters may lead into
  AdapterTextUse adapter_text = AdapterTextUse::kAdapter;
  bool strict_targets = false;      // PeftConfig::strict_targets
  bool text_only = false;           // ModelConfig::text_only
  std::string model_name;           // "" for the folder's name
  std::string model_revision = {};  // that the model was fetched at; "": it is a folder
  DeviceChoice device;
  std::optional<DType> dtype;  // none: the checkpoint's
  WeightsKept weights = WeightsKept::kAuto;
  std::string registry;                 // SQLite file; "" to forget at exit
  std::string adapter_hashes = "auto";  // file that remembers them: see MakeHashMemory
  int threads = 0;                      // of the kernels, of all ranks together; 0: one per core
  CommunicatorLimits ranks;             // that share the model
  RankTransport rank_transport = RankTransport::kAuto;
  // As asked for; the model and the device decide the rest, and what is 0: see ExecutorLimitsOf.
  ExecutorLimits limits = {.sequences_max = 256, .page_tokens = 16, .adapters_max = 1024};
  EngineOptions engine;     // the same: see StepNsMax, and Runtime::Create
  double memory_gib = 0.0;  // of the device's memory in all; 0: what is free
  double pool_gib = 0.0;    // of KV and adapters; 0: what can be used of a share of free memory
  int adapters_listed_max = 65536;
  double host_gib = -1.0;        // of adapters in the host's memory; below 0: a share of it
  bool read_ahead = false;       // listed adapters, in the background
  double read_at_start_gib = 1;  // adapters folders up to this size are read and checked at start
  std::optional<CpuAssistPlace> cpu_assist;  // none: thread for ColdStart::kCpuAssist, else off
  int cpu_assist_workers = 0;                // see ChooseAssistWorkers
  LoraTiming lora = LoraTiming::kAuto;
  std::vector<std::string> pins;        // adapters that stay in the host's memory
  std::vector<std::string> priorities;  // NAME=N: adapters that stay there longer
  std::string learned;                  // folder of what this server learned; "" for none
  std::vector<std::string> fetched;     // folders of what it fetches from sources
  double learn_gib = 0.0;               // of training beside the serving
  int64_t learn_encoder_bytes = 0;      // of the files of its encoder, in the host's memory
  ServerLogOptions log;
};

// The rows of all these options.
std::vector<OptionGroup> RuntimeOptionGroups(RuntimeOptions& options);
// Only the rows that LoadModel reads; of these, the two that any op needs.
std::vector<Option> ModelOptionRows(RuntimeOptions& options);
std::vector<Option> DeviceOptionRows(DeviceChoice& device, int& threads);
Option GoalOptionRow(Goal& goal);
// Only the rows that say how a step is computed.
std::vector<Option> StepOptionRows(RuntimeOptions& options);
// Single rows, for commands that take a few.
Option LogLevelOptionRow(std::string& log_level);
Option LogFormatOptionRow(LogFormat& format);
// A model's folder, or a repository's of Hugging Face's cache, which becomes its main revision's.
OptionTarget ModelFolder(std::string& folder);
Option DTypeOptionRow(std::optional<DType>& dtype);
Option ContextOptionRow(int32_t& context_tokens_max);
Option SequencesOptionRow(int32_t& sequences_max);
Option AdaptersRootOptionRow(std::vector<std::string>& roots);
Option StrictTargetsOptionRow(bool& strict_targets);
Option TextOnlyOptionRow(bool& text_only);
Option AdaptersMaxOptionRow(int32_t& adapters_max);
Option PoolGibOptionRow(double& pool_gib);
// The flag, and the key of --tune that has all ways.
std::vector<Option> ColdStartOptionRows(ColdStart& cold_start);
Option CpuAssistOptionRow(std::optional<CpuAssistPlace>& cpu_assist);
Option TurnOptionRow(int64_t& turn_ns);

// Off where no step would ask for it.
CpuAssistPlace CpuAssistOf(const RuntimeOptions& options);

// Each rank's share of them, one at least.
int ThreadsOfRank(const RuntimeOptions& options);

// Checks what no option can check alone: whether they go together, and fit this machine.
Status CheckOptions(const RuntimeOptions& options);

}  // namespace graft
