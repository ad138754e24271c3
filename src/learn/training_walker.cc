#include "learn/training_walker.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "kernels/adamw/adamw.h"
#include "kernels/attention/attention.h"
#include "kernels/attention_backward/attention_backward.h"
#include "kernels/token_loss/token_loss.h"
#include "learn/trainable.h"
#include "learn/training_sizes.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

constexpr int32_t kSegmentRows = 64;  // a GPU's LoRA takes such segments fastest

Buffer NegatedOnDevice(const float* values, int64_t n, const Stream& stream) {
  const int64_t bytes = n * int64_t{sizeof(float)};
  std::vector<float> host(static_cast<size_t>(n));
  CopyFromDevice(host.data(), values, bytes, stream);
  Synchronize(stream);
  for (float& value : host) value = -value;
  Buffer buffer(bytes, stream.device);
  CopyToDevice(buffer.data(), host.data(), bytes, stream);
  Synchronize(stream);
  return buffer;
}

std::vector<Buffer> NegatedSines(const std::vector<RopeTable>& ropes, const ModelConfig& config,
                                 const Stream& stream) {
  std::vector<Buffer> sines;
  for (const RopeTable& rope : ropes) {
    const int64_t n = int64_t{config.context_tokens_max} * config.num_rotary() / 2;
    sines.push_back(NegatedOnDevice(rope.sin(), n, stream));
  }
  return sines;
}

const Buffer& BiasOf(const LayerWeights& layer, LayerProduct product) {
  switch (product) {
    case LayerProduct::kQkv:
      return layer.qkv_bias;
    case LayerProduct::kO:
      return layer.o_bias;
    case LayerProduct::kGateUp:
      return layer.gate_up_bias;
    case LayerProduct::kDown:
      return layer.down_bias;
  }
  CHECK(false) << "no such product: " << static_cast<int>(product);
  __builtin_unreachable();
}

// One layer's pages serve all in turn.
LayerContext ContextOf(const ModelConfig& config, const ModelWeights& weights,
                       const TrainingBuffers& sizes, KvPool& pool, const Device& device) {
  return {.shape = config,
          .types = weights.types,
          .activations = weights.types.activations(device),
          .layout = pool.layout(),
          .pool = pool.data(),
          .exchanges = StepExchanges(nullptr),
          .scratch = {.hidden = Buffer(sizes.hidden, device),
                      .qkv = Buffer(sizes.qkv, device),
                      .lora_h = Buffer(sizes.lora_h, device),
                      .attention = Buffer(sizes.attention_scratch, device),
                      .picked = Buffer(sizes.head_hidden, device),
                      .logits_normed = Buffer(sizes.head_normed, device),
                      .logits = Buffer(sizes.logits, device)}};
}

// Puts arrays side by side into one copy.
class Packer {
 public:
  Packer(std::vector<char>& bytes, const char* target) : bytes_(bytes), target_(target) {
    bytes_.clear();
  }
  template <typename T>
  const T* Put(std::span<const T> values) {
    const size_t begin = (bytes_.size() + 15) / 16 * 16;
    bytes_.resize(begin + values.size_bytes());
    if (!values.empty()) std::memcpy(bytes_.data() + begin, values.data(), values.size_bytes());
    return reinterpret_cast<const T*>(target_ + begin);
  }

 private:
  std::vector<char>& bytes_;
  const char* target_;
};

std::vector<LoraSegment> CutSegments(std::span<const LoraSegment> segments, const Device& device) {
  if (device.is_cpu()) return {segments.begin(), segments.end()};
  std::vector<LoraSegment> cut;
  for (const LoraSegment& segment : segments) {
    for (int32_t row = segment.row_begin; row < segment.row_end; row += kSegmentRows) {
      cut.push_back({row, std::min(row + kSegmentRows, segment.row_end), segment.adapter_slot});
    }
  }
  return cut;
}

