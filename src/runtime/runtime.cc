#include "runtime/runtime.h"

#include <algorithm>
#include <cstdlib>

#include "base/adapter_files.h"
#include "base/json.h"
#include "base/log.h"
#include "executor/arithmetic_id.h"
#include "kernels/attention/attention.h"
#include "kernels/common/cpu_isa.h"
#include "model/model_folder.h"
#include "runtime/adapter_priorities.h"
#include "runtime/adapter_reading.h"
#include "runtime/adapter_texts.h"
#include "runtime/answer_grammars.h"
#include "runtime/progress.h"
#include "runtime/quantised_note.h"
#include "runtime/weights_kept.h"
#include "runtime/worker_command.h"
#include "tensor/device_traits.h"

namespace graft {
namespace {

constexpr uint64_t kRandomSeed = 1;

Communicator* CommunicatorOf(RankProcesses* ranks) {
  return ranks == nullptr ? nullptr : &ranks->communicator();
}

Shard ShardOf(const Communicator* communicator) {
  if (communicator == nullptr) return {};
  return {communicator->rank(), communicator->num_ranks()};
}

// Device, threads, stream and shape; everything of a LoadedModel but its exchange and weights.
// `is_alone`: there are no other ranks, whatever the shard says.
Result<std::unique_ptr<LoadedModel>> PrepareModel(const RuntimeOptions& options, const Shard& shard,
                                                  const std::string& shape, bool is_alone = false) {
  RETURN_IF_ERROR(CheckOptions(options));
  auto model = std::make_unique<LoadedModel>();
  const Shard place = is_alone ? Shard{} : shard;
  ASSIGN_OR_RETURN(model->device, PickRankDevice(options.device, place));
  model->shard = shard;
  model->threads = std::make_unique<ThreadPool>(ThreadsOfRank(options));
  model->owned_stream = std::make_unique<OwnedStream>(model->device, model->threads.get());
  model->budget.emplace(model->device, options.memory_gib, place.num_ranks);
  model->stream = model->owned_stream->get();
  ASSIGN_OR_RETURN(model->config, ReadModelShape(options, shape));
  model->rank_config = ShardConfig(model->config, shard.num_ranks);
  const DType dtype = shape.empty() ? ServingDType(model->config, options.dtype, model->device)
                                    : options.dtype.value_or(DType::kBF16);
  ASSIGN_OR_RETURN(model->weights.types,
                   ChooseServedTypes(options, model->config, dtype, model->device));
  return model;
}

// With the other ranks, which are about to do the same.
Status ConnectRanks(const RuntimeOptions& options, Communicator* communicator, LoadedModel* model) {
  if (communicator == nullptr) return OkStatus();
  if (model->device.is_cpu()) {
    model->exchange = MakeHostExchange(*communicator);
    return OkStatus();
  }
  ASSIGN_OR_RETURN(model->exchange, MakeGpuExchange(*communicator, model->device,
                                                    ExchangeLimitsOf(options, model->shape()),
                                                    options.rank_transport));
  return OkStatus();
}

// The model and what is to be served of it, before it is read.
Status CheckModelFits(const RuntimeOptions& options, const LoadedModel& model, bool drawn,
                      const CheckMemory& check) {
  MemorySum weights(model.device);
  AddWeights(model.shape(), drawn, &weights);
  if (!model.device.is_cpu()) AddRanks(options, model.shape(), &weights);
  return (check ? check : ServerFits(options))(model.shape(), *model.budget, std::move(weights));
}

// Reads the weights of options.model, or makes random ones of a `shape`.
Status ReadWeights(const RuntimeOptions& options, const std::string& shape,
                   const LoadProgress& progress, LoadedModel* model) {
  const ServedTypes types = model->weights.types;
  if (!shape.empty()) {
    model->weights =
        RandomWeights(model->config, types, kRandomSeed, model->stream, progress, model->shard);
    return OkStatus();
  }
  ASSIGN_OR_RETURN(model->weights, LoadWeights(options.model, model->config, types, model->stream,
                                               progress, model->shard));
  return OkStatus();
}

void WarnAboutContext(const RuntimeOptions& options, const ModelConfig& config) {
  if (options.limits.context_tokens_max <= config.context_tokens_max) return;
  LOG_WARN("--context-tokens-max {} is more than the model's own {}, which is served",
           options.limits.context_tokens_max, config.context_tokens_max);
}

Result<std::unique_ptr<LoadedModel>> Load(const RuntimeOptions& options, const std::string& shape,
                                          bool quiet, const CheckMemory& check,
                                          RankProcesses* ranks) {
  Communicator* const communicator = CommunicatorOf(ranks);
  ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> model,
                   PrepareModel(options, ShardOf(communicator), shape));
  model->ranks = ranks;
  if (!model->device.is_cpu() && model->shard.rank == 0) {
    LOG_INFO("{} takes kernels: {}", model->device.ToString(),
             KernelsText(TraitsOf(model->device)));
  }
  WarnAboutContext(options, model->config);
  WarnOfIgnored(options.model, model->config);
  model->name = options.model_name;
  if (model->name.empty()) {
    model->name = shape.empty() ? ModelNameOf(options.model) : "random";
  }
  if (shape.empty()) {
    ASSIGN_OR_RETURN(const std::string note, QuantisedNote(options.model, model->shape()));
    if (!note.empty()) LOG_INFO("{}", note);
  }
  RETURN_IF_ERROR(CheckModelFits(options, *model, !shape.empty(), check));
  RETURN_IF_ERROR(ConnectRanks(options, communicator, model.get()));
  ProgressBar bar(shape.empty() ? "loading " + model->name : "drawing random weights", quiet);
  RETURN_IF_ERROR(ReadWeights(
      options, shape, [&](int64_t done, int64_t total) { bar.Update(done, total); }, model.get()));
  return model;
}

// Pages that an adapter of a usual large rank takes, all modules adapted.
int64_t PagesOfLargeAdapter(const ModelConfig& config, DType dtype, int64_t page_bytes) {
  constexpr int64_t kRank = 64;
  int64_t row_elements = 0;
  for (const LoraModule module : config.lora_modules()) {
    const LoraModuleShape shape = ShapeOfLoraModule(config, module);
    row_elements += shape.in + shape.out;
  }
  return config.num_layers * row_elements * kRank * DTypeBytes(dtype) / page_bytes + 1;
}

// What every sequence at full context and every adapter on the device could use.
int64_t UsefulPages(const ServedShape& shape, const ExecutorLimits& limits) {
  return PagesPerContext(limits) * limits.sequences_max +
         limits.adapters_max *
             PagesOfLargeAdapter(shape.config, shape.types.adapters, limits.page_bytes);
}

// What the pool may take of `left` bytes beside `others` where no option says. A host has other
// programs; a GPU is ours, but for a reserve for what was not counted.
int64_t PoolBytesMax(const Device& device, int64_t left, int64_t others) {
  constexpr int64_t kReserveBytes = int64_t{3} << 30;
  const int64_t share = device.is_cpu() ? left / 2 : std::max(left - kReserveBytes, left / 2);
  return std::min(share, left - others);
}

// Adds the pool to the sum of the server's other terms, and sets the limits' pages.
void ChoosePool(const RuntimeOptions& options, const ServedShape& shape, const MemoryBudget& budget,
                ExecutorLimits* limits, MemorySum* sum) {
  int64_t num_pages = GibToBytes(options.pool_gib) / limits->page_bytes;
  if (options.pool_gib == 0.0) {
    const int64_t bytes_max = PoolBytesMax(shape.device, budget.LeftOnDevice(), sum->on_device());
    num_pages = std::min(UsefulPages(shape, *limits), bytes_max / limits->page_bytes);
  }
  if (options.pool_gib == 0.0 && num_pages < PagesPerContext(*limits)) {
    num_pages = PagesPerContext(*limits);  // whether that fits the sum will say
    AddLeastPool(options, shape, limits->adapters_max > 0, sum);
  } else {
    sum->Add("page pool (--pool-gib)", num_pages * limits->page_bytes);
  }
  limits->num_pages = static_cast<int32_t>(std::min<int64_t>(num_pages, 1 << 24));
}

// With what the device and the model decide.
EngineOptions EngineOptionsOf(const RuntimeOptions& options, const ExecutorLimits& limits,
                              const LoadedModel& model, FolderCatalog& catalog,
                              GrammarStore* grammars) {
  EngineOptions engine = options.engine;
  SchedulerOptions& scheduler = engine.scheduler;
  scheduler.step_ns_max = StepNsMax(
      options, model.device, WeightsReadingNs(model.weights.bytes(), TraitsOf(model.device)));
  if (model.device.is_cpu()) scheduler.shares_drawn_pages = true;
  scheduler.tells_base_rows =
      AttentionTellsGivenRows(LayoutOf(model.shape(), limits), model.device);
  scheduler.eos_token_ids = model.config.eos_token_ids;
  engine.grammars = grammars;
  engine.adapter_label = [&catalog](const std::string& key) {
    return key.empty() ? std::string("base") : catalog.NameOf(key);
  };
  return engine;
}

void TellSteps(const SchedulerOptions& scheduler, const ExecutorLimits& limits) {
  const std::string within =
      scheduler.step_ns_max == 0
          ? "however long they take"
          : "meant to take at most " + std::to_string(scheduler.step_ns_max / kMsInNs) + " ms" +
                (scheduler.goal == Goal::kLatency ? " beside sequences that decode" : "");
  LOG_INFO("goal {}: steps of up to {} rows, {}", GoalName(scheduler.goal), limits.step_tokens_max,
           within);
}

// A server on the CPU does not ask what cards there are.
std::vector<CudaCard> CardsFor(const DeviceChoice& choice) {
  if (choice.kind == DeviceChoice::Kind::kCpu) return {};
  return ListCudaCards();
}

}  // namespace

