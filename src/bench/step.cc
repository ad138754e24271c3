// graft-bench step: the executor alone, step by step: decode steps at given batches and contexts
// for each mix of adapters, and a prefill step, against the least time that their bytes allow.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>

#include "base/clock.h"
#include "base/random.h"
#include "bench/bench_commands.h"
#include "bench/bench_workload.h"
#include "bench/merged_weights.h"
#include "bench/placed_adapters.h"
#include "bench/step_report.h"
#include "kernels/common/bench_data.h"
#include "kernels/peak/peak.h"
#include "model/lora_module.h"
#include "model/transformer_sizes.h"
#include "profile/report.h"
#include "profile/step_plans.h"
#include "profile/synthetic_adapter.h"
#include "runtime/runtime.h"

namespace graft {
namespace {

struct BenchStepOptions {
  RuntimeOptions runtime;
  std::string shape;
  std::string json;
  std::vector<int> batches = {32};
  std::vector<int> contexts = {512};
  int context_min = 0;
  std::vector<int> adapters;
  std::vector<int> mixed_tokens;
  std::vector<int> drafts;
  std::vector<double> acceptance = {0.6, 0.8};
  bool masked = false;
  int prefill_tokens = 2048;
  int prefill_adapters = 4;
  std::vector<int> ranks = {16};
  int steps = 100;
  int warmup_steps = 10;
  bool ablations = false;
  int rank_of = 1;
  LinkModel link;
  int turn_steps = 256;
  uint64_t seed = 1;
};

constexpr double kGib = int64_t{1} << 30;

// Without LoRA; with it; with LoRA always after the products.
enum class Server : uint8_t { kPlain, kLora, kAfter };

struct Mix {
  std::string name;
  Server server = Server::kLora;
  std::vector<int32_t> adapters;  // per sequence, ascending; kNoAdapter: base
  int32_t context = 0;            // tokens of a sequence in a decode step, see Contexts
  int32_t prompt_tokens = 0;      // that the first sequence computes instead, from its beginning
  int32_t drafts = 0;             // of each sequence in a decode step
  bool masked = false;            // draws are bound to masks
};

class StepBench {
 public:
  explicit StepBench(const BenchStepOptions& options) : options_(options) {}
  Status Run();

 private:
  Status Prepare();
  RuntimeOptions ServerOptions(Server server) const;
  std::vector<Server> Servers() const;
  int64_t PoolBytes(const ServedShape& shape) const;
  Status CheckFits(const ServedShape& shape, const MemoryBudget& budget, MemorySum sum) const;
  std::vector<Mix> Mixes(int32_t batch, int32_t context, int32_t prompt_tokens) const;
  StepPlan MakeDecode(const Mix& mix) const;
  StepPlan MakePrefill(const Mix& mix) const;
  StepPlan MakePlan(const Mix& mix, int32_t rows, const std::vector<int32_t>& contexts) const;
  std::vector<int32_t> Contexts(int32_t batch, int32_t context) const;
  std::unique_ptr<Runtime>& PlaceOf(Server server) {
    switch (server) {
      case Server::kPlain:
        return plain_;
      case Server::kLora:
        return lora_;
      case Server::kAfter:
        return after_;
    }
    return lora_;
  }
  Runtime& RuntimeOf(const Mix& mix) { return *PlaceOf(mix.server); }
  void RunSteps(Runtime& runtime, StepPlan plan, int32_t steps, std::vector<double>* times);
  std::vector<double> MedianMs(const std::vector<Mix>& mixes,
                               StepPlan (StepBench::*make_plan)(const Mix&) const);
  StepParts FloorOf(const Mix& mix, int64_t kv_tokens) const;
  StepParts ProfileParts(Runtime& runtime, StepPlan plan);
  void RunDecodes();
  void RunDecode(int32_t batch, int32_t context, int32_t prompt_tokens);
  void RunPrefill();
  void MeasureMerge();
  void RunTurns();
  OrderedJson ToJson() const;