int32_t SequenceRowsMax(const TrainingBatch& batch) {
  int32_t rows_max = 0;
  for (size_t i = 0; i + 1 < batch.row_begin.size(); ++i) {
    rows_max = std::max(rows_max, batch.row_begin[i + 1] - batch.row_begin[i]);
  }
  return rows_max;
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
      ropes_(MakeRopeTables(config, config.context_tokens_max, stream, pause)),
      back_sins_(NegatedSines(ropes_, config, stream)),
      pool_(TrainingPoolLayout(config, weights.types.operands, stream.device),
            NumTrainingPages(limits), stream.device),
      lora_place_(GemmTakesLora(weights.types.operands, weights.types.adapters, stream.device)
                      ? LoraPlace::kInside
                      : LoraPlace::kAfter),
      transposed_(weights, sizes_.num_transposed, stream, pause),
      context_(ContextOf(config, weights, sizes_, pool_, stream.device)),
      embedding_(context_, {.rows = weights.embedding,
                            .num_words = config.vocab_size,
                            .scale = EmbeddingScale(config, weights.types.embeddings)}),
      head_(context_, weights.final_norm, weights.lm_head) {
  const Status trainable = stream.device.is_cpu()
                               ? CheckTrainable(config, stream.device)
                               : CheckTrainableOnGpu(config, weights.types.operands, stream.device);
  CHECK(trainable.ok()) << trainable.ToString();
  CHECK(limits.rows_max > 0 && limits.sequences_max > 0 && limits.logits_rows_max > 0);
  const Device& device = stream.device;
  const TrainingBuffers& sizes = sizes_;
  attention_.reserve(config.layers.size());
  projections_.reserve(config.layers.size() * kLayerProducts);
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const RopeTable& rope = ropes_[static_cast<size_t>(config.layers[i].rope)];
    attention_.emplace_back(context_, static_cast<int32_t>(i), 0, config.layers[i],
                            weights.layers[i], rope.angles());
    for (int product = 0; product < kLayerProducts; ++product) {
      const auto which = static_cast<LayerProduct>(product);
      projections_.emplace_back(context_, static_cast<int32_t>(i), which,
                                WeightOf(weights.layers[i], which),
                                BiasOf(weights.layers[i], which));
    }
  }
  for (int32_t i = 0; i < sizes.num_kept; ++i) kept_.push_back(MakeActivations());
  if (sizes.num_kept < config.num_layers) shared_ = MakeActivations();
  for (int32_t i = sizes.num_kept; i < config.num_layers; ++i) {
    inputs_.push_back(Buffer(sizes.hidden, device));
  }
  batch_bytes_ = Buffer(sizes.batch, device);
  for (Buffer* buffer : {&d_hidden_, &d_normed_}) *buffer = Buffer(sizes.hidden, device);
  d_hidden_copy_ = Buffer(sizes.d_hidden_copy, device);
  normed_ = Buffer(sizes.normed, device);
  gate_up_ = Buffer(sizes.gate_up, device);
  activated_ = Buffer(sizes.activated, device);
  d_gate_up_ = Buffer(sizes.d_gate_up, device);
  d_attended_ = Buffer(sizes.d_attended, device);
  d_qkv_ = Buffer(sizes.d_qkv, device);
  lora_d_h_ = Buffer(sizes.lora_d_h, device);
  rounded_h_ = Buffer(sizes.rounded_h, device);
  rounded_d_h_ = Buffer(sizes.rounded_d_h, device);
  gradient_scratch_ = Buffer(sizes.gradient_scratch, device);
  gradient_counters_ = Buffer(sizes.gradient_counters, device);
  backward_scratch_ = Buffer(sizes.backward_scratch, device);
  d_prefixes_ = Buffer(sizes.d_prefixes, device);
  head_d_normed_ = Buffer(sizes.head_hidden, device);
  head_input_ = Buffer(sizes.head_normed, device);
  d_logits_ = Buffer(sizes.d_logits, device);
  losses_ = Buffer(sizes.losses, device);
}

TrainingWalker::Activations TrainingWalker::MakeActivations() const {
  const auto make = [&](int64_t columns) {
    return Buffer(limits_.rows_max * columns * DTypeBytes(dtype_), stream_.device);
  };
  const KeptColumns columns = KeptColumnsOf(config_);
  return {make(config_.hidden_size),
          make(config_.qkv_size()),
          make(config_.q_size()),
          make(config_.hidden_size),
          make(int64_t{2} * config_.intermediate_size),
          make(columns.unnormed),
          make(columns.branch),
          make(columns.branch)};
}

