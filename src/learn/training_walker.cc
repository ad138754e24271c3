#include "learn/training_walker.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/adamw/adamw.h"
#include "kernels/token_loss/token_loss.h"
#include "learn/trainable.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

// The pages of one layer serve all layers in turn.
LayerContext ContextOf(const ModelConfig& config, const ModelWeights& weights,
                       const TrainingBuffers& sizes, KvPool& pool, const Device& device) {
  return {.shape = ShapeAsStored(config),
          .types = weights.types,
          .activations = weights.types.activations(device),
          .layout = pool.layout(),
          .pool = pool.data(),
          .exchanges = StepExchanges(nullptr),
          .scratch = {.hidden = Buffer(sizes.hidden, device),
                      .normed = Buffer(sizes.normed, device),
                      .branch = Buffer(sizes.hidden, device),
                      .qkv = Buffer(sizes.qkv, device),
                      .gate_up = Buffer(sizes.gate_up, device),
                      .activated = Buffer(sizes.activated, device),
                      .lora_h = Buffer(sizes.lora_h, device),
                      .attention = Buffer(sizes.attention_scratch, device),
                      .picked = Buffer(sizes.head_hidden, device),
                      .logits_normed = Buffer(sizes.head_normed, device),
                      .logits = Buffer(sizes.logits, device)}};
}

BackScratch RoomOf(const TrainingBuffers& sizes, const Device& device) {
  return {.d_hidden = Buffer(sizes.hidden, device),
          .d_hidden_copy = Buffer(sizes.d_hidden_copy, device),
          .d_attended = Buffer(sizes.d_attended, device),
          .d_qkv = Buffer(sizes.d_qkv, device),
          .d_gate_up = Buffer(sizes.d_gate_up, device),
          .attention = Buffer(sizes.backward_scratch, device),
          .lora_d_h = Buffer(sizes.lora_d_h, device),
          .rounded_h = Buffer(sizes.rounded_h, device),
          .rounded_d_h = Buffer(sizes.rounded_d_h, device),
          .gradients = Buffer(sizes.gradient_scratch, device),
          .gradient_counters = Buffer(sizes.gradient_counters, device)};
}

}  // namespace

TrainingWalker::TrainingWalker(const ModelConfig& config, const ModelWeights& weights,
                               const TrainingLimits& limits, Stream& stream,
                               std::function<void()> pause, DeviceTurns* turns)
    : config_(config),
      weights_(weights),
      limits_(limits),
      stream_(stream),
      dtype_(weights.types.activations(stream.device)),
      sizes_(TrainingBuffersOf(limits, config, weights.types.operands, stream.device,
                               stream.cpu_threads->num_threads())),
      pieces_(turns, pause),
      ropes_(MakeRopeTables(config, config.context_tokens_max, stream, pause, /*go_back=*/true)),
      pool_(TrainingPoolLayout(config, weights.types.operands, stream.device),
            NumTrainingPages(limits), stream.device),
      transposed_(weights.layers, weights.lm_head, sizes_.num_transposed, stream, pause),
      context_(ContextOf(config, weights, sizes_, pool_, stream.device)),
      embedding_(context_, {.rows = weights.embedding,
                            .num_words = config.vocab_size,
                            .scale = EmbeddingScale(config, weights.types.embeddings),
                            .positions = weights.positions.data(),
                            .num_positions = config.num_positions}),
      head_(context_, weights.final_norm, weights.lm_head, weights.lm_head_bias.as<float>()),
      final_norm_(weights.final_norm, config.hidden_size, config.rms_norm_epsilon, config.norm),
      room_(RoomOf(sizes_, stream.device)),
      learning_{
          .pieces = pieces_,
          .transposed = transposed_,
          .room = room_,
          .rows_max = limits.rows_max,
          // As for a server's prompts: inside the product if the card can, else after it.
          .lora_place = GemmTakesLora(weights.types.operands, weights.types.adapters, stream.device)
                            ? LoraPlace::kInside
                            : LoraPlace::kAfter} {
  const Status trainable = stream.device.is_cpu()
                               ? CheckTrainable(stream.device)
                               : CheckTrainableOnGpu(config, weights.types.operands, stream.device);
  CHECK(trainable.ok()) << trainable.ToString();
  CHECK(limits.rows_max > 0 && limits.sequences_max > 0 && limits.logits_rows_max > 0);
  const Device& device = stream.device;
  blocks_.reserve(config.layers.size());
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const RopeTable& rope = ropes_[static_cast<size_t>(config.layers[i].rope)];
    blocks_.emplace_back(context_, static_cast<int32_t>(i), 0, config.layers[i], weights.layers[i],
                         rope.angles());
  }
  const int32_t num_again = first_kept();
  for (int32_t i = 0; i < num_again; ++i) inputs_.push_back(Buffer(sizes_.hidden, device));
  for (int32_t i = num_again > 0 ? -1 : 0; i < sizes_.num_kept; ++i) {
    kept_.emplace_back(config, config.layers, limits.rows_max, dtype_, device);
  }
  batch_bytes_ = Buffer(sizes_.batch, device);
  d_prefixes_ = Buffer(sizes_.d_prefixes, device);
  head_d_normed_ = Buffer(sizes_.head_hidden, device);
  head_input_ = Buffer(sizes_.head_normed, device);
  d_logits_ = Buffer(sizes_.d_logits, device);
  losses_ = Buffer(sizes_.losses, device);
  if (!limits.chooses) return;
  chosen_ = PinnedBuffer(int64_t{limits.logits_rows_max} * int64_t{sizeof(SampledToken)});
  choosing_ =
      SamplingScratch(limits.logits_rows_max, static_cast<int32_t>(config.vocab_size), device);
}

