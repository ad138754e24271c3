#include "model/transformer.h"

#include <algorithm>

#include "base/check.h"

namespace graft {
namespace {

LayerScratch MakeScratch(const TransformerSizes& sizes, const Device& device) {
  return {.hidden = Buffer(sizes.hidden, device),
          .normed = Buffer(sizes.normed, device),
          .mlp_normed = Buffer(sizes.mlp_normed, device),
          .branch = Buffer(sizes.branch, device),
          .qkv = Buffer(sizes.qkv, device),
          .squares = Buffer(sizes.squares, device),
          .attended = Buffer(sizes.attended, device),
          .gate_up = Buffer(sizes.gate_up, device),
          .activated = Buffer(sizes.activated, device),
          .lora_h = Buffer(sizes.lora_h, device),
          .lora_delta = Buffer(sizes.lora_delta, device),
          .lora_words = Buffer(sizes.lora_words, device),
          .codes_room = Buffer(sizes.codes_room, device),
          .attention = Buffer(sizes.attention_scratch, device),
          .picked = Buffer(sizes.logits_hidden, device),
          .logits_normed = Buffer(sizes.logits_normed, device),
          .logits = Buffer(sizes.logits, device)};
}

LayerContext MakeContext(const ModelConfig& config, const ModelWeights& weights, KvPool& pool,
                         const TransformerLimits& limits, const Device& device,
                         RankExchange* ranks) {
  TransformerLimits own = limits;
  own.has_ranks = ranks != nullptr;
  const TransformerSizes sizes = SizesOf(own, config, weights.types, pool.layout(), device);
  return {.shape = config,
          .types = weights.types,
          .activations = weights.types.activations(device),
          .layout = pool.layout(),
          .pool = pool.data(),
          .exchanges = StepExchanges(ranks),
          .scratch = MakeScratch(sizes, device)};
}

EmbeddingTable TableOf(const ModelConfig& config, const ModelWeights& weights) {
  return {.rows = weights.embedding,
          .first_word = static_cast<int32_t>(weights.vocabulary.begin),
          .num_words = static_cast<int32_t>(weights.vocabulary.size()),
          .scale = EmbeddingScale(config, weights.types.embeddings),
          .positions = weights.positions.data(),
          .num_positions = config.num_positions};
}

void CheckModel(const ModelConfig& config, const ModelWeights& weights, const KvPool& pool,
                size_t num_ropes) {
  CHECK_EQ(weights.layers.size(), static_cast<size_t>(config.num_layers));
  CHECK_EQ(config.layers.size(), static_cast<size_t>(config.num_layers));
  const int32_t window = config.widest_window();
  for (const LayerSpec& layer : config.layers) {
    CHECK(layer.window == 0 || layer.window == window) << "layers with windows of several lengths";
    CHECK_LT(static_cast<size_t>(layer.rope), num_ropes);
  }
  CHECK(pool.layout().num_layers == NumKvLayers(config.layers) &&
        pool.layout().num_kv_heads == config.num_kv_heads &&
        pool.layout().head_dim == config.head_dim && pool.layout().dtype == weights.types.kv)
      << "the page pool was laid out for another model";
}

std::vector<Block> MakeBlocks(const ModelConfig& config, const ModelWeights& weights,
                              const std::vector<RopeTable>& ropes, LayerContext& context) {
  std::vector<Block> blocks;
  blocks.reserve(config.layers.size());
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const LayerSpec& spec = config.layers[i];
    const RopeTable& rope = ropes[static_cast<size_t>(spec.rope)];
    blocks.emplace_back(context, static_cast<int32_t>(i),
                        NumKvLayers(std::span(config.layers).first(i)), spec, weights.layers[i],
                        rope.angles());
  }
  return blocks;
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, const ModelWeights& weights, KvPool& pool,
                         const TransformerLimits& limits, Stream& stream, RankExchange* ranks)
    : config_(config),
      limits_(limits),
      rank_sums_(RankSumsOf(config)),
      traits_(TraitsOf(stream.device)),
      ropes_(MakeRopeTables(config, limits.context_tokens_max, stream)),
      context_(MakeContext(config, weights, pool, limits, stream.device, ranks)),
      embedding_(context_, TableOf(config, weights)),
      head_(context_, weights.final_norm, weights.lm_head, weights.lm_head_bias.as<float>()),
      upload_(BatchLimitsOf(limits, config, pool.layout(), stream.device), stream.device),
      logits_rows_(limits.logits_rows_max * int64_t{sizeof(int32_t)}, stream.device),
      head_segments_(limits.logits_rows_max * int64_t{sizeof(LoraSegment)}, stream.device) {
  CheckModel(config, weights, pool, ropes_.size());
  CHECK(limits.step_tokens_max > 0 && limits.logits_rows_max > 0 && limits.context_tokens_max > 0);
  CHECK(config.num_positions == 0 || limits.context_tokens_max <= config.num_positions)
      << "positions that the model has not learned";
  CHECK(limits.lora_rank_max >= 0 && limits.lora_rank_max <= kLoraRankMax);
  CHECK(ranks == nullptr ||
        ranks->part_floats() >= PartFloatsOf(limits, config, ranks->num_ranks()));
  blocks_ = MakeBlocks(config_, weights, ropes_, context_);
}

LoraBesideScope Transformer::ChooseBesideScope(int64_t num_rows, int32_t rank_bound,
                                               int32_t num_tiles) const {
  // 40 rows of one adapter took 5.72 ms a step after the products, 5.82 beside them, 64 rows 6.19
  // and 6.56 (Llama-3.1-8B's shape, one H200); counts between 32 and 40 were not measured.
  constexpr int64_t kRowsAfterMin = 40;
  if (!context_.CanRunLoraBeside(num_rows) || num_rows >= kRowsAfterMin) {
    return LoraBesideScope::kNone;
  }
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
  CHECK(batch.head_segments.empty() || batch.lora.matrices != nullptr)
      << "segments need the adapters' matrices";
}

const float* Transformer::Forward(const HostBatch& batch, Stream& stream, ForwardTimes* times) {
  return Run(Put(batch, {}, stream), stream, times);
}

DeviceBatch Transformer::Put(const HostBatch& batch, const BatchUpload::Padding& padding,
                             Stream& stream) {
  CheckBatch(batch);
  // Also after a recording that found no memory: no exchange of it came about.
  context_.exchanges.End();
  const DeviceBatch put = upload_.Put(batch, padding, stream);
  num_rows_ = static_cast<int32_t>(put.tokens.size());
  return put;
}

const float* Transformer::Run(const DeviceBatch& batch, Stream& stream, ForwardTimes* times) {
  LayerStep step{batch, stream, TimerFor(stream, times), times, PlanOf(batch, stream, false)};
  if (batch.bridge != nullptr) step.bridged_plan = PlanOf(batch, stream, true);
  {
    const StreamTimer::Scope scope = step.Time(&ForwardTimes::total_ns);
    embedding_.Run(step);
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      step.bridged = batch.bridge != nullptr && batch.bridge->TakesLayer(layer);
      if (batch.gate != nullptr && !step.bridged) batch.gate->Await(layer, stream);
      blocks_[static_cast<size_t>(layer)].Run(step);
    }
    // What a bridge computes for stands in for the layers' rows, and not for the head's.
    if (step.bridged && batch.gate != nullptr && !batch.head_segments.empty()) {
      batch.gate->Await(config_.num_layers - 1, stream);
    }
    head_.Run(batch.logits_rows, num_rows_, step);
  }
  context_.exchanges.End();
  if (times != nullptr) timer_->Collect();
  return context_.scratch.logits.as<float>();
}