TrainingWalker::Activations& TrainingWalker::ActivationsOf(int32_t layer) {
  return layer < first_kept() ? shared_ : kept_[static_cast<size_t>(layer - first_kept())];
}

TrainingWalker::Product TrainingWalker::ProductOf(int32_t layer, LayerProduct product) const {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const auto index = static_cast<size_t>(layer) * kLayerProducts + static_cast<size_t>(product);
  return {layer, product, projections_[index], WeightOf(weights, product),
          TargetsOf(config_, product)};
}

void TrainingWalker::FollowAdapters() {
  const bool is_new = adapters_.size() != loras_.size();
  for (size_t i = loras_.size(); i < adapters_.size(); ++i) {
    const auto& [lora, prompt, is_frozen] = adapters_[i];
    CHECK(lora == nullptr || lora->rank() <= limits_.rank_max);
    loras_.push_back(lora == nullptr ? nullptr
                                     : std::make_unique<DeviceLora>(
                                           config_, *lora, weights_.types.adapters, stream_));
    prompts_.push_back(prompt == nullptr ? nullptr
                                         : std::make_unique<DevicePrompt>(*prompt, stream_));
  }
  for (size_t i = 0; i < adapters_.size(); ++i) {
    const auto& [lora, prompt, is_frozen] = adapters_[i];
    if (lora != nullptr) loras_[i]->masters().Follow();
    if (prompt != nullptr) prompts_[i]->masters().Follow();
  }
  if (!is_new) return;
  ListMatrices();
  ListPrompts();
  const auto num_items = static_cast<int32_t>(2 * loras_.size());  // LoRA and virtual tokens
  norms_ = Buffer(num_items * int64_t{sizeof(double)}, stream_.device);
  adamw_scratch_ = Buffer(AdamWScratchDoubles(stream_.device, num_items) * int64_t{sizeof(double)},
                          stream_.device);
}

void TrainingWalker::ListMatrices() {
  std::vector<LoraMatrix> matrices, swapped, stacked;
  can_stack_ = !stream_.device.is_cpu() && kLoraSlicesMax * limits_.rank_max <= kLoraRankMax;
  can_round_ = true;
  for (size_t i = 0; i < loras_.size(); ++i) {
    const DeviceLora* const lora = loras_[i].get();
    can_round_ = can_round_ && (lora != nullptr) != adapters_[i].is_frozen;
    if (lora == nullptr) {
      const auto num_matrices = static_cast<size_t>(config_.num_layers) * kLoraModules;
      for (std::vector<LoraMatrix>* all : {&matrices, &swapped, &stacked}) {
        all->resize(all->size() + num_matrices);
      }
      continue;
    }
    matrices.insert(matrices.end(), lora->matrices().begin(), lora->matrices().end());
    swapped.insert(swapped.end(), lora->swapped().begin(), lora->swapped().end());
    stacked.insert(stacked.end(), lora->stacked().begin(), lora->stacked().end());
    can_stack_ = can_stack_ && (adapters_[i].is_frozen || lora->rank() == limits_.rank_max);
  }
  matrices_ = OnDevice(matrices, stream_);
  swapped_ = OnDevice(swapped, stream_);
  stacked_ = OnDevice(stacked, stream_);
}

TrainingWalker::BatchLists TrainingWalker::ListsOf(const TrainingBatch& batch) {
  BatchLists lists{.segments = CutSegments(batch.segments, stream_.device),
                   .document_segments = CutSegments(batch.document_segments, stream_.device)};
  CutParts(lists.segments, batch.num_rows(), &lists.part_segments);
  for (const LoraSegment& segment : batch.segments) {
    DeviceLora& lora = *loras_[static_cast<size_t>(segment.adapter_slot)];
    lists.gradients.push_back({segment.row_begin, segment.row_end, lora.masters().gradients(),
                               lora.rank(), lora.scale()});
  }
  lists.embeddings = ListGradients(batch.embeddings);
  lists.keys_values = ListGradients(RunsOfPrefixes(batch));
  lists.prefixes = ListPrefixes(batch);
  return lists;
}