Result<Device> PickDevice(const DeviceChoice& choice) {
  ASSIGN_OR_RETURN(const ChosenDevice chosen, ChooseDevice(choice, CardsFor(choice)));
  RETURN_IF_ERROR(CheckRunsCode(chosen.device));
  RETURN_IF_ERROR(CheckCpuRunsKernels());
  if (!chosen.warning.empty()) LOG_WARN("{}", chosen.warning);
  return chosen.device;
}

Result<Device> PickRankDevice(const DeviceChoice& choice, const Shard& shard) {
  if (shard.num_ranks == 1) return PickDevice(choice);
  const std::vector<CudaCard> cards = CardsFor(choice);
  // Two ranks on one card are slow, and enough for tests.
  const bool share = std::getenv("GRAFT_RANKS_SHARE_GPU") != nullptr;
  ASSIGN_OR_RETURN(const ChosenDevice chosen,
                   share ? ChooseDevice(choice, cards)
                         : ChooseRankDevice(choice, shard.rank, shard.num_ranks, cards));
  RETURN_IF_ERROR(CheckRunsCode(chosen.device));
  if (!chosen.warning.empty()) LOG_WARN("{}", chosen.warning);
  return chosen.device;
}

Result<ModelConfig> ReadModelShape(const RuntimeOptions& options, const std::string& shape) {
  const auto read = [&]() -> Result<ModelConfig> {
    if (shape.empty()) return LoadModelConfig(options.model);
    ASSIGN_OR_RETURN(const Json json, ParseJsonFile(shape));
    return ParseModelConfig(json);
  };
  ASSIGN_OR_RETURN(ModelConfig config, read());
  config.text_only = options.text_only;
  return config;
}