const LayerKept& TrainingWalker::KeptOf(int32_t layer) const {
  const int32_t first = first_kept();
  const int32_t place = first == 0 ? layer : std::max(0, layer - first + 1);
  return kept_[static_cast<size_t>(place)].kept();
}

std::vector<double> TrainingWalker::Run(const TrainingBatch& batch, const TrainingTargets& targets,
                                        bool backward) {
  CHECK(!targets.rows.empty()) << "nothing is looked at";
  for (const int32_t id : targets.ids) CHECK(id >= kTokenRest && id < config_.vocab_size) << id;
  PutBatch(batch, targets, backward);
  {
    const TrainingPieces::Scope piece(pieces_);
    Forward();
    if (backward) ZeroStreamGradients();
    RunHead(backward);
    if (backward) Backward();
  }
  std::vector<double> losses(targets.rows.size());
  const auto bytes = static_cast<int64_t>(losses.size() * sizeof(double));
  CopyFromDevice(losses.data(), losses_.data(), bytes, stream_);
  Synchronize(stream_);
  return losses;
}

// Runs the server's layers in its order. LoRA is added as for a prompt's rows.
void TrainingWalker::Forward() {
  embedding_.Run(Step());
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    if (layer < first_kept()) {
      CopyOnDevice(inputs_[static_cast<size_t>(layer)].data(), hidden(), StreamBytes(), stream_);
    }
    RunLayer(layer);
    pieces_.AfterLayer();
  }
}

void TrainingWalker::RunLayer(int32_t layer) {
  PlaceKeysAndValues(layer);
  blocks_[static_cast<size_t>(layer)].Run(Step(), &KeptOf(layer));
}

// Goes back layer by layer. A layer that kept no activations is computed again first.
void TrainingWalker::Backward(const KvMemory& memory) {
  const int64_t kv_columns = int64_t{2} * config_.kv_size();
  for (int32_t layer = config_.num_layers - 1; layer >= 0; --layer) {
    const Block& block = blocks_[static_cast<size_t>(layer)];
    if (layer < first_kept()) {
      CopyOnDevice(hidden(), inputs_[static_cast<size_t>(layer)].data(), StreamBytes(), stream_);
      PlaceKeysAndValues(layer);
      block.RunAgain(Step(), KeptOf(layer));
    }
    const AttentionPrefix* const prefixes = batch_.prefixes;
    const int64_t first_prefix = layer * std::ssize(batch_.arrays.kv_tokens);
    // Below the first layer only embeddings are learned.
    block.Back({.kept = KeptOf(layer),
                .prefixes = prefixes == nullptr ? nullptr : prefixes + first_prefix,
                .has_below = layer > 0 || !batch_.arrays.virtual_embeddings.empty(),
                .copy_scale = ResidualScaleOf(layer - 1),
                .memory = {memory.rows, memory.num_rows, layer * kv_columns}},
               Step());
    AddPromptGradients(batch_.keys_values, d_prefixes_, kv_columns, config_.num_layers * kv_columns,
                       layer * kv_columns);
    if (layer > 0) pieces_.AfterLayer();
  }
  pieces_.PauseCpu();
  AddPromptGradients(batch_.embeddings, room_.d_hidden, config_.hidden_size, config_.hidden_size, 0,
                     config_.hidden_scale);
}