TrainingWalker::Batch TrainingWalker::Pack(const TrainingBatch& batch, const BatchLists& lists,
                                           const TrainingTargets& targets, const char* target) {
  Packer packer(batch_on_host_, target);
  const auto put = [&](const auto& values) { return packer.Put(std::span(values)); };
  const auto put_prompts = [&](const PromptGradients& list) -> Prompts {
    return {static_cast<int32_t>(list.items.size()), put(list.items), put(list.places)};
  };
  const auto put_span = [&](const auto& values) {
    return std::span(packer.Put(std::span(values)), values.size());
  };
  DeviceBatch arrays;
  arrays.tokens = put_span(batch.tokens);
  arrays.positions = put_span(batch.positions);
  arrays.row_page = put_span(batch.row_page);
  arrays.row_slot = put_span(batch.row_slot);
  arrays.row_begin = put_span(batch.row_begin);
  arrays.page_begin = put_span(batch.page_begin);
  arrays.pages = put_span(batch.pages);
  arrays.kv_tokens = put_span(batch.kv_tokens);
  const bool tells_given = AttentionTellsGivenRows(pool_.layout(), stream_.device);
  arrays.num_given = tells_given ? batch.num_sequences() : 0;
  arrays.sequence_rows_max = SequenceRowsMax(batch);
  arrays.kv_tokens_max = *std::ranges::max_element(batch.kv_tokens);
  arrays.lora = {matrices_.as<LoraMatrix>(), int64_t{config_.num_layers} * kLoraModules,
                 limits_.rank_max};
  arrays.virtual_embeddings = put_span(batch.embeddings);
  arrays.virtual_rows = virtual_rows_.as<VirtualRows>();
  arrays.virtual_run_tokens_max = batch.run_tokens_max;
  return {.num_rows = batch.num_rows(),
          .num_sequences = batch.num_sequences(),
          .num_segments = static_cast<int32_t>(lists.segments.size()),
          .num_gradient_segments = static_cast<int32_t>(lists.gradients.size()),
          .num_document_segments = static_cast<int32_t>(lists.document_segments.size()),
          .arrays = arrays,
          .segments = put(lists.segments),
          .part_segments = put(lists.part_segments),
          .document_segments = put(lists.document_segments),
          .gradient_segments = put(lists.gradients),
          .embeddings = put_prompts(lists.embeddings),
          .keys_values = put_prompts(lists.keys_values),
          .runs = put_span(batch.keys_values),
          .prefixes = lists.prefixes.empty() ? nullptr : put(lists.prefixes),
          .num_targets = static_cast<int32_t>(targets.rows.size()),
          .num_choices = targets.num_choices,
          .rows = put(targets.rows),
          .ids = put(targets.ids),
          .probabilities = put(targets.probabilities),
          .weights = put(targets.weights)};
}

void TrainingWalker::PutBatch(const TrainingBatch& batch, const TrainingTargets& targets) {
  CHECK(batch.num_rows() > 0 && batch.num_rows() <= limits_.rows_max) << batch.num_rows();
  CHECK_LE(batch.num_sequences(), limits_.sequences_max);
  CHECK_LE(batch.num_pages(), pool_.num_pages());
  const BatchLists lists = ListsOf(batch);
  batch_ = Pack(batch, lists, targets, batch_bytes_.as<char>());
  const auto bytes = static_cast<int64_t>(batch_on_host_.size());
  if (bytes > batch_bytes_.bytes()) {
    CHECK(stream_.device.is_cpu()) << "more choices than " << kTrainingChoices << " a row";
    batch_bytes_ = Buffer(bytes);
    batch_ = Pack(batch, lists, targets, batch_bytes_.as<char>());
  }
  whole_ = {0, batch_.num_rows, batch_.segments, batch_.num_segments};
  // LoRA is added as to a prompt's rows. Where it follows the product, so does what keeps gate and
  // up.
  const bool has_lora = batch_.num_segments > 0;
  const bool is_inside = lora_place_ == LoraPlace::kInside;
  const bool all_silu = std::ranges::all_of(
      config_.layers, [](const LayerSpec& layer) { return layer.activation == Activation::kSilu; });
  plan_ = PlanLaunches({.on_gpu = !stream_.device.is_cpu(),
                        .can_inside = is_inside,
                        .fuses_activation = all_silu && (is_inside || !has_lora),
                        .has_prompts = has_lora});
  const LoraSegment* next = batch_.part_segments;
  for (Part& part : parts_) {
    part.segments = next;
    next += part.num_segments;
  }
  CopyToDevice(batch_bytes_.data(), batch_on_host_.data(), bytes, stream_);
}