void WarnOfIgnored(const std::string& folder, const ModelConfig& config) {
  for (const std::string& why : config.ignored_of_generation) {
    LOG_WARN("{}/generation_config.json: {}; it is ignored", folder, why);
  }
}

Result<std::unique_ptr<LoadedModel>> LoadModel(const RuntimeOptions& options, bool quiet,
                                               const CheckMemory& check, RankProcesses* ranks) {
  if (options.model.empty()) {
    return InvalidArgumentError("which model? --model DIR, an HF folder (demo/base is one)");
  }
  return Load(options, "", quiet, check, ranks);
}

Result<std::unique_ptr<LoadedModel>> RandomModel(const RuntimeOptions& options,
                                                 const std::string& config_path, bool quiet,
                                                 const CheckMemory& check, RankProcesses* ranks) {
  return Load(options, config_path, quiet, check, ranks);
}

Result<std::unique_ptr<LoadedModel>> LoadShard(const RuntimeOptions& options,
                                               const std::string& shape,
                                               Communicator& communicator) {
  ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> model,
                   PrepareModel(options, ShardOf(&communicator), shape));
  RETURN_IF_ERROR(ConnectRanks(options, &communicator, model.get()));
  RETURN_IF_ERROR(ReadWeights(options, shape, {}, model.get()));
  return model;
}

