// graft-bench serve: tokens per second and latencies of a whole server, always beside a run of the
// base model alone, so that what LoRA costs is one number. Scenarios alternate within each round,
// so that a noisy machine is noisy for all of them; a round during which the machine's bandwidth
// changed is run again, since its ratios would compare two machines.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "bench/bench_commands.h"
#include "bench/bench_workload.h"
#include "bench/stand_in_tokenizer.h"
#include "kernels/peak/peak.h"
#include "profile/load_generator.h"
#include "profile/report.h"
#include "profile/synthetic_adapter.h"
#include "runtime/runtime.h"
#include "server/server.h"
#include "sim/simulation_report.h"
#include "sim/trace.h"

namespace graft {
namespace {

constexpr OptionWord<Popularity> kPopularityWords[] = {{Popularity::kDistinct, "distinct"},
                                                       {Popularity::kUniform, "uniform"},
                                                       {Popularity::kSkewed, "skewed"},
                                                       {Popularity::kIdentical, "identical"}};

struct BenchServeOptions {
  RuntimeOptions runtime;
  std::string shape;      // HF config.json with random weights, instead of --model
  std::string tokenizer;  // folder; "": the model's, of a shape a stand-in
  Popularity popularity = Popularity::kDistinct;
  std::string lengths;
  std::string json;
  int adapters = 8;
  int rank = 16;
  int batch = 8;
  int queued = 0;    // requests in line beside the batch
  int requests = 0;  // per scenario and round; 0: one batch
  int prompt_tokens = 32;
  int output_tokens = 64;
  int rounds = 3;
  double rate = 0.0;
  uint64_t seed = 1;
  std::vector<Popularity> laws;  // further ones to serve
  bool skip_single = false;
  bool skip_http = false;
  bool skip_base_rows = false;
};

// One way to serve the workload, and what its rounds gave.
struct Scenario {
  std::string name;
  std::string what;
  std::vector<LoadRequest> requests;
  int32_t in_flight = 0;
  RunRequest run;
  Engine* engine = nullptr;

  std::vector<double> tokens_per_second;  // per round
  std::vector<double> step_ms;            // per round: median time per token of its requests
  std::vector<double> executor_ms;        // per round: executor time per step
  std::vector<double> gap_ms;             // per round: a GPU idle between steps, per step
  std::vector<double> wall_ms;            // per round: all time per step
  std::vector<double> ahead_share;        // per round: of the steps, those begun ahead
  std::vector<double> rows;               // per round: that decode at once, on average
  std::vector<double> adapters;           // per round: different ones of these rows
  std::vector<double> read_gbytes_per_s;  // per round: the machine's, around the run
  std::vector<double> first_token_ms, token_ms, total_ms;  // of all requests
};

double Median(std::vector<double> values) { return ComputePercentiles(std::move(values)).p50; }

// Median over the rounds of a per-round ratio: both sides of a round saw the same machine.
double MedianRatio(const std::vector<double>& numerators, const std::vector<double>& denominators) {
  std::vector<double> ratios;
  for (size_t i = 0; i < numerators.size(); ++i) ratios.push_back(numerators[i] / denominators[i]);
  return Median(std::move(ratios));
}

// Tokens that a decoding row sees on average: a longer answer takes more of the steps.
double MeanContext(const std::vector<LoadRequest>& requests) {
  double steps = 0.0;
  double tokens = 0.0;
  for (const LoadRequest& request : requests) {
    const double outputs = request.output_tokens;
    steps += outputs;
    tokens += outputs * (static_cast<double>(request.prompt_tokens.size()) + outputs / 2.0);
  }
  return tokens / steps;
}

class ServeBench {
 public:
  explicit ServeBench(const BenchServeOptions& options) : options_(options) {}

  Status Run() {
    RETURN_IF_ERROR(Prepare());
    for (int round = 0; round < options_.rounds; ++round) RETURN_IF_ERROR(RunRound(round));
    (void)server_->Shutdown(std::chrono::seconds(1));  // nothing runs any more
    Report();
    return WriteJson(options_.json, ToJson());
  }

