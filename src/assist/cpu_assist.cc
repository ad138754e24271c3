#include "assist/cpu_assist.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/thread_pool.h"
#include "model/lora_module.h"

namespace graft {
namespace {

// Jobs that the engine's thread may be ahead of the workers: of two layers. Whether a layer's rows
// have arrived is asked when it is launched, so that launching all at once would ask too early.
constexpr uint32_t kJobsAhead = 8;

AssistLimits LimitsOf(const ModelConfig& config, DType activations, int32_t rows_max,
                      int32_t num_workers) {
  AssistLimits limits;
  limits.rows_max = rows_max;
  limits.num_workers = num_workers;
  int64_t k_max = 0;
  for (const LoraModule first : AssistProfile::kFirstModules) {
    int64_t columns = 0;
    for (const LoraModule module : ModulesOfProjection(first)) {
      const LoraModuleShape shape = ShapeOfLoraModule(config, module);
      k_max = std::max(k_max, shape.in);
      columns += shape.out;
    }
    limits.delta_columns = std::max(limits.delta_columns, columns);
  }
  limits.x_row_bytes = k_max * DTypeBytes(activations);
  return limits;
}

int64_t ColumnsOf(const LoraArgs& args) {
  return args.slice_begin[args.num_slices - 1] + args.slice_n[args.num_slices - 1];
}

DType DTypeOfX(const LoraArgs& args) { return args.x_is_fp32 ? DType::kF32 : args.dtype; }

}  // namespace

int ChooseAssistWorkers(int asked) {
  constexpr int kOthers = 2;  // the engine's thread, and those that speak HTTP
  return asked == 0 ? std::clamp(NumCpus() - kOthers, 1, kHostFlagsMax) : asked;
}

CpuAssist::CpuAssist(const HostStore& store, const PageArrivals& arrivals, Metrics& metrics)
    : store_(store),
      arrivals_(arrivals),
      rows_total_(metrics.Counter("graft_cpu_assist_rows_total",
                                  "Rows of projections that the CPU computed for adapters on "
                                  "their way to the device")),
      layers_total_(metrics.Counter("graft_cpu_assist_layers_total",
                                    "Layers of steps in which the CPU did")) {}

Result<std::unique_ptr<CpuAssist>> CpuAssist::Create(const CpuAssistOptions& options,
                                                     const ModelConfig& config,
                                                     const ServedTypes& types, int32_t rows_max,
                                                     const HostStore& store,
                                                     const PageArrivals& arrivals,
                                                     const Device& device, Metrics& metrics) {
  if (types.adapters == DType::kF16) {
    return InvalidArgumentError("the CPU's kernels have no fp16: serve in bf16 for cpu-assist");
  }
  if (!HasDenseTargets(config)) {
    return UnimplementedError("the CPU assist does not cover the projections of " +
                              std::string(ArchitectureName(config.architecture)) +
                              ": leave out cpu-assist");
  }
  if (options.num_workers < 1 || options.num_workers > kHostFlagsMax) {
    return InvalidArgumentError("the CPU assist has 1 to " + std::to_string(kHostFlagsMax) +
                                " workers, not " + std::to_string(options.num_workers));
  }
  const DType activations = types.activations(device);
  const AssistLimits limits = LimitsOf(config, activations, rows_max, options.num_workers);
  std::unique_ptr<CpuAssist> assist(new CpuAssist(store, arrivals, metrics));
  assist->in_processes_ = !options.command.empty();
  char* memory = nullptr;
  UseDevice(device);
  if (assist->in_processes_) {
    CHECK_GT(store.shared().bytes(), 0) << "worker processes read shared memory";
    ASSIGN_OR_RETURN(assist->shared_, SharedMemory::Create(AssistExchange::Bytes(limits)));
    if (!device.is_cpu()) assist->shared_.Lock(0, assist->shared_.bytes());
    memory = assist->shared_.data();
  } else {
    assist->pinned_ = PinnedBuffer(AssistExchange::Bytes(limits), device);
    memory = assist->pinned_.as<char>();
  }
  assist->profile_ = AssistProfile::Measure(config, types.adapters, activations == DType::kF32);
  assist->rates_ = RatesOf(assist->profile_, config, types.adapters, options.num_workers);
  assist->exchange_ = std::make_unique<AssistExchange>(limits, memory);
  assist->workers_ = std::make_unique<AssistWorkers>(
      *assist->exchange_, AssistProcesses{options.command, &assist->shared_, &store.shared()},
      metrics, options.worker_threads);
  assist->num_done_ = Buffer(sizeof(uint32_t), device);
  if (options.synchronises) {
    assist->delta_ =
        Buffer(limits.rows_max * limits.delta_columns * int64_t{sizeof(float)}, device);
  }
  return assist;
}

BytesNeeded CpuAssist::BytesFor(const CpuAssistOptions& options, const ModelConfig& config,
                                const ServedTypes& types, int32_t rows_max, const Device& device) {
  const DType activations = types.activations(device);
  const AssistLimits limits = LimitsOf(config, activations, rows_max, options.num_workers);
  BytesNeeded needed = {.on_device = int64_t{sizeof(uint32_t)}};
  if (options.synchronises) {
    needed.on_device += limits.rows_max * limits.delta_columns * int64_t{sizeof(float)};
  }
  (device.is_cpu() ? needed.on_device : needed.on_host) += AssistExchange::Bytes(limits);
  return needed;
}

void CpuAssist::Enter(HostBatch* batch) {
  num_layers_taken_ = 0;
  pending_.clear();
  Sort(batch->lora_segments, &settled_);
  Sort(batch->lora_prompt_segments, &settled_prompts_);
  std::sort(pending_.begin(), pending_.end(),
            [](const Pending& a, const Pending& b) { return a.rows.row_begin < b.rows.row_begin; });
  if (pending_.empty() || !CanTake()) return;
  batch->bridge = this;
  batch->settled_segments = settled_;
  batch->settled_prompt_segments = settled_prompts_;
}

// Into those that wait for rows and those that do not.
void CpuAssist::Sort(std::span<const LoraSegment> segments, std::vector<LoraSegment>* settled) {
  settled->clear();
  for (const LoraSegment& segment : segments) {
    const PageArrival* const arrival = arrivals_.Find(segment.adapter_slot);
    if (arrival == nullptr || arrival->HasArrived(arrival->adapter().facts.num_layers - 1)) {
      settled->push_back(segment);
    } else if (segment.row_begin < segment.row_end) {
      pending_.push_back({segment, arrival});
    }
  }
}

bool CpuAssist::CanTake() const {
  if (pending_.size() > static_cast<size_t>(kHostSegmentsMax)) return false;
  int64_t num_places = 0;
  for (const Pending& pending : pending_) {
    const HostAdapter& adapter = pending.arrival->adapter();
    num_places += int64_t{2} * kLoraSlicesMax * adapter.facts.rank_max;
    if (!in_processes_) continue;
    for (const HostAdapter::Stretch& stretch : adapter.stretches) {
      const int64_t place = stretch.data - store_.shared().data();
      if (place < 0 || place >= store_.shared().bytes()) return false;
    }
  }
  return num_places <= kAssistPlacesMax;
}

bool CpuAssist::TakesLayer(int32_t layer) {
  const bool takes = std::any_of(pending_.begin(), pending_.end(), [layer](const Pending& pending) {
    return !pending.arrival->HasArrived(layer);
  });
  if (!takes) return false;
  ++num_layers_taken_;
  layers_total_.Increment();
  return true;
}

void CpuAssist::Begin(int32_t layer, LoraModule first, const LoraArgs& args, Stream& stream) {
  number_ = exchange_->NextNumber(kJobsAhead);
  AssistJob& job = exchange_->Prepare(number_);
  num_shares_ = 0;
  if (!FillJob(layer, first, args, &job)) return;
  num_shares_ = SplitRows(parts_, exchange_->limits().num_workers, job.share_begin);
  exchange_->Post(number_, num_shares_);
  rows_total_.Increment(rows_.num_rows());
  HostExport({.rows = rows_,
              .x = args.x,
              .x_stride = args.x_stride,
              .k = args.k,
              .dtype = DTypeOfX(args),
              .out = exchange_->x(),
              .flag = exchange_->exported(),
              .step = number_,
              .num_done = num_done_.as<uint32_t>()},
             stream);
  if (delta_.bytes() > 0) Synchronize(stream);
}

const float* CpuAssist::TakeAnswers(const HostWaitArgs& wait, int64_t columns, Stream& stream) {
  if (delta_.bytes() == 0) {
    HostWait(wait, stream);
    return exchange_->delta();
  }
  Stream host{.device = {}, .cpu_threads = stream.cpu_threads};
  HostWait(wait, host);
  for (int32_t i = 0; i < rows_.count; ++i) {
    const HostSegments::Segment& segment = rows_.segments[i];
    CopyToDevice(delta_.as<float>() + segment.row_begin * columns,
                 exchange_->delta() + segment.row_begin * columns,
                 (segment.row_end - segment.row_begin) * columns * int64_t{sizeof(float)}, stream);
  }
  return delta_.as<float>();
}

void CpuAssist::Finish(const LoraArgs& args, Stream& stream) {
  if (num_shares_ == 0) return;
  const HostWaitArgs wait{.flags = exchange_->answered(),
                          .flag_stride = AssistExchange::kFlagStride,
                          .num_flags = num_shares_,
                          .step = number_};
  HostAddArgs add{.rows = rows_,
                  .delta = TakeAnswers(wait, ColumnsOf(args), stream),
                  .delta_stride = ColumnsOf(args),
                  .y = args.y,
                  .y_stride = args.y_stride,
                  .num_slices = args.num_slices};
  std::copy(args.slice_begin, args.slice_begin + kLoraSlicesMax, add.slice_begin);
  std::copy(args.slice_n, args.slice_n + kLoraSlicesMax, add.slice_n);
  HostAdd(add, stream);
}

bool CpuAssist::FillJob(int32_t layer, LoraModule first, const LoraArgs& args, AssistJob* job) {
  job->dtype = args.dtype;
  job->x_is_fp32 = args.x_is_fp32;
  job->k = args.k;
  job->delta_columns = ColumnsOf(args);
  job->num_slices = args.num_slices;
  std::copy(args.slice_begin, args.slice_begin + kLoraSlicesMax, job->slice_begin);
  std::copy(args.slice_n, args.slice_n + kLoraSlicesMax, job->slice_n);
  job->num_segments = 0;
  rows_.count = 0;
  parts_.clear();
  int32_t num_places = 0;
  for (const Pending& pending : pending_) {
    const auto matrices = pending.arrival->adapter()
                              .matrices_of(layer, first)
                              .first(static_cast<size_t>(args.num_slices));
    int32_t rank_max = 0;
    for (const HostAdapter::Matrix& matrix : matrices) rank_max = std::max(rank_max, matrix.rank);
    if (rank_max == 0) continue;
    AddSegment(pending, matrices, args.scale, job, &num_places);
    parts_.push_back({pending.rows.row_end - pending.rows.row_begin, profile_.Of(first, rank_max)});
  }
  return job->num_segments > 0;
}

void CpuAssist::AddSegment(const Pending& pending, std::span<const HostAdapter::Matrix> matrices,
                           float scale, AssistJob* job, int32_t* num_places) {
  const HostAdapter& adapter = pending.arrival->adapter();
  AssistJob::Segment& segment = job->segments[job->num_segments++];
  HostSegments::Segment& rows = rows_.segments[rows_.count++];
  rows = {pending.rows.row_begin, pending.rows.row_end, {}};
  segment = {};
  segment.row_begin = rows.row_begin;
  segment.row_end = rows.row_end;
  for (size_t s = 0; s < matrices.size(); ++s) {
    const HostAdapter::Matrix& matrix = matrices[s];
    CHECK_LE(*num_places + 2 * matrix.rank, kAssistPlacesMax);
    rows.scale[s] = matrix.rank == 0 ? 0.0f : matrix.scale * scale;
    segment.rank[s] = matrix.rank;
    segment.places_begin[s] = *num_places;
    PlaceRows(adapter, matrix.a_begin, matrix.a_row_bytes, matrix.rank, job->places + *num_places);
    *num_places += matrix.rank;
    PlaceRows(adapter, matrix.b_begin, matrix.b_row_bytes, matrix.rank, job->places + *num_places);
    *num_places += matrix.rank;
  }
}

// Rows are never cut, but stretches end between them.
void CpuAssist::PlaceRows(const HostAdapter& adapter, int64_t begin, int64_t row_bytes,
                          int32_t count, uint64_t* places) const {
  const char* const base = in_processes_ ? store_.shared().data() : nullptr;
  auto stretch = std::upper_bound(adapter.stretches.begin(), adapter.stretches.end(), begin,
                                  [](int64_t at, const HostAdapter::Stretch& candidate) {
                                    return at < candidate.source_begin + candidate.bytes;
                                  });
  for (int32_t j = 0; j < count; ++j, begin += row_bytes) {
    while (begin >= stretch->source_begin + stretch->bytes) ++stretch;
    const char* const row = stretch->data + (begin - stretch->source_begin);
    places[j] = reinterpret_cast<uintptr_t>(row) - reinterpret_cast<uintptr_t>(base);
  }
}

}  // namespace graft