  const BenchStepOptions options_;
  int32_t batch_max_ = 0, context_max_ = 0, mixed_max_ = 0, drafts_max_ = 0;
  std::unique_ptr<LoadedModel> model_;
  std::map<Server, std::vector<int64_t>> slot_bytes_;  // of those with LoRA
  std::unique_ptr<MaskSource> masks_;
  std::unique_ptr<Runtime> plain_;
  std::unique_ptr<Runtime> lora_;
  std::unique_ptr<Runtime> after_;  // for ablations
  double gbytes_per_s_ = 0.0;
  std::vector<StepRow> decode_, prefill_;
  double merge_ms_ = 0.0;
  std::vector<TurnsRow> turns_;
};

Status StepBench::Prepare() {
  const BenchStepOptions& o = options_;
  if (o.context_min == 1 || o.context_min > *std::ranges::min_element(o.contexts)) {
    return InvalidArgumentError("--context-min must be 0 or from 2 to --context");
  }
  batch_max_ = *std::ranges::max_element(o.batches);
  context_max_ = *std::ranges::max_element(o.contexts);
  mixed_max_ = o.mixed_tokens.empty() ? 0 : *std::ranges::max_element(o.mixed_tokens);
  drafts_max_ = o.drafts.empty() ? 0 : *std::ranges::max_element(o.drafts);
  const int context_min = o.context_min > 0 ? o.context_min : *std::ranges::min_element(o.contexts);
  if (drafts_max_ + 2 > context_min) {
    return InvalidArgumentError("--drafts must leave two tokens of each context");
  }
  const auto check = [this](const ServedShape& shape, const MemoryBudget& budget, MemorySum sum) {
    return CheckFits(shape, budget, std::move(sum));
  };
  ASSIGN_OR_RETURN(model_, o.rank_of == 1 ? LoadBenchModel(o.runtime, o.shape, check)
                                          : LoadRankAlone(ServerOptions(Server::kLora), o.shape,
                                                          o.rank_of, o.link, check));
  for (const Server server : Servers()) {
    RuntimeOptions runtime = ServerOptions(server);
    runtime.pool_gib = static_cast<double>(PoolBytes(model_->shape())) / kGib + 1e-6;
    const bool lora = server != Server::kPlain;
    std::unique_ptr<Runtime>& made = PlaceOf(server);
    ASSIGN_OR_RETURN(made, Runtime::Create(runtime, *model_, lora));
    if (server == Server::kPlain && o.masked) {
      masks_ = MakeRandomMasks(model_->config.vocab_size, o.seed);
      made->executor().SetMasks(masks_.get());
    }
    if (lora) {
      ASSIGN_OR_RETURN(slot_bytes_[server],
                       PlaceSyntheticAdapters(*model_, o.ranks, o.seed, *made));
    }
  }
  return OkStatus();
}

std::vector<Server> StepBench::Servers() const {
  if (!options_.ablations) return {Server::kPlain, Server::kLora};
  return {Server::kPlain, Server::kAfter, Server::kLora};
}

RuntimeOptions StepBench::ServerOptions(Server server) const {
  const BenchStepOptions& o = options_;
  RuntimeOptions runtime = o.runtime;
  runtime.adapters.clear();
  runtime.host_gib = 0.0;  // adapters have slots of their own
  runtime.limits.sequences_max = std::max(batch_max_, o.prefill_adapters);
  runtime.limits.draft_tokens_max = drafts_max_;
  runtime.limits.step_tokens_max =
      std::max({batch_max_ * (1 + drafts_max_) + mixed_max_, o.prefill_tokens, 1});
  runtime.limits.context_tokens_max = std::max({context_max_, mixed_max_, o.prefill_tokens}) + 1;
  runtime.limits.adapters_max = std::max(batch_max_, o.prefill_adapters);
  if (server == Server::kAfter) runtime.lora = LoraTiming::kAfter;
  return runtime;
}

// What a server's own steps need.
int64_t StepBench::PoolBytes(const ServedShape& shape) const {
  const BenchStepOptions& o = options_;
  const RuntimeOptions runtime = ServerOptions(Server::kLora);
  const int page_tokens = runtime.limits.page_tokens;
  const int64_t page_bytes = MakeKvLayout(shape.config, page_tokens, shape.types.kv).PageBytes();
  const int64_t pages = int64_t{batch_max_} * (context_max_ / page_tokens + 1) +
                        (o.prefill_tokens + mixed_max_) / page_tokens + o.prefill_adapters +
                        runtime.limits.context_tokens_max / page_tokens + 1;
  return pages * page_bytes;
}

// All servers are there at once.
Status StepBench::CheckFits(const ServedShape& shape, const MemoryBudget& budget,
                            MemorySum sum) const {
  const int32_t context = ServerOptions(Server::kPlain).limits.context_tokens_max;
  if (context > shape.config.context_tokens_max) {
    return InvalidArgumentError("steps of " + std::to_string(context) +
                                " tokens are beyond the model's " +
                                std::to_string(shape.config.context_tokens_max) +
                                "; lower --context, --mixed-tokens or --prefill-tokens");
  }
  const SizeFlags flags = {.rows = "--prefill-tokens, --mixed-tokens, --batch",
                           .sequences = "--batch",
                           .context = "--context, --prefill-tokens",
                           .adapters = "--batch"};
  if (options_.ablations && !HasDenseTargets(shape.config)) {
    return UnimplementedError("--ablations does not cover the projections of " +
                              std::string(ArchitectureName(shape.config.architecture)));
  }
  if (options_.ablations) {
    sum.Add("projections with an adapter merged into them (--ablations)",
            MergedWeights::BytesFor(shape.config, shape.types.operands, shape.device));
  }
  for (const Server server : Servers()) {
    const RuntimeOptions runtime = ServerOptions(server);
    AddServer(runtime, shape, server != Server::kPlain, &sum, flags);
    sum.Add("keys and values of a server (--batch, --context, --prefill-tokens)", PoolBytes(shape));
    if (server == Server::kPlain) continue;
    const int64_t bytes = SyntheticAdaptersBytes(shape.config, runtime.limits.adapters_max,
                                                 options_.ranks, shape.types.adapters);
    sum.Add("adapters of a server (--batch, --ranks, --prefill-adapters)", bytes);
    if (server == Server::kLora && !shape.device.is_cpu()) {
      sum.AddOnHost("adapters as they are made (--batch, --ranks, --prefill-adapters)", bytes);
    }
  }
  return sum.Check(budget);
}

std::vector<Mix> StepBench::Mixes(int32_t batch, int32_t context, int32_t prompt_tokens) const {
  const std::vector<int32_t> base(batch, kNoAdapter);
  std::vector<Mix> mixes = {{"base, server without LoRA", Server::kPlain, base},
                            {"base rows, LoRA server", Server::kLora, base}};
  const auto num_base_mixes = std::ssize(mixes);
  constexpr std::pair<const char*, Popularity> kLaws[] = {{"identical", Popularity::kIdentical},
                                                          {"skewed", Popularity::kSkewed},
                                                          {"uniform", Popularity::kUniform},
                                                          {"distinct", Popularity::kDistinct}};
  for (const auto& [name, law] : kLaws) {
    Random random(options_.seed);
    Mix mix{name, Server::kLora, AssignAdapters(law, batch, batch, random)};
    std::sort(mix.adapters.begin(), mix.adapters.end());
    mixes.push_back(std::move(mix));
  }
  for (const int32_t adapters : options_.adapters) {
    if (adapters > batch) continue;
    mixes.push_back(
        {"adapters: " + std::to_string(adapters), Server::kLora, ShareOut(adapters, batch)});
  }
  if (options_.masked) {
    mixes.push_back(
        {.name = "base, draws masked", .server = Server::kPlain, .adapters = base, .masked = true});
  }
  for (const int32_t drafts : options_.drafts) {
    if (batch * (1 + drafts) > plain_->limits().draws_max) continue;
    mixes.push_back({.name = "base, drafts: " + std::to_string(drafts),
                     .server = Server::kPlain,
                     .adapters = base,
                     .drafts = drafts});
  }
  if (options_.ablations) {
    const std::vector<Mix> with_lora(mixes.begin() + num_base_mixes, mixes.end());
    for (Mix mix : with_lora) {
      mix.name += ", after the products";
      mix.server = Server::kAfter;
      mixes.push_back(std::move(mix));
    }
  }
  for (Mix& mix : mixes) {
    mix.context = context;
    mix.prompt_tokens = prompt_tokens;
  }
  return mixes;
}

std::vector<int32_t> StepBench::Contexts(int32_t batch, int32_t context) const {
  Random random(options_.seed);
  return SequenceLengths(batch, options_.context_min, context, random);
}

// Every sequence computes the last `rows_each` tokens of its context; what its pages hold does not
// matter.
StepPlan StepBench::MakePlan(const Mix& mix, int32_t rows_each,
                             const std::vector<int32_t>& contexts) const {
  std::vector<RowsOfSequence> sequences;
  for (size_t i = 0; i < mix.adapters.size(); ++i) {
    const bool is_prompt = i == 0 && mix.prompt_tokens > 0;
    const int32_t rows = is_prompt ? mix.prompt_tokens : rows_each + mix.drafts;
    sequences.push_back({.adapter = mix.adapters[i],
                         .rows = rows,
                         .position = is_prompt ? 0 : contexts[i] - rows,
                         .drafts = is_prompt ? 0 : mix.drafts,
                         .masked = mix.masked});
  }
  StepPlan plan =
      PlanRows(sequences, lora_->limits().page_tokens, model_->config.vocab_size, options_.seed);
  return plan;
}

StepPlan StepBench::MakeDecode(const Mix& mix) const {
  return MakePlan(mix, 1, Contexts(static_cast<int32_t>(mix.adapters.size()), mix.context));
}

StepPlan StepBench::MakePrefill(const Mix& mix) const {
  const size_t n = mix.adapters.size();
  const int32_t rows = options_.prefill_tokens / static_cast<int32_t>(n);
  return MakePlan(mix, rows, std::vector<int32_t>(n, rows));
}

void StepBench::RunSteps(Runtime& runtime, StepPlan plan, int32_t steps,
                         std::vector<double>* times) {
  for (int i = 0; i < options_.warmup_steps + steps; ++i) {
    ++plan.step_id;
    const int64_t begin_ns = SteadyClock::Get().NowNs();
    RunStep(runtime.executor(), plan);
    if (i >= options_.warmup_steps) {
      times->push_back(static_cast<double>(SteadyClock::Get().NowNs() - begin_ns) / 1e6);
    }
    plan.starts.clear();
  }
}

// In turns, so that heat and the clocks that follow it are the same for all.
std::vector<double> StepBench::MedianMs(const std::vector<Mix>& mixes,
                                        StepPlan (StepBench::*make_plan)(const Mix&) const) {
  constexpr int32_t kRounds = 5;
  std::vector<std::vector<double>> times(mixes.size());
  for (int32_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < mixes.size(); ++i) {
      RunSteps(RuntimeOf(mixes[i]), (this->*make_plan)(mixes[i]),
               (options_.steps + kRounds - 1) / kRounds, &times[i]);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& of_mix : times) medians.push_back(UpperMedian(std::move(of_mix)));
  return medians;
}

StepParts StepBench::ProfileParts(Runtime& runtime, StepPlan plan) {
  constexpr int kProfiles = 11;
  std::vector<double> gemm, lora, attention, rest;
  for (int i = 0; i <= kProfiles; ++i) {
    const ForwardTimes times = runtime.executor().Profile(plan);
    plan.starts.clear();
    if (i == 0) continue;
    const int64_t parts_ns = times.gemm_ns + times.lora_ns + times.attention_ns;
    gemm.push_back(static_cast<double>(times.gemm_ns) * 1e-6);
    lora.push_back(static_cast<double>(times.lora_ns) * 1e-6);
    attention.push_back(static_cast<double>(times.attention_ns) * 1e-6);
    rest.push_back(static_cast<double>(times.total_ns - parts_ns) * 1e-6);
  }
  return {UpperMedian(std::move(gemm)), UpperMedian(std::move(lora)),
          UpperMedian(std::move(attention)), UpperMedian(std::move(rest))};
}

// The least time for the bytes that a decode step reads.
StepParts StepBench::FloorOf(const Mix& mix, int64_t kv_tokens) const {
  const ModelWeights& weights = model_->weights;
  const KvLayout layout =
      MakeKvLayout(model_->rank_config, lora_->limits().page_tokens, model_->weights.types.kv);
  const std::vector<int64_t>& slot_bytes = slot_bytes_.at(Server::kLora);
  int64_t adapter_bytes = 0;
  for (size_t i = 0; i < mix.adapters.size(); ++i) {
    const bool first = i == 0 || mix.adapters[i] != mix.adapters[i - 1];
    if (first && mix.adapters[i] != kNoAdapter) adapter_bytes += slot_bytes[mix.adapters[i]];
  }
  const auto ms = [this](int64_t bytes) {
    return static_cast<double>(bytes) / gbytes_per_s_ / 1e6;
  };
  return {.gemm = ms(weights.bytes() - weights.embedding.bytes()),
          .lora = ms(adapter_bytes),
          .attention = ms(kv_tokens * (layout.PageBytes() / layout.page_tokens))};
}

void StepBench::RunDecodes() {
  for (const int32_t context : options_.contexts) {
    for (const int32_t batch : options_.batches) {
      RunDecode(batch, context, 0);
      for (const int32_t tokens : options_.mixed_tokens) RunDecode(batch, context, tokens);
    }
  }
}

void StepBench::RunDecode(int32_t batch, int32_t context, int32_t prompt_tokens) {
  std::printf(
      "%s",
      DecodeHeader(batch, options_.context_min, context, prompt_tokens, gbytes_per_s_).c_str());
  const std::vector<Mix> mixes = Mixes(batch, context, prompt_tokens);
  const std::vector<double> medians = MedianMs(mixes, &StepBench::MakeDecode);
  const std::vector<int32_t> contexts = Contexts(batch, context);
  const int64_t kv_tokens = std::accumulate(contexts.begin(), contexts.end(), int64_t{0});
  const size_t base = decode_.size();
  for (size_t i = 0; i < mixes.size(); ++i) {
    const Mix& mix = mixes[i];
    StepRow row{.name = mix.name,
                .batch = batch,
                .context = context,
                .context_min = options_.context_min,
                .prompt_tokens = prompt_tokens,
                .median_ms = medians[i]};
    row.floor = FloorOf(mix, kv_tokens);
    row.tokens_per_second = batch / row.median_ms * 1e3;
    row.ratio = i == 0 ? 1.0 : decode_[base].median_ms / row.median_ms;
    row.bytes_ratio = i == 0 ? 1.0 : decode_[base].floor.Total() / row.floor.Total();
    row.parts = ProfileParts(RuntimeOf(mix), MakeDecode(mix));
    std::printf("%s\n", DecodeRowText(row).c_str());
    if (mix.drafts > 0) {
      row.drafts = SpeedupsOfDrafts(mix.drafts, row.ratio, options_.acceptance);
      std::printf("%s\n", DraftsText(row.drafts).c_str());
    }
    std::fflush(stdout);
    decode_.push_back(std::move(row));
  }
}

void StepBench::RunPrefill() {
  const int32_t n = options_.prefill_adapters;
  if (options_.prefill_tokens < n) return;
  std::vector<int32_t> slots(n);
  std::iota(slots.begin(), slots.end(), 0);
  std::vector<Mix> mixes = {
      {"base, server without LoRA", Server::kPlain, std::vector<int32_t>(n, kNoAdapter)},
      {"base rows, LoRA server", Server::kLora, std::vector<int32_t>(n, kNoAdapter)},
      {std::to_string(n) + " adapters", Server::kLora, slots}};
  if (options_.ablations) {
    mixes.push_back({"1 adapter", Server::kLora, std::vector<int32_t>(n, 0)});
  }
  std::printf("\nprefill, %d tokens in %d sequences\n%-26s %8s %8s %7s%s\n",
              options_.prefill_tokens, n, "adapters", "ms", "tok/s", "/ base",
              StepPartsHeader(/*with_floor=*/false).c_str());
  const std::vector<double> medians = MedianMs(mixes, &StepBench::MakePrefill);
  for (size_t i = 0; i < mixes.size(); ++i) {
    const Mix& mix = mixes[i];
    StepRow row{.name = mix.name, .median_ms = medians[i]};
    row.tokens_per_second = options_.prefill_tokens / row.median_ms * 1e3;
    row.ratio = prefill_.empty() ? 1.0 : prefill_[0].median_ms / row.median_ms;
    row.parts = ProfileParts(RuntimeOf(mix), MakePrefill(mix));
    std::printf("%-26s %8.3f %8.0f %7.3f%s\n", row.name.c_str(), row.median_ms,
                row.tokens_per_second, row.ratio, StepPartsText(row).c_str());
    std::fflush(stdout);
    prefill_.push_back(std::move(row));
  }
}

// What it takes to merge an adapter into a copy of the weights.
void StepBench::MeasureMerge() {
  constexpr int kMerges = 9;
  LoraStore& loras = lora_->loras();
  const LoraTable table{.matrices = loras.matrices(0, LoraModule::kQ),
                        .stride = loras.matrices_stride(),
                        .rank_max = loras.rank_max()};
  MergedWeights merged(model_->rank_config, model_->weights);
  std::vector<double> times;
  for (int i = -1; i < kMerges; ++i) {
    const int64_t begin_ns = SteadyClock::Get().NowNs();
    merged.Merge(table, 0, model_->stream);
    const double ms = static_cast<double>(SteadyClock::Get().NowNs() - begin_ns) / 1e6;
    if (i >= 0) times.push_back(ms);  // the first one warms up
  }
  merge_ms_ = UpperMedian(std::move(times));
  std::printf("\nmerging one adapter: %.2f ms\n", merge_ms_);
}

// S-LoRA's Figure 7: a batch of several adapters, or each in its turn alone, merged. What a turn
// takes is put together from the merge and its steps, which on merged weights are the base's.
void StepBench::RunTurns() {
  std::printf("\n%d sequences of several adapters: in one batch, or in turns of %d steps, merged\n",
              batch_max_, options_.turn_steps);
  std::printf("%8s %12s %10s %12s %10s %8s\n", "adapters", "batched ms", "tok/s", "merged ms",
              "tok/s", "ratio");
  std::vector<Mix> mixes;
  for (int32_t n = 1; n <= std::min(batch_max_, 8); n *= 2) {
    mixes.push_back({.adapters = ShareOut(n, batch_max_), .context = context_max_});
    mixes.push_back({.server = Server::kPlain,
                     .adapters = std::vector<int32_t>(batch_max_ / n, kNoAdapter),
                     .context = context_max_});
  }
  const std::vector<double> medians = MedianMs(mixes, &StepBench::MakeDecode);
  for (size_t i = 0; i < mixes.size(); i += 2) {
    TurnsRow row{.num_adapters = mixes[i].adapters.back() + 1,
                 .batched_ms = medians[i],
                 .merged_ms = medians[i + 1]};
    const auto rows = static_cast<double>(mixes[i + 1].adapters.size());
    const double turn_ms = merge_ms_ + options_.turn_steps * row.merged_ms;
    row.batched_tokens_per_second = batch_max_ / row.batched_ms * 1e3;
    // One adapter stays merged.
    row.merged_tokens_per_second = row.num_adapters == 1
                                       ? rows / row.merged_ms * 1e3
                                       : rows * options_.turn_steps / turn_ms * 1e3;
    std::printf("%8d %12.3f %10.0f %12.3f %10.0f %8.3f\n", row.num_adapters, row.batched_ms,
                row.batched_tokens_per_second, row.merged_ms, row.merged_tokens_per_second,
                row.merged_tokens_per_second / row.batched_tokens_per_second);
    std::fflush(stdout);
    turns_.push_back(row);
  }
}

OrderedJson StepBench::ToJson() const {
  return {{"machine", DescribeMachine()},
          {"device", DescribeDevice(model_->device)},
          {"shape", BenchModelName(options_.runtime, options_.shape)},
          {"dtype", std::string(DTypeName(model_->weights.types.operands))},
          {"copy_gbytes_per_s", gbytes_per_s_},
          {"layers", model_->config.num_layers},
          {"rank", RankOfJson(options_.rank_of, options_.link)},
          {"ranks", options_.ranks},
          {"decode", StepRowsJson(decode_)},
          {"prefill_tokens", options_.prefill_tokens},
          {"prefill", StepRowsJson(prefill_)},
          {"merge_ms", merge_ms_},
          {"turn_steps", options_.turn_steps},
          {"turns", TurnsJson(turns_)}};
}

Status StepBench::Run() {
  RETURN_IF_ERROR(Prepare());
  for (Runtime* server : {plain_.get(), lora_.get(), after_.get()}) {
    if (server != nullptr) server->RecordGraphs(/*quiet=*/false);
  }
  gbytes_per_s_ = MeasureCopyGbytesPerSecond(model_->stream);
  std::printf("%s, %s, %.0f MiB of weights, copies at %.0f GB/s\n",
              DescribeDevice(model_->device).c_str(),
              std::string(DTypeName(model_->weights.types.operands)).c_str(),
              static_cast<double>(model_->weights.bytes()) / (1 << 20), gbytes_per_s_);
  const size_t num_exchanges = RankSumsOf(model_->config).size() + 1;  // the logits
  std::printf("%s", RankOfText(options_.rank_of, num_exchanges, options_.link).c_str());
  if (options_.ablations) MeasureMerge();
  RunDecodes();
  RunPrefill();
  if (options_.ablations) RunTurns();
  return WriteJson(options_.json, ToJson());
}

}  // namespace

Command BenchStepCommand() {
  const auto options = std::make_shared<BenchStepOptions>();  // lives as long as the command
  return {
      .name = "step",
      .help = "Time single steps of the executor, decode and prefill, for each mix of adapters.",
      .groups =
          {{"Model", BenchModelOptionRows(options->shape, options->runtime)},
           {"Steps",
            {{"batch", Numbers(options->batches, Between(1, 2048)),
              "sequences of a decode step, several in turn"},
             {"context", Numbers(options->contexts, AtLeast(2)),
              "tokens of each sequence in a decode step, several in turn"},
             {"context-min", Number(options->context_min, AtLeast(0)),
              "contexts spread evenly from here to --context instead, in random order; 0: all "
              "alike"},
             {"adapters", Numbers(options->adapters, AtLeast(1)),
              "also decode steps over so many adapters, each for as many rows; in turn, where the "
              "batch has so many rows"},
             {"mixed-tokens", Numbers(options->mixed_tokens, AtLeast(1)),
              "also decode steps in which one sequence computes so many tokens of a prompt, in "
              "turn"},
             {"masked", Switch(options->masked),
              "also decode steps in which every draw is bound to a mask of its own, as a grammar's "
              "is"},
             {"drafts", Numbers(options->drafts, Between(1, 64)),
              "also decode steps in which every sequence has so many drafts, in turn, where a step "
              "may "
              "draw as often"},
             {"acceptance", Numbers(options->acceptance, Between(0, 1)),
              "probabilities that a draft is right after others were, for what steps with drafts "
              "would bring"},
             {"ranks", Numbers(options->ranks, Between(1, kLoraRankMax)),
              "ranks of the adapters, in turn"},
             {"prefill-tokens", Number(options->prefill_tokens, AtLeast(0)),
              "of a prefill step; 0: none"},
             {"prefill-adapters", Number(options->prefill_adapters, Between(1, 2048)),
              "sequences of a prefill step, each with its own adapter"},
             {"steps", Number(options->steps, AtLeast(1)), "timed steps of each kind"},
             {"ablations", Switch(options->ablations),
              "also LoRA after the products, and adapters in turns, each merged into the "
              "weights"},
             {"turn-steps", Number(options->turn_steps, AtLeast(1)),
              "decode steps of one merged adapter before the next one's turn"},
             JsonOptionRow(options->json)}},
           {"One rank of several", RankOfOptionRows(options->rank_of, options->link)}},
      .run = [options] { return StepBench(*options).Run(); }};
}

}  // namespace graft