Result<std::unique_ptr<LoadedModel>> LoadRankAlone(const RuntimeOptions& options,
                                                   const std::string& shape, int32_t num_ranks,
                                                   const LinkModel& link,
                                                   const CheckMemory& check) {
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelShape(options, shape));
  RETURN_IF_ERROR(CheckRanks(config, num_ranks).WithContext("--rank-of"));
  ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> model,
                   PrepareModel(options, {0, num_ranks}, shape, /*is_alone=*/true));
  RETURN_IF_ERROR(CheckModelFits(options, *model, !shape.empty(), check));
  model->exchange = MakeModelledExchange(num_ranks, model->device,
                                         ExchangeLimitsOf(options, model->shape()), link);
  RETURN_IF_ERROR(ReadWeights(options, shape, {}, model.get()));
  return model;
}

Status Runtime::UseBackend(const MakeBackend& make_backend) {
  if (make_backend) {
    ASSIGN_OR_RETURN(backend_, make_backend(*host_store_));
    return OkStatus();
  }
  std::vector<std::string> roots = options_.adapters_roots;
  if (!options_.adapters.empty()) roots.insert(roots.begin(), options_.adapters);
  if (!options_.learned.empty()) roots.push_back(options_.learned);
  roots.insert(roots.end(), options_.fetched.begin(), options_.fetched.end());
  backend_ = std::make_unique<PeftBackend>(
      model_->config, model_->weights.types, *host_store_, FileJail(std::move(roots)), MakeSlicer(),
      MakeAdapterTextHooks(options_.adapter_text, options_.model, model_->config),
      AdapterReadHelp{.crew = crew_.get(), .memory = hash_memory_.get()},
      AdapterRules{.strict_targets = options_.strict_targets, .base_folder = options_.model});
  return OkStatus();
}

