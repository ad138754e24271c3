// Steps over batches, ranks, contexts and prompts, what serving adds to them, and the lines through
// all that (placement/cost_model.h), in a file that `graft frontend --placement-costs` reads.
#include "profile/profile.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "placement/cost_model.h"
#include "profile/report.h"
#include "profile/served_costs.h"
#include "profile/step_plans.h"
#include "profile/synthetic_adapter.h"
#include "runtime/runtime.h"

namespace graft {
namespace {

struct ProfileOptions {
  RuntimeOptions runtime;
  std::string shape;
  std::string json;
  std::vector<int> batches = {1, 2, 4, 8, 16, 32};
  std::vector<int> contexts = {64, 512};
  std::vector<int> ranks = {8, 16, 32, 64};
  std::vector<int> prompts = {64, 128, 256, 512};
  int steps = 20;
  int serve_runners = 1;
  uint64_t seed = 1;
};

// The most requests that are served at once: each has a thread in the client.
constexpr int kServedBatchMax = 16;

// A step that is timed.
struct ProfiledStep {
  std::string name;
  std::vector<RowsOfSequence> sequences;
  StepWork work;
  bool is_decode = true;  // at the longest context; of prompts, one alone
  std::vector<double> times_ms;
  double median_ms = 0.0;
};

class Profile {
 public:
  explicit Profile(const ProfileOptions& options) : options_(options) {}
  Status Run();

 private:
  Status Prepare();
  Status PlanMemory(const ServedShape& shape, const MemoryBudget& budget, MemorySum sum,
                    RuntimeOptions* runtime);
  Status MakeAdapters();
  void AddDecodes();
  void AddPrompts();
  RowsOfSequence RowsOf(int rank, size_t place, int32_t rows, int32_t position) const;
  void Add(std::string name, std::vector<RowsOfSequence> sequences, bool counts);
  void Time();
  Status Fit();
  Status FitSteps(const std::vector<double>& ms);
  Status Serve();
  ServedCostsOptions ServedOptions() const;
  void PrintLine(const char* of, const char* unit, const CostLine& line) const;
  CostLine FitDecodes(bool pads) const;
  OrderedJson Figures() const;