std::vector<double> TrainingWalker::Run(const TrainingBatch& batch, const TrainingTargets& targets,
                                        bool backward) {
  CHECK(!targets.rows.empty()) << "nothing is looked at";
  for (const int32_t id : targets.ids) CHECK(id >= kTokenRest && id < config_.vocab_size) << id;
  FollowAdapters();
  PutBatch(batch, targets);
  learns_ = backward;
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

void TrainingWalker::BeginGradients(std::span<const int32_t> adapters) {
  FollowAdapters();
  // Zeroing is short. As a piece of its own it would wait for a turn, and the host for its end.
  for (const int32_t adapter : adapters) {
    if (adapters_[static_cast<size_t>(adapter)].is_frozen) continue;
    for (DeviceMasters* masters : MastersOf(adapter)) masters->BeginGradients();
  }
}

void TrainingWalker::ZeroStreamGradients() {
  ZeroOnDevice(d_hidden_.data(), d_hidden_.bytes(), stream_);
  if (d_hidden_copy_.bytes() == 0) return;
  ZeroOnDevice(d_hidden_copy_.data(), d_hidden_copy_.bytes(), stream_);
}

void TrainingWalker::Apply(std::span<const Update> updates) {
  std::vector<AdamWItem> items;
  std::vector<DeviceMasters*> moved;
  const auto add = [&](DeviceMasters& masters, AdamWItem item, int32_t step,
                       const UpdateSettings& settings) {
    if (item.n == 0) return;
    item.step = step;
    item.learning_rate = settings.learning_rate;
    item.weight_decay = settings.weight_decay;
    item.norm_max = settings.norm_max;
    item.norm = norms_.as<double>() + items.size();
    items.push_back(item);
    moved.push_back(&masters);
  };
  for (const Update& update : updates) {
    const auto adapter = static_cast<size_t>(update.adapter);
    if (DeviceLora* const lora = loras_[adapter].get()) {
      add(lora->masters(), lora->masters().Item(), update.step, update.settings);
    }
    if (DevicePrompt* const prompt = prompts_[adapter].get()) {
      add(prompt->masters(), prompt->Item(), update.step, update.prompt_settings);
    }
  }
  const TrainingPieces::Scope piece(pieces_);
  AdamW({items.data(), static_cast<int32_t>(items.size()), adamw_scratch_.as<double>()}, stream_);
  pieces_.PauseCpu();
  for (DeviceMasters* masters : moved) masters->Round();
  pieces_.PauseCpu();
}

void TrainingWalker::Fetch(int32_t adapter) {
  const auto index = static_cast<size_t>(adapter);
  if (index >= loras_.size()) return;
  const auto& [lora, prompt, is_frozen] = adapters_[index];
  if (lora != nullptr) loras_[index]->masters().Fetch();
  if (prompt != nullptr) prompts_[index]->masters().Fetch();
}

std::vector<DeviceMasters*> TrainingWalker::MastersOf(int32_t adapter) {
  const auto index = static_cast<size_t>(adapter);
  CHECK_LT(index, loras_.size());
  std::vector<DeviceMasters*> masters;
  if (loras_[index] != nullptr) masters.push_back(&loras_[index]->masters());
  if (prompts_[index] != nullptr) masters.push_back(&prompts_[index]->masters());
  return masters;
}

void TrainingWalker::KeepBest(int32_t adapter) {
  FollowAdapters();
  for (DeviceMasters* masters : MastersOf(adapter)) masters->KeepBest();
}

void TrainingWalker::TakeBest(int32_t adapter) {
  const TrainingPieces::Scope piece(pieces_);
  for (DeviceMasters* masters : MastersOf(adapter)) masters->TakeBest();
}

std::vector<float> TrainingWalker::FetchBest(int32_t adapter) {
  std::vector<float> best;
  for (DeviceMasters* masters : MastersOf(adapter)) masters->FetchBest(&best);
  return best;
}

}  // namespace graft