Result<std::unique_ptr<Runtime>> Runtime::Create(const RuntimeOptions& options, LoadedModel& model,
                                                 bool lora, const MakeBackend& make_backend) {
  std::unique_ptr<Runtime> runtime(new Runtime);
  const ServedShape shape = model.shape();
  ExecutorLimits limits = ExecutorLimitsOf(options, shape, lora);
  runtime->options_ = options;
  runtime->model_ = &model;
  if (limits.page_tokens != options.limits.page_tokens) {
    LOG_INFO("pages of {} tokens instead of {}, so that an adapter's longest row fits into one",
             limits.page_tokens, options.limits.page_tokens);
  }
  RETURN_IF_ERROR(CheckPage(limits));
  RETURN_IF_ERROR(runtime->PlanMemory(lora, &limits));
  RETURN_IF_ERROR(CheckPool(limits, limits.num_pages));
  runtime->pool_ =
      std::make_unique<KvPool>(LayoutOf(shape, limits), limits.num_pages, model.device);
  runtime->transformer_ = std::make_unique<Transformer>(
      model.rank_config, model.weights, *runtime->pool_, TransformerLimitsOf(options, limits),
      model.stream, model.exchange.get());
  runtime->loras_ = std::make_unique<LoraStore>(model.config, limits.adapters_max, model.device);
  RETURN_IF_ERROR(runtime->MakeHostStore(lora));
  runtime->PlanReading(lora);
  RETURN_IF_ERROR(runtime->UseBackend(make_backend));
  runtime->MakeLoader();
  RETURN_IF_ERROR(runtime->MakeExecutor(limits, model, lora));
  runtime->contents_ = std::make_unique<ContentTable>(lora ? options.adapters_listed_max : 0);
  ASSIGN_OR_RETURN(runtime->registry_, OpenRegistry(options.registry, runtime->metrics_));
  runtime->catalog_ = std::make_unique<FolderCatalog>(
      *runtime->contents_, *runtime->backend_, *runtime->registry_,
      FolderJail(options.adapters, options.adapters_roots, options.learned,
                 options.adapter_text == AdapterTextUse::kAdapter, options.fetched),
      model.name);
  runtime->loader_->SetOnRead(
      [catalog = runtime->catalog_.get()](const std::string& key, const AdapterFacts& facts) {
        catalog->OnRead(key, facts);
      });
  runtime->grammars_ = MakeGrammarStore(options.model, limits.vocab_size, model.config);
  const EngineOptions engine = EngineOptionsOf(runtime->options_, limits, model, *runtime->catalog_,
                                               runtime->grammars_.get());
  TellSteps(engine.scheduler, limits);
  runtime->engine_ =
      std::make_unique<Engine>(*runtime->executor_, *runtime->contents_, *runtime->loader_,
                               SteadyClock::Get(), runtime->metrics_, engine);
  return runtime;
}

// Sums up what the server takes beside the weights, and chooses the sizes that no option gives by
// what is left.
Status Runtime::PlanMemory(bool lora, ExecutorLimits* limits) {
  const MemoryBudget& budget = *model_->budget;
  MemorySum sum(model_->device);
  AddServer(options_, model_->shape(), lora, &sum);
  if (lora) {
    const AdapterMemory adapters = AddAdapters(options_, model_->shape(), budget, &sum);
    fetch_limits_ = adapters.fetches;
    host_bytes_ = adapters.store_bytes;
  }
  ChoosePool(options_, model_->shape(), budget, limits, &sum);
  RETURN_IF_ERROR(sum.Check(budget));
  LOG_INFO("memory beside the weights: {}; {}", sum.ToString(), budget.DeviceText());
  if (!model_->device.is_cpu()) {
    LOG_INFO("of the host's memory: {}; {}", sum.HostToString(), budget.HostText());
  }
  return OkStatus();
}

// Worker processes and ranks read adapters where it keeps them.
Status Runtime::MakeHostStore(bool lora) {
  SharedMemory shared;
  if (model_->ranks != nullptr) {
    shared = model_->ranks->TakeHostMemory();
    rank_link_ = std::make_unique<RankLink>(model_->ranks->communicator(), shared.data());
  } else if (lora && CpuAssistOf(options_) == CpuAssistPlace::kProcess) {
    ASSIGN_OR_RETURN(shared, SharedMemory::Create(HostStore::SharedBytes(host_bytes_)));
  }
  host_store_ =
      std::make_unique<HostStore>(host_bytes_, metrics_, model_->device, std::move(shared));
  return OkStatus();
}

AdapterSlicer Runtime::MakeSlicer() const {
  if (model_->shard.num_ranks == 1) return {};
  return AdapterSlicer(model_->config, model_->shard, model_->weights.types);
}