 private:
  Status Prepare();
  Status CheckFits(const RuntimeOptions& runtime, const ServedShape& shape,
                   const MemoryBudget& budget, MemorySum sum) const;
  double KvGib(const RuntimeOptions& runtime) const;
  Status PinAdapters(std::vector<LoraWeights> adapters);
  Status StartServer();
  Result<std::vector<LoadRequest>> MakeRequests(std::optional<Popularity> law);
  Status MakeScenarios();
  Status RunRound(int round);
  Status RunScenario(Scenario& scenario);
  double MeasureReadBandwidth();
  const Scenario* Find(const std::string& name) const;
  double BaseBytes(const Scenario& scenario) const;
  double BytesOverBase(const Scenario& scenario) const;
  std::map<std::string, double> Ratios() const;
  void Report() const;
  OrderedJson ToJson() const;

  const BenchServeOptions options_;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Runtime> plain_;  // no LoRA at all
  std::unique_ptr<Runtime> lora_;
  std::unique_ptr<HttpServer> server_;
  int64_t adapter_bytes_ = 0;  // of one
  std::vector<Scenario> scenarios_;
  std::unique_ptr<MachinePeaks> peaks_;
  std::vector<double> round_readings_;  // GB/s, of the round at work
  int rounds_repeated_ = 0;
  int rounds_unsteady_ = 0;  // counted all the same: the machine never held still
};

// GB/s, the median of many readings: one takes about a millisecond.
double ServeBench::MeasureReadBandwidth() {
  if (!model_->device.is_cpu()) return MeasureCopyGbytesPerSecond(model_->stream);
  constexpr int64_t kBytes = int64_t{512} << 20;
  if (peaks_ == nullptr) peaks_ = std::make_unique<MachinePeaks>(kBytes, model_->stream);
  std::vector<double> readings(50);
  for (double& reading : readings) reading = peaks_->MeasureGbytesPerSecond();
  return Median(std::move(readings));
}

Status ServeBench::Prepare() {
  const BenchServeOptions& o = options_;
  RuntimeOptions runtime = o.runtime;
  runtime.adapters.clear();
  runtime.limits.sequences_max = o.batch;
  runtime.limits.adapters_max = o.adapters;
  runtime.engine.scheduler.prefix_cache = false;  // random prompts share nothing
  runtime.host_gib = 0.0;                         // until the adapters' bytes are known
  const auto check = [&](const ServedShape& shape, const MemoryBudget& budget, MemorySum sum) {
    return CheckFits(runtime, shape, budget, std::move(sum));
  };
  ASSIGN_OR_RETURN(model_, LoadBenchModel(runtime, o.shape, check));
  ASSIGN_OR_RETURN(std::vector<LoraWeights> adapters,
                   MakeSyntheticAdapters(model_->config, o.adapters, {o.rank},
                                         model_->weights.types.adapters, o.seed, *model_->threads));
  adapter_bytes_ = adapters[0].bytes();
  // Both servers' pools at once, each with 0.4 of the memory at most.
  const double gib_max =
      static_cast<double>(model_->budget->LeftOnDevice()) * 0.4 / (int64_t{1} << 30);
  const double kv_gib = KvGib(runtime);
  const double adapters_gib =
      1.1 * static_cast<double>(adapter_bytes_ * o.adapters) / (int64_t{1} << 30) + 0.1;
  runtime.host_gib = adapters_gib;
  if (o.runtime.pool_gib == 0.0) runtime.pool_gib = std::min(kv_gib, gib_max);
  ASSIGN_OR_RETURN(plain_, Runtime::Create(runtime, *model_, /*lora=*/false));
  if (o.runtime.pool_gib == 0.0) runtime.pool_gib = std::min(kv_gib + adapters_gib, gib_max);
  ASSIGN_OR_RETURN(lora_, Runtime::Create(runtime, *model_, /*lora=*/true));
  RETURN_IF_ERROR(PinAdapters(std::move(adapters)));
  plain_->RecordGraphs(/*quiet=*/false);
  lora_->RecordGraphs(/*quiet=*/false);
  plain_->engine().Start();
  lora_->engine().Start();
  return MakeScenarios();
}

// Two servers, at the least, and the adapters as they are made and as the store keeps them.
Status ServeBench::CheckFits(const RuntimeOptions& runtime, const ServedShape& shape,
                             const MemoryBudget& budget, MemorySum sum) const {
  const SizeFlags flags = {.sequences = "--batch", .adapters = "--adapters"};
  for (const bool lora : {false, true}) {
    AddServer(runtime, shape, lora, &sum, flags);
    AddLeastPool(runtime, shape, lora, &sum, flags);
  }
  const int64_t adapters =
      options_.adapters * SyntheticAdapterBytes(shape.config, options_.rank, shape.types.adapters);
  sum.AddOnHost("adapters, made and kept (--adapters, --rank)", 2 * adapters);
  return sum.Check(budget);
}

std::string SyntheticHash(int32_t idx) { return "synthetic-" + std::to_string(idx); }

// GiB of a batch's KV at full context.
double ServeBench::KvGib(const RuntimeOptions& runtime) const {
  const KvLayout layout =
      MakeKvLayout(model_->config, runtime.limits.page_tokens, model_->weights.types.kv);
  const int32_t context = runtime.limits.context_tokens_max > 0 ? runtime.limits.context_tokens_max
                                                                : model_->config.context_tokens_max;
  const int64_t pages = int64_t{options_.batch} * (context / runtime.limits.page_tokens + 1);
  return static_cast<double>(pages * layout.PageBytes()) / (int64_t{1} << 30);
}

Status ServeBench::PinAdapters(std::vector<LoraWeights> adapters) {
  std::vector<std::pair<std::string, LoraWeights>> named;
  for (size_t i = 0; i < adapters.size(); ++i) {
    named.emplace_back(SyntheticHash(static_cast<int32_t>(i)), std::move(adapters[i]));
  }
  return lora_->PinSynthetic(std::move(named));
}

// `law`: of the adapters; none for base rows. Everything else is the same for each law.
Result<std::vector<LoadRequest>> ServeBench::MakeRequests(std::optional<Popularity> law) {
  Random random(options_.seed);
  const int32_t n = options_.requests > 0 ? options_.requests : options_.batch;
  Random adapter_random(options_.seed);
  const std::vector<int32_t> adapters =
      AssignAdapters(law.value_or(Popularity::kDistinct), n, options_.adapters, adapter_random);
  const std::vector<double> arrivals = ArrivalSeconds(n, options_.rate, random);
  std::vector<RequestLengths> lengths = {{options_.prompt_tokens, options_.output_tokens}};
  if (!options_.lengths.empty()) {
    ASSIGN_OR_RETURN(lengths, ReadLengths(options_.lengths));
  }
  const int32_t context = lora_->engine().limits().context_tokens_max;
  std::vector<LoadRequest> requests(n);
  for (int32_t i = 0; i < n; ++i) {
    const RequestLengths& length =
        lengths.size() == 1 ? lengths[0] : lengths[random.Below(lengths.size())];
    requests[i].output_tokens = std::min(length.output_tokens, context / 2);
    requests[i].prompt_tokens.resize(
        std::min(length.prompt_tokens, context - requests[i].output_tokens));
    for (int32_t& token : requests[i].prompt_tokens) {
      token = static_cast<int32_t>(random.Below(model_->config.vocab_size));
    }
    requests[i].arrival_seconds = arrivals[i];
    if (law.has_value()) requests[i].adapter_hash = SyntheticHash(adapters[i]);
  }
  return requests;
}

Status ServeBench::StartServer() {
  if (options_.tokenizer.empty() && !options_.shape.empty()) {
    ASSIGN_OR_RETURN(tokenizer_, MakeStandInTokenizer(model_->config.vocab_size));
  } else {
    const bool has_own = options_.tokenizer.empty();
    ASSIGN_OR_RETURN(tokenizer_,
                     Tokenizer::Load(has_own ? options_.runtime.model : options_.tokenizer));
  }
  ServerOptions server;
  server.port = 0;
  server.logs_requests = false;
  server_ = std::make_unique<HttpServer>(ApiContext{.generator = lora_->engine(),
                                                    .catalog = lora_->catalog(),
                                                    .tokenizer = *tokenizer_,
                                                    .chat_template = nullptr,
                                                    .metrics = lora_->metrics(),
                                                    .clock = SteadyClock::Get(),
                                                    .base_model = model_->name,
                                                    .ready = {}},
                                         server);
  return server_->Start();
}

Status ServeBench::MakeScenarios() {
  ASSIGN_OR_RETURN(const std::vector<LoadRequest> base, MakeRequests(std::nullopt));
  ASSIGN_OR_RETURN(const std::vector<LoadRequest> mixed, MakeRequests(options_.popularity));
  RETURN_IF_ERROR(StartServer());
  const int32_t in_flight = options_.batch + options_.queued;
  const auto add = [&](const std::string& name, const std::string& what,
                       const std::vector<LoadRequest>& requests, int32_t clients, Engine& engine,
                       RunRequest run) {
    Scenario scenario;
    scenario.name = name;
    scenario.what = what;
    scenario.requests = requests;
    scenario.in_flight = clients;
    scenario.engine = &engine;
    scenario.run = std::move(run);
    scenarios_.push_back(std::move(scenario));
  };
  Engine& plain = plain_->engine();
  Engine& lora = lora_->engine();
  add("base", "base rows, a server without LoRA", base, in_flight, plain, ViaGenerator(plain));
  if (!options_.skip_base_rows) {
    add("base_in_lora", "base rows, a server with LoRA", base, in_flight, lora, ViaGenerator(lora));
  }
  add("lora", std::string(WordOf(options_.popularity, kPopularityWords)) + " adapters in one batch",
      mixed, in_flight, lora, ViaGenerator(lora));
  for (const Popularity popularity : options_.laws) {
    const std::string law = WordOf(popularity, kPopularityWords);
    ASSIGN_OR_RETURN(const std::vector<LoadRequest> requests, MakeRequests(popularity));
    add("lora_" + law, law + " adapters", requests, in_flight, lora, ViaGenerator(lora));
  }
  if (!options_.skip_http) {
    add("base_http", "base rows over HTTP", base, in_flight, lora,
        ViaHttp(server_->port(), model_->name));
  }
  if (!options_.skip_single) {
    add("one_at_a_time", "the same adapters one after the other", mixed, 1, lora,
        ViaGenerator(lora));
  }
  return OkStatus();
}

Status ServeBench::RunRound(int round) {
  constexpr int kRepeatsMax = 3;
  constexpr double kSteady = 1.15;  // the highest reading over the lowest
  for (int repeat = 0;; ++repeat) {
    std::fprintf(stderr, "round %d of %d\n", round + 1, options_.rounds);
    std::vector<Scenario> before = scenarios_;
    round_readings_.clear();
    // Every other round backwards: a machine that becomes slower or faster favours neither side.
    for (size_t i = 0; i < scenarios_.size(); ++i) {
      const size_t last = scenarios_.size() - 1;
      RETURN_IF_ERROR(RunScenario(scenarios_[round % 2 == 0 ? i : last - i]));
    }
    const auto [low, high] = std::minmax_element(round_readings_.begin(), round_readings_.end());
    if (*high <= *low * kSteady) return OkStatus();
    if (repeat == kRepeatsMax) break;
    std::fprintf(stderr, "the read bandwidth went from %.0f to %.0f GB/s: once more\n", *low,
                 *high);
    scenarios_ = std::move(before);
    ++rounds_repeated_;
  }
  ++rounds_unsteady_;
  return OkStatus();
}

Status ServeBench::RunScenario(Scenario& scenario) {
  const double bandwidth_before = MeasureReadBandwidth();
  const EngineSnapshot before = scenario.engine->Snapshot();
  const LoadResult result = RunLoad(scenario.requests, scenario.in_flight, scenario.run);
  const EngineSnapshot after = scenario.engine->Snapshot();
  // A shared machine's bandwidth drifts: what this run saw lies between the two.
  const double bandwidth_after = MeasureReadBandwidth();
  scenario.read_gbytes_per_s.push_back((bandwidth_before + bandwidth_after) / 2.0);
  round_readings_.insert(round_readings_.end(), {bandwidth_before, bandwidth_after});
  std::vector<double> token_ms;
  for (const LoadTiming& timing : result.requests) {
    if (!timing.status.ok()) return timing.status.WithContext(scenario.name);
    token_ms.push_back(timing.token_ms);
    scenario.first_token_ms.push_back(timing.first_token_ms);
    scenario.token_ms.push_back(timing.token_ms);
    scenario.total_ms.push_back(timing.total_ms);
  }
  const Concurrency at_once = MeanConcurrency(scenario.requests, result.requests);
  scenario.rows.push_back(at_once.requests);
  scenario.adapters.push_back(at_once.adapters);
  scenario.tokens_per_second.push_back(result.TokensPerSecond());
  scenario.step_ms.push_back(Median(std::move(token_ms)));
  const int64_t steps = std::max<int64_t>(after.steps - before.steps, 1);
  scenario.executor_ms.push_back(static_cast<double>(after.executor_ns - before.executor_ns) *
                                 1e-6 / static_cast<double>(steps));
  scenario.gap_ms.push_back(static_cast<double>(after.gap_ns - before.gap_ns) * 1e-6 /
                            static_cast<double>(steps));
  scenario.wall_ms.push_back(result.seconds * 1e3 / static_cast<double>(steps));
  scenario.ahead_share.push_back(static_cast<double>(after.steps_ahead - before.steps_ahead) /
                                 static_cast<double>(steps));
  return OkStatus();
}

const Scenario* ServeBench::Find(const std::string& name) const {
  for (const Scenario& scenario : scenarios_) {
    if (scenario.name == name) return &scenario;
  }
  return nullptr;
}

// Bytes that one decode step of the base model's must read for as many rows: every weight but the
// embedding table's unread rows, and their KV.
double ServeBench::BaseBytes(const Scenario& scenario) const {
  const ModelConfig& config = model_->config;
  const double embedding_bytes = static_cast<double>(model_->weights.embedding.bytes());
  const double kv_token_bytes = 2.0 * static_cast<double>(config.kv_size()) * config.num_layers *
                                static_cast<double>(DTypeBytes(model_->weights.types.operands));
  return static_cast<double>(model_->weights.bytes()) - embedding_bytes +
         Median(scenario.rows) * MeanContext(scenario.requests) * kv_token_bytes;
}

// The share of the base model's speed that is left if bytes were all that counts.
double ServeBench::BytesOverBase(const Scenario& scenario) const {
  const double base_bytes = BaseBytes(scenario);
  return base_bytes /
         (base_bytes + Median(scenario.adapters) * static_cast<double>(adapter_bytes_));
}

std::map<std::string, double> ServeBench::Ratios() const {
  const Scenario& base = *Find("base");
  const Scenario& lora = *Find("lora");
  std::map<std::string, double> ratios = {
      {"lora_over_base", MedianRatio(base.step_ms, lora.step_ms)},
      {"lora_over_base_by_bytes", BytesOverBase(lora)},
      {"host_gap_over_step", MedianRatio(lora.gap_ms, lora.wall_ms)},
      {"steps_begun_ahead", Median(lora.ahead_share)},
  };
  if (const Scenario* in_lora = Find("base_in_lora"); in_lora != nullptr) {
    ratios["base_in_lora_over_base"] = MedianRatio(base.step_ms, in_lora->step_ms);
  }
  if (const Scenario* http = Find("base_http"); http != nullptr) {
    ratios["http_step_over_executor"] = MedianRatio(http->wall_ms, http->executor_ms);
  }
  for (const Popularity popularity : options_.laws) {
    const std::string law = WordOf(popularity, kPopularityWords);
    ratios["tokens_per_second_" + law + "_over_base"] =
        MedianRatio(Find("lora_" + law)->tokens_per_second, base.tokens_per_second);
    ratios[law + "_over_base_by_bytes"] = BytesOverBase(*Find("lora_" + law));
  }
  std::vector<double> shares;
  for (size_t i = 0; i < base.step_ms.size(); ++i) {
    shares.push_back(BaseBytes(base) / (base.step_ms[i] * 1e6) / base.read_gbytes_per_s[i]);
  }
  ratios["base_decode_share_of_bandwidth"] = Median(std::move(shares));
  if (const Scenario* single = Find("one_at_a_time"); single != nullptr) {
    ratios["batch_over_one_at_a_time"] =
        MedianRatio(lora.tokens_per_second, single->tokens_per_second);
  }
  return ratios;
}

void ServeBench::Report() const {
  std::printf("\ngoal %s, steps of up to %d rows\n",
              GoalName(options_.runtime.engine.scheduler.goal),
              StepTokensMax(options_.runtime, model_->device));
  std::printf("%-15s %9s %9s %9s %9s %9s %9s %9s %9s %5s %9s  %s\n", "scenario", "tok/s",
              "token ms", "p99", "first ms", "p99", "end ms", "p99", "exec ms", "rows", "adapters",
              "what");
  for (const Scenario& s : scenarios_) {
    const Percentiles first = ComputePercentiles(s.first_token_ms);
    const Percentiles token = ComputePercentiles(s.token_ms);
    const Percentiles end = ComputePercentiles(s.total_ms);
    std::printf("%-15s %9.1f %9.2f %9.2f %9.1f %9.1f %9.1f %9.1f %9.2f %5.1f %9.1f  %s\n",
                s.name.c_str(), Median(s.tokens_per_second), token.p50, token.p99, first.p50,
                first.p99, end.mean, end.p99, Median(s.executor_ms), Median(s.rows),
                Median(s.adapters), s.what.c_str());
  }
  std::printf("\n");
  for (const auto& [name, value] : Ratios()) std::printf("%-32s %6.3f\n", name.c_str(), value);
  std::printf("read bandwidth of this machine      %.1f GB/s\n",
              Median(Find("base")->read_gbytes_per_s));
  std::printf("rounds repeated / kept though the bandwidth changed  %d / %d\n", rounds_repeated_,
              rounds_unsteady_);
}

OrderedJson ServeBench::ToJson() const {
  int64_t output_tokens = 0;  // the same for all scenarios
  for (const LoadRequest& request : scenarios_[0].requests) output_tokens += request.output_tokens;
  OrderedJson scenarios = OrderedJson::array();
  const auto percentiles = [](const std::vector<double>& values) {
    const Percentiles p = ComputePercentiles(values);
    return OrderedJson{{"mean", p.mean}, {"p50", p.p50}, {"p90", p.p90}, {"p99", p.p99}};
  };
  for (const Scenario& s : scenarios_) {
    scenarios.push_back({{"name", s.name},
                         {"what", s.what},
                         {"tokens_per_second", Median(s.tokens_per_second)},
                         {"first_token_ms", percentiles(s.first_token_ms)},
                         {"token_ms", percentiles(s.token_ms)},
                         {"total_ms", percentiles(s.total_ms)},
                         {"executor_ms_per_step", Median(s.executor_ms)},
                         {"rows_at_once", Median(s.rows)},
                         {"adapters_at_once", Median(s.adapters)}});
  }
  return {{"machine", DescribeMachine()},
          {"device", DescribeDevice(model_->device)},
          {"shape", BenchModelName(options_.runtime, options_.shape)},
          {"dtype", std::string(DTypeName(model_->weights.types.operands))},
          {"goal", GoalName(options_.runtime.engine.scheduler.goal)},
          {"step_tokens_max", StepTokensMax(options_.runtime, model_->device)},
          {"batch", options_.batch},
          {"queued", options_.queued},
          {"requests", scenarios_[0].requests.size()},
          {"output_tokens", output_tokens},
          {"adapters", options_.adapters},
          {"rank", options_.rank},
          {"popularity", WordOf(options_.popularity, kPopularityWords)},
          {"rounds", options_.rounds},
          {"rounds_repeated", rounds_repeated_},
          {"rounds_unsteady", rounds_unsteady_},
          {"read_gbytes_per_s", Median(Find("base")->read_gbytes_per_s)},
          {"ratios", Ratios()},
          {"scenarios", scenarios}};
}

std::vector<OptionGroup> BenchServeOptionGroups(BenchServeOptions& o) {
  std::vector<Option> server = StepOptionRows(o.runtime);
  server.push_back(ContextOptionRow(o.runtime.limits.context_tokens_max));
  server.push_back({.name = "tokenizer",
                    .target = Text(o.tokenizer),
                    .help = "folder of the HTTP scenario's tokenizer",
                    .default_help = "the model's; of a --shape words that are made up"});
  return {
      {"Model", BenchModelOptionRows(o.shape, o.runtime)},
      {"Server", std::move(server)},
      {"Load",
       {{"adapters", Number(o.adapters, Between(1, 1 << 20)), "synthetic adapters"},
        {"rank", Number(o.rank, Between(1, kLoraRankMax)), "of each, on all seven modules"},
        {"popularity", OneOf(o.popularity, kPopularityWords), "who is asked for how often"},
        {"laws", SomeOf(o.laws, kPopularityWords), "further popularity laws, each served in turn"},
        {"batch", Number(o.batch, Between(1, 2048)), "sequences of a step at most"},
        {"queued", Number(o.queued, AtLeast(0)),
         "requests in line beside them, so that no place waits for its next client"},
        {"requests", Number(o.requests, AtLeast(0)), "per scenario and round; 0: one batch"},
        {"rate", Number(o.rate, AtLeast(0)), "Poisson arrivals per second; 0: a closed loop"},
        {"prompt-tokens", Number(o.prompt_tokens, AtLeast(1)), "tokens per prompt"},
        {"output-tokens", Number(o.output_tokens, AtLeast(2)), "tokens per answer"},
        {"lengths", Text(o.lengths), "CSV of prompt and output lengths to draw from, instead"},
        {"rounds", Number(o.rounds, AtLeast(1)), "rounds of all scenarios in turns"},
        {"seed", Number(o.seed), "of prompts, adapters and arrivals"},
        {"skip-http", Switch(o.skip_http), "leave out the scenario over HTTP"},
        {"skip-base-rows", Switch(o.skip_base_rows), "leave out base rows in the server with LoRA"},
        {"skip-single", Switch(o.skip_single), "leave out the one-at-a-time scenario"},
        JsonOptionRow(o.json)}}};
}

}  // namespace

Command BenchServeCommand() {
  const auto options = std::make_shared<BenchServeOptions>();  // lives as long as the command
  options->runtime.log.level = "warn";
  return {.name = "serve",
          .help =
              "Throughput and latency of a whole server with synthetic adapters, beside the base\n"
              "model alone in the same run.\n"
              "  graft-bench serve --shape bench/shapes/tinyllama-1.1b.json --adapters 8 --rank 16",
          .groups = BenchServeOptionGroups(*options),
          .run = [options] {
            RETURN_IF_ERROR(InitLog(options->runtime.log.level));
            return ServeBench(*options).Run();
          }};
}

}  // namespace graft