  const ProfileOptions options_;
  int32_t batch_max_ = 0, context_max_ = 0, prompt_max_ = 0;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<Runtime> runtime_;
  std::vector<int32_t> ranks_;  // by adapter slot
  std::vector<double> load_ranks_, load_ms_;
  std::vector<ProfiledStep> steps_;
  CostModel costs_;
  int64_t page_bytes_ = 0;
  std::string device_, dtype_;
  std::vector<ServedFigure> served_;
};

Status Profile::Prepare() {
  const ProfileOptions& o = options_;
  batch_max_ = *std::ranges::max_element(o.batches);
  context_max_ = *std::ranges::max_element(o.contexts);
  prompt_max_ = *std::ranges::max_element(o.prompts);
  RuntimeOptions runtime = o.runtime;
  runtime.adapters.clear();
  runtime.limits.sequences_max = batch_max_ + 1;
  runtime.limits.step_tokens_max = batch_max_ + prompt_max_;
  runtime.limits.context_tokens_max = std::max(context_max_, prompt_max_) + 1;
  // Each request of a step has an adapter of its own, whatever its rank.
  runtime.limits.adapters_max = (batch_max_ + 1) * static_cast<int32_t>(std::ssize(o.ranks));
  runtime.host_gib = 0.0;  // adapters have slots of their own
  const auto check = [this, &runtime](const ServedShape& shape, const MemoryBudget& budget,
                                      MemorySum sum) {
    return PlanMemory(shape, budget, std::move(sum), &runtime);
  };
  ASSIGN_OR_RETURN(model_, LoadBenchModel(runtime, o.shape, check));
  ASSIGN_OR_RETURN(runtime_, Runtime::Create(runtime, *model_, /*lora=*/true));
  device_ = DescribeDevice(model_->device);
  dtype_ = std::string(DTypeName(model_->weights.types.operands));
  return MakeAdapters();
}

// Chooses the pool, too.
Status Profile::PlanMemory(const ServedShape& shape, const MemoryBudget& budget, MemorySum sum,
                           RuntimeOptions* runtime) {
  if (runtime->limits.context_tokens_max > shape.config.context_tokens_max) {
    return InvalidArgumentError("steps of " + std::to_string(runtime->limits.context_tokens_max) +
                                " tokens are beyond the model's " +
                                std::to_string(shape.config.context_tokens_max) +
                                "; lower --context or --prompt");
  }
  page_bytes_ = MakeKvLayout(shape.config, runtime->limits.page_tokens, shape.types.kv).PageBytes();
  const int64_t pages = int64_t{batch_max_} * (context_max_ / runtime->limits.page_tokens + 1) +
                        prompt_max_ / runtime->limits.page_tokens + 2;
  runtime->pool_gib = static_cast<double>(pages * page_bytes_) / (int64_t{1} << 30) + 1e-6;
  const SizeFlags flags = {.rows = "--prompt, --batch",
                           .sequences = "--batch",
                           .context = "--context, --prompt",
                           .adapters = "--batch, --ranks",
                           .pool = "--batch, --context"};
  AddServer(*runtime, shape, /*lora=*/true, &sum, flags);
  AddLeastPool(*runtime, shape, /*lora=*/true, &sum, flags);
  const int64_t adapters = SyntheticAdaptersBytes(shape.config, runtime->limits.adapters_max,
                                                  options_.ranks, shape.types.adapters);
  sum.Add("adapters (--batch, --ranks)", adapters);
  if (!shape.device.is_cpu()) {
    sum.AddOnHost("adapters as they are made (--batch, --ranks)", adapters);
  }
  return sum.Check(budget);
}

Status Profile::MakeAdapters() {
  const int32_t count = runtime_->limits().adapters_max;
  ASSIGN_OR_RETURN(
      std::vector<LoraWeights> adapters,
      MakeSyntheticAdapters(model_->config, count, options_.ranks, model_->weights.types.adapters,
                            options_.seed, *model_->threads));
  for (int32_t slot = 0; slot < count; ++slot) {
    const auto idx = static_cast<size_t>(slot);
    ranks_.push_back(options_.ranks[idx % options_.ranks.size()]);
    const int64_t begin_ns = SteadyClock::Get().NowNs();
    runtime_->loras().Set(slot, std::move(adapters[idx]).TakeRows());
    load_ms_.push_back(static_cast<double>(SteadyClock::Get().NowNs() - begin_ns) * 1e-6);
    load_ranks_.push_back(ranks_.back());
  }
  return OkStatus();
}

// A sequence with the place-th adapter of the rank; 0: base, -1: ranks in turn.
RowsOfSequence Profile::RowsOf(int rank, size_t place, int32_t rows, int32_t position) const {
  if (rank == 0) return {kNoAdapter, rows, position};
  const size_t num_ranks = options_.ranks.size();
  if (rank < 0) return {static_cast<AdapterSlot>(place), rows, position};
  const auto of_rank =
      static_cast<size_t>(std::ranges::find(options_.ranks, rank) - options_.ranks.begin());
  return {static_cast<AdapterSlot>(place * num_ranks + of_rank), rows, position};
}

void Profile::Add(std::string name, std::vector<RowsOfSequence> sequences, bool counts) {
  ProfiledStep step{.name = std::move(name), .is_decode = counts};
  for (const RowsOfSequence& one : sequences) {
    const int32_t rank = one.adapter == kNoAdapter ? 0 : ranks_[static_cast<size_t>(one.adapter)];
    step.work.Add(rank, one.rows, one.position);
  }
  std::ranges::stable_sort(sequences, {}, &RowsOfSequence::adapter);
  step.sequences = std::move(sequences);
  steps_.push_back(std::move(step));
}

void Profile::AddDecodes() {
  std::vector<int> mixes = {0, -1};
  mixes.insert(mixes.end(), options_.ranks.begin(), options_.ranks.end());
  for (const int context : options_.contexts) {
    for (const int batch : options_.batches) {
      for (const int rank : mixes) {
        std::vector<RowsOfSequence> sequences;
        for (int i = 0; i < batch; ++i) {
          sequences.push_back(RowsOf(rank, static_cast<size_t>(i), 1, context - 1));
        }
        const std::string of = rank < 0    ? "all ranks in turn"
                               : rank == 0 ? "base"
                                           : "rank " + std::to_string(rank);
        Add(std::to_string(batch) + " rows at " + std::to_string(context) + ", " + of,
            std::move(sequences), context == context_max_);
      }
    }
  }
}

// A prompt alone, of the first rank and of the largest, and beside half of the largest batch.
void Profile::AddPrompts() {
  const int first = options_.ranks.front();
  const int largest = *std::ranges::max_element(options_.ranks);
  for (const int tokens : options_.prompts) {
    const std::string name = "prompt of " + std::to_string(tokens);
    Add(name + ", rank " + std::to_string(first), {RowsOf(first, 0, tokens, 0)}, false);
    if (largest != first) {
      Add(name + ", rank " + std::to_string(largest), {RowsOf(largest, 0, tokens, 0)}, false);
    }
    const int beside = batch_max_ / 2;
    if (beside == 0) continue;
    std::vector<RowsOfSequence> sequences = {RowsOf(first, 0, tokens, 0)};
    for (int i = 1; i <= beside; ++i) {
      sequences.push_back(RowsOf(first, static_cast<size_t>(i), 1, context_max_ - 1));
    }
    Add(name + " beside " + std::to_string(beside) + " rows", std::move(sequences), false);
  }
}

// All in turns, so that heat and the clocks that follow it are the same for all.
void Profile::Time() {
  constexpr int kRounds = 5;
  constexpr int kWarmSteps = 2;
  const int steps = (options_.steps + kRounds - 1) / kRounds;
  uint64_t step_id = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (ProfiledStep& one : steps_) {
      StepPlan plan = PlanRows(one.sequences, runtime_->limits().page_tokens,
                               model_->config.vocab_size, options_.seed);
      for (int i = 0; i < kWarmSteps + steps; ++i) {
        plan.step_id = ++step_id;
        const int64_t begin_ns = SteadyClock::Get().NowNs();
        RunStep(runtime_->executor(), plan);
        plan.starts.clear();
        if (i < kWarmSteps) continue;
        one.times_ms.push_back(static_cast<double>(SteadyClock::Get().NowNs() - begin_ns) * 1e-6);
      }
    }
  }
  for (ProfiledStep& one : steps_) one.median_ms = UpperMedian(one.times_ms);
}

CostLine Profile::FitDecodes(bool pads) const {
  CostModel units;
  units.pads = pads;
  std::vector<double> x, ms;
  for (const ProfiledStep& one : steps_) {
    if (!one.is_decode) continue;
    x.push_back(units.UnitsOf(one.work.ranks));
    ms.push_back(one.median_ms);
  }
  return FitLine(x, ms);
}

// Prompts of few lengths, one context or one rank do not tell apart what only differs with that.
Status Profile::FitSteps(const std::vector<double>& ms) {
  struct Column {
    double CostModel::*cost;
    std::function<double(const StepWork&)> units;
  };
  std::vector<Column> columns = {
      {&CostModel::step_ms, [](const StepWork&) { return 1.0; }},
      {&CostModel::step_ms_per_row, [](const StepWork& of) { return of.ranks.num_requests; }},
      {&CostModel::step_ms_per_unit,
       [this](const StepWork& of) { return costs_.UnitsOf(of.ranks); }},
      {&CostModel::step_ms_per_prompt_token, [](const StepWork& of) { return of.prompt_tokens; }}};
  if (options_.contexts.size() > 1) {
    columns.push_back({&CostModel::step_ms_per_context_token,
                       [](const StepWork& of) { return of.context_tokens; }});
  }
  if (options_.prompts.size() > 1) {
    columns.push_back({&CostModel::step_ms_with_prompts,
                       [](const StepWork& of) { return of.prompt_tokens > 0 ? 1.0 : 0.0; }});
  }
  if (options_.ranks.size() > 1 || options_.batches.size() > 1) {
    columns.push_back({&CostModel::step_ms_with_adapters,
                       [](const StepWork& of) { return of.ranks.sum > 0 ? 1.0 : 0.0; }});
  }
  if (options_.prompts.size() > 2) {
    columns.push_back(
        {&CostModel::step_ms_per_prompt_pair, [](const StepWork& of) { return of.prompt_pairs; }});
  }
  if (options_.ranks.size() > 1) {
    columns.push_back({&CostModel::step_ms_per_prompt_unit,
                       [this](const StepWork& of) { return costs_.PromptUnitsOf(of); }});
  }
  std::vector<std::vector<double>> rows;
  for (const ProfiledStep& step : steps_) {
    rows.emplace_back();
    for (const Column& column : columns) rows.back().push_back(column.units(step.work));
  }
  ASSIGN_OR_RETURN(const std::vector<double> fitted, FitColumns(rows, ms));
  for (size_t i = 0; i < columns.size(); ++i) costs_.*columns[i].cost = fitted[i];
  return OkStatus();
}

Status Profile::Fit() {
  costs_.decode = FitDecodes(/*pads=*/false);
  std::vector<double> tokens, prompt_ms, ms, predicted;
  for (const ProfiledStep& one : steps_) {
    ms.push_back(one.median_ms);
    const bool is_prompt = one.sequences.size() == 1 && one.work.prompt_tokens > 0;
    if (!is_prompt || one.work.ranks.sum != options_.ranks.front()) continue;
    tokens.push_back(static_cast<double>(one.work.prompt_tokens + 1));
    prompt_ms.push_back(one.median_ms);
  }
  costs_.prompt = FitLine(tokens, prompt_ms);
  RETURN_IF_ERROR(FitSteps(ms));
  for (const ProfiledStep& one : steps_) predicted.push_back(costs_.ExecutorMs(one.work));
  costs_.step_r_squared = std::max(0.0, RSquared(ms, predicted));
  const CostLine load = FitLine(load_ranks_, load_ms_);
  costs_.load_ms = std::max(0.0, load.base_ms);
  costs_.load_ms_per_rank = std::max(0.0, load.ms_per_unit);
  for (CostLine* const line : {&costs_.decode, &costs_.prompt}) {
    line->base_ms = std::max(0.0, line->base_ms);
    line->ms_per_unit = std::max(0.0, line->ms_per_unit);
  }
  return OkStatus();
}

void Profile::PrintLine(const char* of, const char* unit, const CostLine& line) const {
  std::printf("%-8s %-28s %10.4f ms + %9.6f ms a unit, R squared %.3f\n", of, unit, line.base_ms,
              line.ms_per_unit, line.r_squared);
}

OrderedJson Profile::Figures() const {
  OrderedJson json = ToJson(costs_);
  json["other_unit"] = {{"unit", "batch times largest rank"},
                        {"r_squared", FitDecodes(/*pads=*/true).r_squared}};
  json["machine"] = DescribeMachine();
  json["device"] = device_;
  json["model"] = BenchModelName(options_.runtime, options_.shape);
  json["dtype"] = dtype_;
  OrderedJson steps = OrderedJson::array();
  for (const ProfiledStep& one : steps_) {
    steps.push_back({{"step", one.name},
                     {"requests", one.work.ranks.num_requests},
                     {"sum_of_ranks", one.work.ranks.sum},
                     {"largest_rank", one.work.ranks.largest},
                     {"prompt_tokens", one.work.prompt_tokens},
                     {"context_tokens", one.work.context_tokens},
                     {"median_ms", one.median_ms},
                     {"predicted_ms", costs_.ExecutorMs(one.work)}});
  }
  json["steps"] = std::move(steps);
  OrderedJson served = OrderedJson::array();
  for (const ServedFigure& one : served_) {
    served.push_back({{"what", one.what}, {"median_ms", one.ms}, {"executor_ms", one.executor_ms}});
  }
  json["served_figures"] = std::move(served);
  return json;
}

ServedCostsOptions Profile::ServedOptions() const {
  const RuntimeOptions& runtime = options_.runtime;
  ServedCostsOptions served;
  served.model = runtime.model;
  served.vocab_size = model_->config.vocab_size;
  served.num_runners = options_.serve_runners;
  for (const int batch : options_.batches) {
    if (batch <= kServedBatchMax) served.batches.push_back(batch);
  }
  if (served.batches.empty()) served.batches = {kServedBatchMax};
  const int32_t context_max = model_->config.context_tokens_max;
  for (const int prompt : options_.prompts) {
    served.prompts.push_back(std::min(prompt, context_max - kServedFirst));
  }
  served.rounds = std::max(1, options_.steps / 4);
  served.seed = options_.seed;
  const int batch = *std::ranges::max_element(served.batches);
  const int prompt = *std::ranges::max_element(served.prompts);
  const int context = std::max(kServedPrompt + kServedOutput, prompt + kServedFirst);
  const int64_t pages = 2 * int64_t{batch} * (context / runtime.limits.page_tokens + 2);
  const double pool_gib = static_cast<double>(pages * page_bytes_) / (int64_t{1} << 30);
  served.runner_arguments = {"--device=" + runtime.device.ToString(),
                             "--threads=" + std::to_string(runtime.threads),
                             std::string("--dtype=") + WordOf(runtime.dtype, kServingDTypeWords),
                             "--memory-gib=" + std::to_string(runtime.memory_gib),
                             "--prefix-cache=false",
                             "--sequences-max=" + std::to_string(batch),
                             "--context-tokens-max=" + std::to_string(context),
                             "--pool-gib=" + std::to_string(pool_gib)};
  return served;
}

// Its own model goes first, so that the runners' find room.
Status Profile::Serve() {
  const ServedCostsOptions options = ServedOptions();
  runtime_.reset();
  model_.reset();
  ASSIGN_OR_RETURN(ServedMeasurement served, MeasureServedCosts(options, costs_));
  costs_.served = std::move(served.costs);
  served_ = std::move(served.figures);
  std::printf("\n%-44s %10s %10s\n", "served", "median ms", "executor");
  for (const ServedFigure& one : served_) {
    if (one.executor_ms > 0.0) {
      std::printf("%-44s %10.3f %10.3f\n", one.what.c_str(), one.ms, one.executor_ms);
    } else {
      std::printf("%-44s %10.3f\n", one.what.c_str(), one.ms);
    }
  }
  std::printf("\nserved   %.4f ms a first token, %.4f ms a step + %.6f a further row\n",
              costs_.served.first_token_ms, costs_.served.step_ms, costs_.served.ms_per_row);
  for (size_t i = 1; i < costs_.served.decode_slowness.size(); ++i) {
    std::printf("%zu busy   decode takes %.3f times as long, prompts %.3f times\n", i + 1,
                costs_.served.decode_slowness[i], costs_.served.prompt_slowness[i]);
  }
  return OkStatus();
}

Status Profile::Run() {
  RETURN_IF_ERROR(Prepare());
  AddDecodes();
  AddPrompts();
  runtime_->RecordGraphs(/*quiet=*/false);
  Time();
  RETURN_IF_ERROR(Fit());
  std::printf("%s, %s, %zu steps, %d times each\n\n%-44s %10s %10s\n", device_.c_str(),
              dtype_.c_str(), steps_.size(), options_.steps, "step", "median ms", "predicted");
  for (const ProfiledStep& one : steps_) {
    std::printf("%-44s %10.3f %10.3f\n", one.name.c_str(), one.median_ms,
                costs_.ExecutorMs(one.work));
  }
  std::printf("\n");
  PrintLine("decode", "sum of ranks", FitDecodes(/*pads=*/false));
  PrintLine("decode", "batch times largest rank", FitDecodes(/*pads=*/true));
  PrintLine("prompt", "tokens", costs_.prompt);
  std::printf(
      "step     %.4f ms + %.6f a row + %.6f a unit + %.8f a token of context, R squared %.3f\n",
      costs_.step_ms, costs_.step_ms_per_row, costs_.step_ms_per_unit,
      costs_.step_ms_per_context_token, costs_.step_r_squared);
  std::printf(
      "         %.4f ms with adapters; %.4f ms with prompts + %.6f ms a token + %.8f a unit + %.8f "
      "a token and token before it\n",
      costs_.step_ms_with_adapters, costs_.step_ms_with_prompts, costs_.step_ms_per_prompt_token,
      costs_.step_ms_per_prompt_unit, costs_.step_ms_per_prompt_pair);
  std::printf("load     %.4f ms + %.6f ms a rank\n", costs_.load_ms, costs_.load_ms_per_rank);
  // A shape has no tokenizer and no weights for runners.
  if (options_.serve_runners > 0 && options_.shape.empty()) RETURN_IF_ERROR(Serve());
  return WriteJson(options_.json, Figures());
}

}  // namespace