void Runtime::PlanReading(bool lora) {
  options_.engine.scheduler.fetches_max = FetchesAtOnce(fetch_limits_);
  crew_ = std::make_unique<WorkCrew>(AdapterCores(NumCpus(), model_->device));
  const bool has_folders = !options_.adapters.empty() || !options_.fetched.empty();
  if (lora && has_folders) hash_memory_ = MakeHashMemory(options_.adapter_hashes);
}

void Runtime::MakeLoader() {
  loader_ = std::make_unique<PagedLoader>(
      model_->config, *backend_, *pool_, *loras_, model_->device, metrics_,
      CopiesAtOnce(options_.engine.scheduler.cold_start), fetch_limits_,
      LoaderRanks{.others = rank_link_.get(), .slicer = MakeSlicer()});
}

Status Runtime::MakeExecutor(const ExecutorLimits& limits, LoadedModel& model, bool lora) {
  ExecutorParts parts{.arrivals = &loader_->arrivals(),
                      .ranks = rank_link_.get(),
                      .turns = model.turns,
                      .device_turns = model.device_turns};
  const CpuAssistPlace where = CpuAssistOf(options_);
  if (lora && where != CpuAssistPlace::kOff) {
    CpuAssistOptions assist;
    assist.num_workers = ChooseAssistWorkers(options_.cpu_assist_workers);
    if (where == CpuAssistPlace::kProcess) assist.command = WorkerProgram();
    ASSIGN_OR_RETURN(assist_, CpuAssist::Create(assist, model.config, model.weights.types,
                                                limits.step_tokens_max, *host_store_,
                                                *parts.arrivals, model.device, metrics_));
    const AssistCost& cost = assist_->profile().Of(LoraModule::kQ, 64);
    LOG_INFO(
        "CPU assist: {} workers ({}); rank 64 on q, k and v costs one of them {:.0f} us and "
        "{:.1f} us a row",
        assist.num_workers, WordOf(std::optional(where), kCpuAssistWords), cost.fixed_us,
        cost.row_us);
    parts.bridge = assist_.get();
    parts.bridge_rates = assist_->rates();
  }
  executor_ = std::make_unique<ModelExecutor>(*transformer_, lora ? loras_.get() : nullptr, limits,
                                              model.stream, parts);
  if (rank_link_ == nullptr) return OkStatus();
  return rank_link_->Start({.limits = limits, .transformer = transformer_->limits()});
}

Status Runtime::LoadAdapters() {
  ASSIGN_OR_RETURN(const auto priorities,
                   ParseAdapterPriorities(options_.priorities, options_.pins));
  if (options_.adapters.empty()) {
    if (priorities.empty()) return OkStatus();
    const auto& [name, priority] = *priorities.begin();
    return InvalidArgumentError(PriorityFlag(name, priority) +
                                ": there are no adapters; name their folder with --adapters DIR");
  }
  catalog_->SetPriorities(priorities);
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  ASSIGN_OR_RETURN(const auto restored, catalog_->RestoreFromRegistry());
  ASSIGN_OR_RETURN(const auto found, catalog_->LoadFolder(GibToBytes(options_.read_at_start_gib)));
  LOG_INFO("adapters: {} of the registry, {} read, {} listed, {} refused, in {:.3f} s",
           restored.num_loaded, found.num_loaded, found.num_listed,
           restored.num_skipped + found.num_skipped,
           NsToSeconds(SteadyClock::Get().NowNs() - begin_ns));
  const bool has_none = restored.num_loaded + restored.num_skipped + found.num_loaded +
                            found.num_listed + found.num_skipped ==
                        0;
  if (has_none) {
    LOG_WARN(
        "no adapters in {}: put a folder for each there, with {} and {}, and start again, or load "
        "it with /v1/load_lora_adapter",
        options_.adapters, kPeftFiles[0], kPeftFiles[1]);
  }
  for (const auto& [name, priority] : priorities) {
    if (catalog_->Find(name).ok()) continue;
    return NoSuchAdapter(*catalog_, name).WithContext(PriorityFlag(name, priority));
  }
  RETURN_IF_ERROR(ReadPins());
  if (options_.engine.scheduler.cold_start != ColdStart::kCached) {
    if (options_.read_ahead) BeginReadAhead();
    return OkStatus();
  }
  std::vector<std::string> keys;
  for (const AdapterInfo& info : catalog_->List()) keys.push_back(info.key());
  return engine_->PinAdapters(keys).WithContext("--cold-start cached");
}