// Takes few targets at a time, for room. `backward` makes the residual stream's gradient, too.
void TrainingWalker::RunHead(bool backward) {
  const int64_t vocab = config_.vocab_size;
  float* const logits = context_.scratch.logits.as<float>();
  for (int32_t begin = 0; begin < batch_.num_targets; begin += limits_.logits_rows_max) {
    const int32_t num_rows = std::min(limits_.logits_rows_max, batch_.num_targets - begin);
    const std::span rows(batch_.rows + begin, static_cast<size_t>(num_rows));
    pieces_.BeforeWork(HeadFlop(num_rows));
    head_.Run(rows, static_cast<int32_t>(this->num_rows()), Step(), head_input_.data());
    const int64_t choices = int64_t{begin} * batch_.num_choices;
    pieces_.BeforeBytes(num_rows * vocab * (2 * int64_t{sizeof(float)} + DTypeBytes(dtype_)));
    void* const d_logits = dtype_ == DType::kF32 ? nullptr : d_logits_.data();
    TokenLoss({.logits = logits,
               .num_rows = num_rows,
               .vocab_size = vocab,
               .num_choices = batch_.num_choices,
               .ids = batch_.ids + choices,
               .probabilities = batch_.probabilities + choices,
               .weights = batch_.weights + begin,
               .losses = losses_.as<double>() + begin,
               .logit_scale = config_.logit_scale,
               .logit_cap = config_.logit_cap,
               .d_logits = d_logits,
               .d_dtype = dtype_},
              stream_);
    if (backward) {
      pieces_.BeforeWork(HeadFlop(num_rows));
      head_.Back({.rows = rows,
                  .kept = head_input_.data(),
                  .d_logits = d_logits == nullptr ? logits : d_logits,
                  .words = transposed_.ArgsOfHead(),
                  .d_normed = head_d_normed_.as<float>(),
                  .d_hidden = room_.d_hidden.as<float>(),
                  .d_hidden_copy = room_.d_hidden_copy.data(),
                  .copy_scale = ResidualScaleOf(config_.num_layers - 1)},
                 stream_);
    }
    pieces_.PauseCpu();
  }
}

TrainingChoices TrainingWalker::Choose(const TrainingBatch& batch, std::span<const int32_t> rows,
                                       int32_t num_choices) {
  CHECK(num_choices > 0 && num_choices <= kLogprobsMax) << num_choices;
  CHECK(limits_.chooses) << "the limits have no room for it";
  PutBatch(batch, {.rows = rows}, false);
  SampledToken* const found = chosen_.as<SampledToken>();
  const std::vector<int32_t> asked(static_cast<size_t>(limits_.logits_rows_max), 0);
  TrainingChoices choices;
  const TrainingPieces::Scope piece(pieces_);
  Forward();
  for (int32_t begin = 0; begin < batch_.num_targets; begin += limits_.logits_rows_max) {
    const int32_t count = std::min(limits_.logits_rows_max, batch_.num_targets - begin);
    head_.Run({batch_.rows + begin, static_cast<size_t>(count)}, static_cast<int32_t>(num_rows()),
              Step(), head_input_.data());
    TokenLogprobs({.logits = context_.scratch.logits.as<float>(),
                   .vocab_size = static_cast<int32_t>(config_.vocab_size),
                   .tokens = asked.data(),
                   .num_top = num_choices,
                   .out = found,
                   .num_rows = count,
                   .scratch = &choosing_},
                  stream_);
    const TrainingPieces::Break others(pieces_);
    Synchronize(stream_);
    for (const SampledToken& row : std::span(found, static_cast<size_t>(count))) {
      for (int32_t i = 0; i < num_choices; ++i) {
        const bool is_there = i < row.num_top;  // else it has no probability
        choices.ids.push_back(is_there ? row.top_tokens[i] : 0);
        choices.probabilities.push_back(is_there ? std::exp(row.top_logprobs[i]) : 0.0f);
      }
    }
  }
  return choices;
}

void TrainingWalker::ZeroStreamGradients() {
  for (Buffer* const gradient : {&room_.d_hidden, &room_.d_hidden_copy}) {
    if (gradient->bytes() > 0) ZeroOnDevice(gradient->data(), gradient->bytes(), stream_);
  }
}

void TrainingWalker::TakeStates(const TrainingBatch& batch, std::span<const int32_t> rows,
                                float* states) {
  PutBatch(batch, {.rows = rows}, false);
  const int64_t n = config_.hidden_size;
  {
    const TrainingPieces::Scope piece(pieces_);
    Forward();
    for (int32_t begin = 0; begin < batch_.num_targets; begin += limits_.logits_rows_max) {
      const int32_t count = std::min(limits_.logits_rows_max, batch_.num_targets - begin);
      head_.RunNorm({batch_.rows + begin, static_cast<size_t>(count)},
                    static_cast<int32_t>(num_rows()), stream_);
      const TrainingPieces::Break others(pieces_);
      CopyFromDevice(states, context_.scratch.picked.data(), count * n * int64_t{sizeof(float)},
                     stream_);
      states += count * n;
    }
  }
  Synchronize(stream_);
}

}  // namespace graft
