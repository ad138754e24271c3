#include "model/transformer.h"

#include <algorithm>
#include <optional>

#include "kernels/attention/attention.h"
#include "kernels/embedding/embedding.h"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/gemm/gemm.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope_kv_write/rope_kv_write.h"
#include "kernels/scaled_add/scaled_add.h"
#include "kernels/soft_cap/soft_cap.h"
#include "model/virtual_batch.h"

namespace graft {
namespace {

// What LoRA's launches need to look up rows and ask for the first bytes while the product runs: 32
// distinct adapters take 7.38 ms a step instead of 7.51.
constexpr int32_t kSparedSharedBytes = 40 << 10;
constexpr int64_t kSparingRowsMax = 128;  // 256 rows would take 17.9 ms a step instead of 17.2

std::span<const LoraSegment> SegmentsOf(LoraRows rows, const DeviceBatch& batch) {
  switch (rows) {
    case LoraRows::kDrawn:
      return batch.lora_segments;
    case LoraRows::kPrompts:
      return batch.lora_prompt_segments;
    case LoraRows::kDrawnAndPrompts:
      return batch.lora_all_segments;
    case LoraRows::kSettledDrawn:
      return batch.settled_segments;
    case LoraRows::kSettledPrompts:
      return batch.settled_prompt_segments;
  }
  return {};
}

// The arguments of one product with the segments of these rows.
LoraArgs LoraOf(LoraRows rows, LoraArgs args, const DeviceBatch& batch) {
  const std::span<const LoraSegment> segments = SegmentsOf(rows, batch);
  args.segments = segments.data();
  args.num_segments = static_cast<int32_t>(segments.size());
  const bool are_drawn = rows == LoraRows::kDrawn || rows == LoraRows::kSettledDrawn;
  const bool has_prompts =
      !SegmentsOf(rows == LoraRows::kDrawn ? LoraRows::kPrompts : LoraRows::kSettledPrompts, batch)
           .empty();
  if (are_drawn && has_prompts) args.segment_rows = batch.lora_rows.end - batch.lora_rows.begin;
  if (rows == LoraRows::kDrawn) args.segment_rows_each = batch.lora_segment_rows_max;
  return args;
}

// Which of a step's times a launch counts for; null: for the total alone.
int64_t ForwardTimes::*TimeOf(LaunchKind kind) {
  switch (kind) {
    case LaunchKind::kProduct:
      return &ForwardTimes::gemm_ns;
    case LaunchKind::kShrink:
    case LaunchKind::kExpand:
    case LaunchKind::kBridgeFinish:
      return &ForwardTimes::lora_ns;
    case LaunchKind::kSumRanks:
      return &ForwardTimes::ranks_ns;
    case LaunchKind::kBridgeBegin:
    case LaunchKind::kActivate:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

struct Transformer::Step {
  const DeviceBatch batch;
  Stream& stream;
  StreamTimer* timer;
  ForwardTimes* times;
  LaunchPlan plan;          // of layers that the device computes alone
  LaunchPlan bridged_plan;  // where there is a bridge, of those that it takes
  bool bridged = false;     // in this layer batch.bridge computes for adapters under way

  const LaunchPlan& layer_plan() const { return bridged ? bridged_plan : plan; }
  int64_t num_rows() const { return static_cast<int64_t>(batch.tokens.size()); }
  int64_t* TotalOf(int64_t ForwardTimes::*part) const {
    return times == nullptr ? nullptr : &(times->*part);
  }
  StreamTimer::Scope Time(int64_t ForwardTimes::*part) const { return {timer, TotalOf(part)}; }
};

struct Transformer::Projection {
  const void* x;
  const GemmWeight& weight;
  const Buffer& bias;  // may be empty
  float* y;
  bool accumulate;
  LayerProduct product;
  LoraModule first;
  std::span<const int64_t> slice_n;  // columns of each module in y
  void* activated = nullptr;         // see GemmArgs::activated
  Activation activation = Activation::kSilu;
  Target sum = {};  // of all ranks' y
};

Transformer::Transformer(const ModelConfig& config, const ModelWeights& weights, KvPool& pool,
                         const TransformerLimits& limits, Stream& stream, RankExchange* ranks)
    : config_(config),
      weights_(weights),
      pool_(pool),
      limits_(limits),
      activation_dtype_(weights.types.activations(stream.device)),
      traits_(TraitsOf(stream.device)),
      ranks_(ranks),
      ropes_(MakeRopeTables(config, limits.context_tokens_max, stream)),
      upload_(BatchLimitsOf(limits, config, pool.layout(), stream.device), stream.device) {
  CHECK_EQ(weights.layers.size(), static_cast<size_t>(config.num_layers));
  CHECK_EQ(config.layers.size(), static_cast<size_t>(config.num_layers));
  const int32_t window = config.widest_window();
  for (const LayerSpec& layer : config.layers) {
    CHECK(layer.window == 0 || layer.window == window) << "layers with windows of several lengths";
    CHECK_LT(static_cast<size_t>(layer.rope), ropes_.size());
    CHECK(!layer.output_norms || layer.residual_scale == 1.0f) << "norms undo scales";
  }
  CHECK(pool.layout().num_layers == config.num_layers &&
        pool.layout().num_kv_heads == config.num_kv_heads &&
        pool.layout().head_dim == config.head_dim && pool.layout().dtype == weights.types.kv)
      << "the page pool was laid out for another model";
  CHECK(limits.step_tokens_max > 0 && limits.logits_rows_max > 0 && limits.context_tokens_max > 0);
  CHECK(limits.lora_rank_max >= 0 && limits.lora_rank_max <= kLoraRankMax);
  CHECK(ranks == nullptr ||
        ranks->part_floats() >= PartFloatsOf(limits, config, ranks->num_ranks()));
  const Device& device = stream.device;
  const TransformerSizes sizes = SizesOf(limits, config, weights.types, pool.layout(), device);
  hidden_ = Buffer(sizes.hidden, device);
  normed_ = Buffer(sizes.normed, device);
  branch_ = Buffer(sizes.branch, device);
  qkv_ = Buffer(sizes.qkv, device);
  attended_ = Buffer(sizes.attended, device);
  gate_up_ = Buffer(sizes.gate_up, device);
  activated_ = Buffer(sizes.activated, device);
  lora_h_ = Buffer(sizes.lora_h, device);
  lora_delta_ = Buffer(sizes.lora_delta, device);
  lora_words_ = Buffer(sizes.lora_words, device);
  attention_scratch_ = Buffer(sizes.attention_scratch, device);
  logits_rows_ = Buffer(sizes.logits_rows, device);
  logits_hidden_ = Buffer(sizes.logits_hidden, device);
  logits_normed_ = Buffer(sizes.logits_normed, device);
  logits_ = Buffer(sizes.logits, device);
}

bool Transformer::CanRunLoraBeside(int64_t num_rows) const {
  return lora_words_.bytes() > 0 && num_rows <= kLoraBesideRowsMax;
}

LoraBesideScope Transformer::ChooseBesideScope(int64_t num_rows, int32_t rank_bound,
                                               int32_t num_tiles) const {
  // 40 rows of one adapter took 5.72 ms a step after the products, 5.82 beside them, 64 rows 6.19
  // and 6.56 (Llama-3.1-8B's shape, one H200); between 32 and 40 nobody measured.
  constexpr int64_t kRowsAfterMin = 40;
  if (!CanRunLoraBeside(num_rows) || num_rows >= kRowsAfterMin) return LoraBesideScope::kNone;
  return graft::ChooseBesideScope(rank_bound, num_tiles, traits_.num_multiprocessors);
}

void Transformer::CheckBatch(const HostBatch& batch) const {
  const size_t num_rows = batch.tokens.size();
  CHECK_LE(num_rows, static_cast<size_t>(limits_.step_tokens_max));
  CHECK(batch.positions.size() == num_rows && batch.row_page.size() == num_rows &&
        batch.row_slot.size() == num_rows);
  const size_t num_sequences = batch.kv_tokens.size();
  CHECK(batch.row_begin.size() == num_sequences + 1 &&
        batch.page_begin.size() == num_sequences + 1);
  CHECK_EQ(static_cast<size_t>(batch.row_begin.back()), num_rows);
  CHECK_EQ(static_cast<size_t>(batch.page_begin.back()), batch.pages.size());
  CHECK_LE(static_cast<size_t>(batch.num_given), num_sequences);
  CHECK((batch.virtual_embeddings.empty() && batch.virtual_kv.empty()) ||
        batch.virtual_rows != nullptr)
      << "virtual tokens need the adapters' rows";
  for (const int32_t kv_tokens : batch.kv_tokens) CHECK_LE(kv_tokens, limits_.context_tokens_max);
  if (!batch.lora_segments.empty() || !batch.lora_prompt_segments.empty()) {
    CHECK(batch.lora.matrices != nullptr) << "segments need the adapters' matrices";
    CHECK_LE(batch.lora.rank_max, limits_.lora_rank_max);
  }
}

const float* Transformer::Forward(const HostBatch& batch, Stream& stream, ForwardTimes* times) {
  return Run(Put(batch, {}, stream), stream, times);
}

DeviceBatch Transformer::Put(const HostBatch& batch, const BatchUpload::Padding& padding,
                             Stream& stream) {
  CheckBatch(batch);
  exchanges_done_ = 0;  // also after a recording that found no memory: no exchange of it came about
  const DeviceBatch put = upload_.Put(batch, padding, stream);
  num_rows_ = static_cast<int32_t>(put.tokens.size());
  return put;
}

const float* Transformer::Run(const DeviceBatch& batch, Stream& stream, ForwardTimes* times) {
  Step step{batch, stream, TimerFor(stream, times), times, PlanOf(batch, stream, false)};
  if (batch.bridge != nullptr) step.bridged_plan = PlanOf(batch, stream, true);
  {
    const StreamTimer::Scope scope = step.Time(&ForwardTimes::total_ns);
    Embed(step);
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      step.bridged = batch.bridge != nullptr && batch.bridge->TakesLayer(layer);
      if (batch.gate != nullptr && !step.bridged) batch.gate->Await(layer, stream);
      Layer(layer, step);
    }
    RunLogits(batch.logits_rows, step);
  }
  exchanges_done_ = 0;
  if (times != nullptr) timer_->Collect();
  return logits_.as<float>();
}

void Transformer::Embed(const Step& step) {
  const DeviceBatch& batch = step.batch;
  const Target target = {hidden_.as<float>(), false};
  Embedding({.table = weights_.embedding.data(),
             .dtype = weights_.types.embeddings,
             .vocab_size = static_cast<int32_t>(weights_.vocabulary.size()),
             .tokens = BeginExchanges(batch.tokens, step.stream),
             .out = PartOf(target).y,
             .num_tokens = step.num_rows(),
             .n = config_.hidden_size,
             .scale = EmbeddingScale(config_, weights_.types.embeddings),
             .is_slice = ranks_ != nullptr,
             .first_word = static_cast<int32_t>(weights_.vocabulary.begin)},
            step.stream);
  if (ranks_ != nullptr) SumRanks(step.num_rows() * config_.hidden_size, target, step.stream);
  PlaceVirtualTokens(batch, config_, weights_.types.embeddings, hidden_.as<float>(), pool_,
                     step.stream);
  if (config_.hidden_scale != 1.0f) {
    ScaledAdd({.x = target.y,
               .y = target.y,
               .n = step.num_rows() * config_.hidden_size,
               .scale = config_.hidden_scale},
              step.stream);
  }
}

StreamTimer* Transformer::TimerFor(Stream& stream, const ForwardTimes* times) {
  if (times == nullptr) return nullptr;
  if (timer_ == nullptr) timer_ = std::make_unique<StreamTimer>(stream);
  timer_->Start();
  return timer_.get();
}

// As LayerSpec has it.
void Transformer::Layer(int32_t layer, const Step& step) {
  const LayerWeights& weights = weights_.layers[layer];
  Norm(hidden_.as<float>(), weights.attention_norm, step);
  Attention(layer, step);
  AddBranch(config_.layers[layer], weights.attention_output_norm, step);
  Norm(hidden_.as<float>(), weights.mlp_norm, step);
  Mlp(layer, step);
  AddBranch(config_.layers[layer], weights.mlp_output_norm, step);
}

Transformer::Target Transformer::TargetOf(const LayerSpec& spec) {
  if (spec.has_branch()) return {branch_.as<float>(), false};
  return {hidden_.as<float>(), true};
}

void Transformer::ProjectBack(const void* x, const GemmWeight& weight, const Buffer& bias,
                              LayerProduct product, LoraModule module, int32_t layer,
                              const Step& step) {
  const int64_t slice_n[] = {config_.hidden_size};
  const Target target = TargetOf(config_.layers[layer]);
  const Target part = PartOf(target);
  Project({.x = x,
           .weight = weight,
           .bias = bias,
           .y = part.y,
           .accumulate = part.accumulates,
           .product = product,
           .first = module,
           .slice_n = slice_n,
           .sum = target},
          layer, step);
}

void Transformer::Attention(int32_t layer, const Step& step) {
  const LayerWeights& weights = weights_.layers[layer];
  const int64_t qkv_n[] = {config_.q_size(), config_.kv_size(), config_.kv_size()};
  float* q = qkv_.as<float>();

  Project({normed_.data(), weights.qkv, weights.qkv_bias, q, false, LayerProduct::kQkv,
           LoraModule::kQ, qkv_n},
          layer, step);
  AttendPages(layer, step);
  ProjectBack(attended_.data(), weights.o, weights.o_bias, LayerProduct::kO, LoraModule::kO, layer,
              step);
}

void Transformer::Mlp(int32_t layer, const Step& step) {
  const LayerWeights& weights = weights_.layers[layer];
  const int64_t gate_up_n[] = {config_.intermediate_size, config_.intermediate_size};

  Project({normed_.data(), weights.gate_up, weights.gate_up_bias, gate_up_.as<float>(), false,
           LayerProduct::kGateUp, LoraModule::kGate, gate_up_n, activated_.data(),
           config_.layers[layer].activation},
          layer, step);
  ProjectBack(activated_.data(), weights.down, weights.down_bias, LayerProduct::kDown,
              LoraModule::kDown, layer, step);
}

// Normalises (where the model does) and rotates q and k, stores k and v in the sequences' pages,
// and attends over the pages.
void Transformer::AttendPages(int32_t layer, const Step& step) {
  const StreamTimer::Scope scope = step.Time(&ForwardTimes::attention_ns);
  const DeviceBatch& batch = step.batch;
  const LayerWeights& weights = weights_.layers[layer];
  const LayerSpec& spec = config_.layers[layer];
  float* q = qkv_.as<float>();
  const bool norms_here = spec.qk_norm && spec.qk_norm_across_heads;
  if (norms_here) NormAcrossHeads(layer, step.num_rows(), step.stream);
  RopeKvWrite({.qkv = q,
               .row_stride = config_.qkv_size(),
               .num_rows = static_cast<int32_t>(step.num_rows()),
               .num_q_heads = config_.num_heads,
               .q_norm_weight = norms_here ? nullptr : weights.q_norm.as<float>(),
               .k_norm_weight = norms_here ? nullptr : weights.k_norm.as<float>(),
               .norm_epsilon = config_.rms_norm_epsilon,
               .positions = batch.positions.data(),
               .rotary_dim = config_.num_rotary(),
               .cos = ropes_[spec.rope].cos(),
               .sin = ropes_[spec.rope].sin(),
               .layout = pool_.layout(),
               .layer = layer,
               .pool = pool_.data(),
               .row_page = batch.row_page.data(),
               .row_slot = batch.row_slot.data()},
              step.stream);
  const DeviceBatch::Splits& splits = spec.window > 0 ? batch.window_splits : batch.full_splits;
  graft::Attention({.layout = pool_.layout(),
                    .layer = layer,
                    .pool = pool_.data(),
                    .pages = batch.pages.data(),
                    .page_begin = batch.page_begin.data(),
                    .row_begin = batch.row_begin.data(),
                    .kv_tokens = batch.kv_tokens.data(),
                    .num_sequences = static_cast<int32_t>(batch.kv_tokens.size()),
                    .num_heads = config_.num_heads,
                    .q = q,
                    .q_stride = config_.qkv_size(),
                    .out = attended_.data(),
                    .out_dtype = activation_dtype_,
                    .scale = spec.attention_scale,
                    .score_cap = spec.score_cap,
                    .window = spec.window,
                    .num_given = batch.num_given,
                    .splits = splits.splits,
                    .num_splits = splits.count,
                    .rows_max = static_cast<int32_t>(step.num_rows()),
                    .sequence_rows_max = batch.sequence_rows_max,
                    .kv_tokens_max = batch.kv_tokens_max,
                    .scratch = attention_scratch_.as<float>(),
                    .next_starts_late = step.layer_plan().attention_holds_next},
                   step.stream);
}

// normed = RMSNorm(x), or x itself where the layer has no such norm, in the dtype that GEMMs read.
void Transformer::Norm(const float* x, const Buffer& weight, const Step& step) {
  if (weight.data() == nullptr) {
    return ScaledAdd({.x = x,
                      .y = normed_.data(),
                      .y_dtype = activation_dtype_,
                      .n = step.num_rows() * config_.hidden_size},
                     step.stream);
  }
  RmsNorm({.x = x,
           .x_stride = config_.hidden_size,
           .weight = weight.as<float>(),
           .out = normed_.data(),
           .out_stride = config_.hidden_size,
           .out_dtype = activation_dtype_,
           .num_tokens = step.num_rows(),
           .n = config_.hidden_size,
           .epsilon = config_.rms_norm_epsilon},
          step.stream);
}

void Transformer::AddBranch(const LayerSpec& spec, const Buffer& weight, const Step& step) {
  if (!spec.has_branch()) return;
  if (!spec.output_norms) {
    return ScaledAdd({.x = branch_.as<float>(),
                      .y = hidden_.data(),
                      .n = step.num_rows() * config_.hidden_size,
                      .scale = spec.residual_scale,
                      .accumulate = true},
                     step.stream);
  }
  RmsNorm({.x = branch_.as<float>(),
           .x_stride = config_.hidden_size,
           .weight = weight.as<float>(),
           .out = hidden_.data(),
           .out_stride = config_.hidden_size,
           .accumulate = true,
           .num_tokens = step.num_rows(),
           .n = config_.hidden_size,
           .epsilon = config_.rms_norm_epsilon},
          step.stream);
}

LaunchPlan Transformer::PlanOf(const DeviceBatch& batch, const Stream& stream, bool bridged) const {
  const auto has = [&](LoraRows rows) { return !SegmentsOf(rows, batch).empty(); };
  const bool all_silu = std::ranges::all_of(
      config_.layers, [](const LayerSpec& layer) { return layer.activation == Activation::kSilu; });
  return PlanLaunches({.on_gpu = !stream.device.is_cpu(),
                       .can_beside = CanRunLoraBeside(static_cast<int64_t>(batch.tokens.size())),
                       .can_follow = lora_words_.bytes() > 0,
                       .bridged = bridged,
                       .sums_ranks = ranks_ != nullptr,
                       .fuses_activation = all_silu,
                       .has_drawn = has(bridged ? LoraRows::kSettledDrawn : LoraRows::kDrawn),
                       .has_prompts = has(bridged ? LoraRows::kSettledPrompts : LoraRows::kPrompts),
                       .beside_scope = batch.lora_beside});
}

void Transformer::Project(const Projection& projection, int32_t layer, const Step& step) {
  const ProductPlan& plan = step.layer_plan().of(projection.product);
  std::optional<StreamTimer::Scope> scope;
  int64_t ForwardTimes::*timed = nullptr;
  const LoraArgs lora = MakeLoraArgs(projection, layer, step);
  for (const graft::Launch& launch : plan.launches()) {
    int64_t ForwardTimes::*const time = TimeOf(launch.kind);
    if (time != timed) {
      scope.reset();
      if (time != nullptr) scope.emplace(step.timer, step.TotalOf(time));
      timed = time;
    }
    if (launch.kind == LaunchKind::kBridgeBegin) {
      step.batch.bridge->Begin(layer, projection.first, lora, step.stream);
    } else {
      Launch(launch, projection, lora, step);
    }
  }
}

void Transformer::Launch(const graft::Launch& launch, const Projection& projection,
                         const LoraArgs& lora, const Step& step) {
  const bool keeps_drawn = step.layer_plan().of(projection.product).keeps_drawn;
  const GemmArgs::RowRange all = {0, static_cast<int32_t>(step.num_rows())};
  switch (launch.kind) {
    case LaunchKind::kProduct:
      return Multiply(launch, projection, lora, step);
    case LaunchKind::kBridgeFinish:
      return step.batch.bridge->Finish(lora, step.stream);
    case LaunchKind::kActivate:
      return Activate(projection, keeps_drawn ? step.batch.lora_rows : all, step);
    case LaunchKind::kSumRanks:
      return SumRanks(step.num_rows() * projection.weight.n(), projection.sum, step.stream);
    default:
      return RunLora(launch, LoraOf(launch.rows, lora, step.batch), step);
  }
}

void Transformer::Multiply(const graft::Launch& launch, const Projection& projection,
                           const LoraArgs& lora, const Step& step) {
  const ProductPlan& plan = step.layer_plan().of(projection.product);
  GemmArgs gemm{.x = projection.x,
                .x_stride = projection.weight.k(),
                .m = step.num_rows(),
                .weight = &projection.weight,
                .bias = projection.bias.as<float>(),
                .y = projection.y,
                .y_stride = projection.weight.n(),
                .accumulate = projection.accumulate,
                .x_is_fp32 = activation_dtype_ == DType::kF32};
  LoraArgs inside, beside;
  if (plan.inside.has_value()) {
    inside = LoraOf(*plan.inside, lora, step.batch);
    inside.precedes_product = launch.follows_shrink;
    gemm.lora = &inside;
  }
  if (plan.beside.has_value()) {
    beside = LoraOf(*plan.beside, lora, step.batch);
    gemm.lora_after = &beside;
  }
  if (plan.activates) gemm.activated = projection.activated;
  if (plan.keeps_drawn) gemm.kept_rows = step.batch.lora_rows;
  if (plan.spares_shared_memory && gemm.m <= kSparingRowsMax) {
    gemm.spared_shared_bytes = kSparedSharedBytes;
  }
  Gemm(gemm, step.stream);
}

void Transformer::Activate(const Projection& projection, const GemmArgs::RowRange& rows,
                           const Step& step) {
  const int64_t n = projection.weight.n() / 2;
  char* const out = static_cast<char*>(projection.activated);
  GatedActivation({.activation = projection.activation,
                   .gate_up = projection.y + rows.begin * projection.weight.n(),
                   .out = out + rows.begin * n * DTypeBytes(activation_dtype_),
                   .out_dtype = activation_dtype_,
                   .num_tokens = rows.end - rows.begin,
                   .n = n},
                  step.stream);
}

void Transformer::RunLora(const graft::Launch& launch, LoraArgs args, const Step& step) {
  args.precedes_product = launch.precedes_product;
  args.follows_product = launch.follows_product;
  if (launch.kind == LaunchKind::kShrink) return LoraShrink(args, step.stream);
  CHECK(launch.kind == LaunchKind::kExpand) << static_cast<int>(launch.kind);
  LoraExpand(args, step.stream);
}

LoraBeside Transformer::MakeLoraBeside(const Projection& projection, int32_t layer,
                                       const Step& step) {
  if (!CanRunLoraBeside(step.num_rows())) return {};
  const int64_t product = int64_t{layer} * kLoraModules + static_cast<int64_t>(projection.first);
  return {.delta = lora_delta_.as<float>(),
          .words = lora_words_.as<uint32_t>() + product * kLoraBesideWords,
          .step = step.batch.step};
}

LoraArgs Transformer::MakeLoraArgs(const Projection& projection, int32_t layer, const Step& step) {
  const DeviceBatch& batch = step.batch;
  if (batch.lora.matrices == nullptr) return {};
  const bool activates = step.layer_plan().of(projection.product).expand_activates;
  LoraArgs args{.dtype = weights_.types.adapters,
                .matrices = batch.lora.matrices + int64_t{layer} * kLoraModules +
                            static_cast<int64_t>(projection.first),
                .matrices_stride = batch.lora.stride,
                .num_slices = static_cast<int32_t>(projection.slice_n.size()),
                .x = projection.x,
                .x_stride = projection.weight.k(),
                .k = projection.weight.k(),
                .h = lora_h_.as<float>(),
                .h_stride = batch.lora.rank_max,
                .num_rows = static_cast<int32_t>(step.num_rows()),
                .y = projection.y,
                .y_stride = projection.weight.n(),
                .activated = activates ? projection.activated : nullptr,
                .x_is_fp32 = activation_dtype_ == DType::kF32,
                .beside = MakeLoraBeside(projection, layer, step)};
  int64_t column = 0;
  for (size_t slice = 0; slice < projection.slice_n.size(); ++slice) {
    args.slice_begin[slice] = column;
    args.slice_n[slice] = projection.slice_n[slice];
    column += projection.slice_n[slice];
  }
  return args;
}

const float* Transformer::Logits(std::span<const int32_t> rows, Stream& stream) {
  CHECK_LE(rows.size(), static_cast<size_t>(limits_.logits_rows_max));
  const Step step{.batch = {}, .stream = stream, .timer = nullptr, .times = nullptr};
  BeginExchanges({}, stream);
  if (stream.device.is_cpu()) {
    RunLogits(rows, step);
  } else {
    CopyToDevice(logits_rows_.data(), rows.data(), static_cast<int64_t>(rows.size_bytes()), stream);
    RunLogits({logits_rows_.as<int32_t>(), rows.size()}, step);
  }
  exchanges_done_ = 0;
  return logits_.as<float>();
}

void Transformer::RunLogits(std::span<const int32_t> rows, const Step& step) {
  if (rows.empty()) return;
  Stream& stream = step.stream;
  const auto num_rows = static_cast<int64_t>(rows.size());
  const int64_t hidden = config_.hidden_size;
  NormRows(rows, stream);
  float* const logits = PartOf({logits_.as<float>(), false}).y;
  const int64_t words = weights_.vocabulary.size();
  {
    const StreamTimer::Scope scope = step.Time(&ForwardTimes::gemm_ns);
    Gemm({.x = logits_normed_.data(),
          .x_stride = hidden,
          .m = num_rows,
          .weight = &weights_.lm_head,
          .y = logits,
          .y_stride = words,
          .x_is_fp32 = activation_dtype_ == DType::kF32},
         stream);
    if (config_.logit_scale != 1.0f) {
      ScaledAdd({.x = logits, .y = logits, .n = num_rows * words, .scale = config_.logit_scale},
                stream);
    }
    if (config_.logit_cap != 0.0f) {
      SoftCap({.x = logits, .n = num_rows * words, .cap = config_.logit_cap}, stream);
    }
  }
  if (ranks_ != nullptr) GatherLogits(num_rows, stream);
}

}  // namespace graft