void Runtime::BeginReadAhead() {
  std::vector<ReadAhead::Folder> folders;
  for (const AdapterInfo& info : catalog_->List()) {
    folders.push_back({.path = info.path, .hash = info.hash, .key = info.unread_key});
  }
  read_ahead_ = std::make_unique<ReadAhead>(
      *backend_, std::move(folders), [this] { return loader_->is_reading(); },
      [this](const std::string& key, const AdapterFacts& facts) { catalog_->OnRead(key, facts); });
}

std::string Runtime::arithmetic_id() const {
  return MakeArithmeticId(model_->device, {.types = model_->weights.types,
                                           .page_tokens = limits().page_tokens,
                                           .ranks = model_->shard.num_ranks,
                                           .base_codes = QuantisedWord(model_->config)});
}

Status Runtime::ReadPins() {
  for (const std::string& name : options_.pins) {
    ASSIGN_OR_RETURN(const AdapterInfo info, catalog_->Find(name));
    ASSIGN_OR_RETURN(const AdapterFacts facts, backend_->Read(info.path));
    if (info.hash.empty()) catalog_->OnRead(info.unread_key, facts);
    if (!host_store_->Has(facts.hash)) {
      return ResourceExhaustedError("--pin " + name + ": its " + std::to_string(facts.bytes) +
                                    " bytes find no room in the host's memory beside the other " +
                                    "adapters that stay; start with more --host-gib");
    }
  }
  return OkStatus();
}

Status Runtime::PinSynthetic(std::vector<std::pair<std::string, LoraWeights>> adapters) {
  std::vector<std::string> hashes;
  for (auto& [hash, weights] : adapters) {
    HostAdapter adapter = DescribeHostAdapter(weights, model_->config, hash, "");
    const AdapterSlicer slicer = MakeSlicer();
    if (!slicer.keeps_all()) adapter.facts = slicer.Slice(adapter).facts;
    const HostStore::Held held = host_store_->Put(std::move(adapter), std::move(weights));
    if (!host_store_->Has(hash)) {
      return ResourceExhaustedError("the adapters do not fit into --host-gib");
    }
    RETURN_IF_ERROR(contents_->Publish({.path = hash, .hash = hash, .key = hash}));
    hashes.push_back(hash);
  }
  return engine_->PinAdapters(hashes);
}

Status Runtime::ListSynthetic(const std::vector<std::string>& hashes) {
  for (const std::string& hash : hashes) {
    RETURN_IF_ERROR(contents_->Publish({.path = hash, .hash = hash, .key = hash}));
  }
  if (options_.engine.scheduler.cold_start != ColdStart::kCached) return OkStatus();
  return engine_->PinAdapters(hashes);
}

// Adapters that were not read yet may have any rank: the usual ones are recorded for.
void Runtime::RecordGraphs(bool quiet) {
  if (model_->device.is_cpu()) return;
  constexpr int32_t kUsualRankMax = 64;
  int32_t rank_max = 0;
  for (const AdapterInfo& info : catalog_->List()) {
    rank_max = std::max(rank_max, info.hash.empty() ? kUsualRankMax : info.rank_max);
  }
  const int64_t free_bytes = FreeMemoryBytes(model_->device);
  ProgressBar bar("recording decode graphs", quiet);
  executor_->RecordGraphs([&bar](int64_t done, int64_t total) { bar.Update(done, total); },
                          rank_max);
  LOG_INFO("memory: {} for decode graphs and the kernels in them; {}",
           BytesText(free_bytes - FreeMemoryBytes(model_->device)), model_->budget->DeviceText());
}

}  // namespace graft