StreamTimer* Transformer::TimerFor(Stream& stream, const ForwardTimes* times) {
  if (times == nullptr) return nullptr;
  if (timer_ == nullptr) timer_ = std::make_unique<StreamTimer>(stream);
  timer_->Start();
  return timer_.get();
}

LaunchPlan Transformer::PlanOf(const DeviceBatch& batch, const Stream& stream, bool bridged) const {
  const auto has = [&](LoraRows rows) { return !batch.SegmentsOf(rows).empty(); };
  const bool all_silu = std::ranges::all_of(
      config_.layers, [](const LayerSpec& layer) { return layer.activation == Activation::kSilu; });
  const ServedTypes& types = context_.types;
  return PlanLaunches(
      {.on_gpu = !stream.device.is_cpu(),
       .can_inside = GemmTakesLora(types.operands, types.adapters, stream.device),
       .can_beside = context_.CanRunLoraBeside(static_cast<int64_t>(batch.tokens.size())),
       .can_follow =
           types.adapters == types.operands && GemmHoldsNext(types.operands, stream.device),
       .bridged = bridged,
       .sums_ranks = context_.exchanges.has_ranks(),
       .fuses_activation = config_.gated_mlp && all_silu,
       .has_drawn = has(bridged ? LoraRows::kSettledDrawn : LoraRows::kDrawn),
       .has_prompts = has(bridged ? LoraRows::kSettledPrompts : LoraRows::kPrompts),
       .beside_scope = batch.lora_beside});
}

const float* Transformer::Logits(std::span<const int32_t> rows, Stream& stream,
                                 const HeadLora& head) {
  DeviceBatch batch;
  batch.lora = head.lora;
  batch.head_segments = Put(head.segments, stream);
  const LayerStep step{.batch = batch, .stream = stream};
  context_.exchanges.Begin({}, stream);
  head_.Run(Put(rows, stream), num_rows_, step);
  context_.exchanges.End();
  return context_.scratch.logits.as<float>();
}

const float* Transformer::HiddenStates(std::span<const int32_t> rows, Stream& stream) {
  head_.RunNorm(Put(rows, stream), num_rows_, stream);
  return context_.scratch.picked.as<float>();
}

std::span<const int32_t> Transformer::Put(std::span<const int32_t> rows, Stream& stream) {
  CHECK_LE(rows.size(), static_cast<size_t>(limits_.logits_rows_max));
  if (stream.device.is_cpu()) return rows;
  CopyToDevice(logits_rows_.data(), rows.data(), static_cast<int64_t>(rows.size_bytes()), stream);
  return {logits_rows_.as<int32_t>(), rows.size()};
}

std::span<const LoraSegment> Transformer::Put(std::span<const LoraSegment> segments,
                                              Stream& stream) {
  CHECK_LE(segments.size(), static_cast<size_t>(limits_.logits_rows_max));
  if (stream.device.is_cpu() || segments.empty()) return segments;
  CopyToDevice(head_segments_.data(), segments.data(), static_cast<int64_t>(segments.size_bytes()),
               stream);
  return {head_segments_.as<LoraSegment>(), segments.size()};
}

void Transformer::GiveUp(int64_t num_rows, bool has_logits, Stream& stream) {
  context_.exchanges.GiveUp(num_rows, rank_sums_, has_logits, stream);
}

}  // namespace graft