Command ProfileCommand() {
  const auto options = std::make_shared<ProfileOptions>();  // lives as long as the command
  return {
      .name = "profile",
      .help =
          "Measure what steps take on this machine, for graft frontend --placement-costs.\n"
          "  graft profile --model demo/base --json costs.json",
      .groups = {{"Model", BenchModelOptionRows(options->shape, options->runtime)},
                 {"Steps",
                  {{"batch", Numbers(options->batches, Between(1, 512)),
                    "sequences of decode steps, in turn"},
                   {"context", Numbers(options->contexts, AtLeast(2)),
                    "tokens of each sequence in them, in turn; the costs of context are known from "
                    "two on"},
                   {"ranks", Numbers(options->ranks, Between(1, kLoraRankMax)),
                    "of the adapters, all of one rank, and all in turn"},
                   {"prompt", Numbers(options->prompts, AtLeast(2)), "tokens of prompts, in turn"},
                   {.name = "lora-kernel",
                    .target = Removed("segmented", "was removed: runners have one kernel"),
                    .is_removed = true},
                   {"steps", Number(options->steps, AtLeast(1)), "timed steps of each kind"},
                   {"serve-runners", Number(options->serve_runners, Between(0, 64)),
                    "runners that are started with a frontend, to time served requests with one "
                    "to all of them busy; 1: a server without a frontend; 0, and with --shape: the "
                    "executor alone"},
                   JsonOptionRow(options->json)}}},
      .run = [options] { return Profile(*options).Run(); }};
}

}  // namespace graft
