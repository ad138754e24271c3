#include "tuning/learn_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "learn/trainable.h"
#include "learn/trained_lora.h"
#include "learn/trained_prompt.h"
#include "learn/training_device.h"

namespace graft {
namespace {

constexpr const char* kRowFlags = " (--batch, --window-tokens, --together)";

// The share of the memory left that is used for it; a GPU is not shared with other programs as a
// machine's memory is.
constexpr double kKeptShareOfCpu = 0.5, kKeptShareOfGpu = 0.875;

int64_t LayerBytes(const ServedShape& shape, int32_t rows) {
  return LayerActivationBytes(shape.config, shape.types.operands, shape.device, rows);
}

// Rows that the output head takes at once. With few rows a GPU mostly reads the head's weights.
int32_t LogitsRowsOf(const ServedShape& shape) { return shape.device.is_cpu() ? 128 : 1024; }

// Activations first: a layer that is computed again costs more than one that is transposed again.
void SetKept(int64_t bytes, const ServedShape& shape, TrainingLimits* limits) {
  const int64_t activations = LayerBytes(shape, limits->rows_max);
  limits->activation_bytes_max = NumLayersWithin(bytes, activations, shape.config) * activations;
  limits->transposed_bytes_max = bytes - limits->activation_bytes_max;
}

// Itself with its gradient and moments, and what a checkpoint has of its best step.
int64_t AdapterBytes(const LearnSizes& sizes, const ServedShape& shape) {
  int64_t bytes = 0;
  if (sizes.rank > 0) {
    bytes += TrainedLora::BytesFor(shape.config, sizes.rank, shape.types.operands) * 5 / 4;
  }
  if (sizes.virtual_tokens > 0) {
    bytes += TrainedPrompt::BytesFor(shape.config, sizes.kind, sizes.virtual_tokens,
                                     shape.types.operands) *
             5 / 4;
  }
  return bytes;
}

int64_t BytesOnGpu(const TrainedShape& trained, const ServedShape& shape) {
  int64_t bytes = 0;
  if (trained.rank > 0)
    bytes += DeviceAdapterBytes(shape.config, trained.rank, shape.types.operands);
  if (trained.virtual_tokens > 0) {
    bytes += DevicePromptBytes(shape.config, trained.kind, trained.virtual_tokens,
                               shape.types.operands, shape.device);
  }
  return bytes;
}

// Texts take a part of what they might: answers end before their bound, and questions repeat. So
// much of it must be there.
constexpr int64_t kTextsSlack = 8;

// More than any memory has room for, so that a sum says so.
constexpr int64_t kRowsMax = int64_t{1} << 30;

// The rows of a step: one adapter's, and all adapters'.
struct StepRows {
  int32_t least = 0, most = 0;
};
StepRows RowsOf(const LearnSizes& sizes) {
  const bool is_embedding = sizes.kind == VirtualTokenKind::kEmbedding;
  const int32_t before = std::max(is_embedding ? sizes.virtual_tokens : 0, sizes.frozen.embeddings);
  const int64_t rows = int64_t{sizes.batch} * (int64_t{sizes.example_tokens_max} + before);
  // Virtual tokens begin with a forward of as many.
  const int64_t alone = sizes.virtual_tokens;
  const auto within = [alone](int64_t step) {
    return static_cast<int32_t>(std::min(kRowsMax, std::max(step, alone)));
  };
  return {within(rows), within(sizes.num_adapters * std::min(kRowsMax, rows))};
}

// All limits but those of what is kept.
TrainingLimits LeastLimits(const LearnSizes& sizes) {
  TrainingLimits limits;
  // What is more is computed in groups.
  limits.sequences_max = std::min(
      kTrainingSequencesMax, std::max(sizes.num_adapters * sizes.batch, sizes.frozen.sequences));
  const bool is_embedding = sizes.kind == VirtualTokenKind::kEmbedding;
  limits.prefix_tokens_max =
      std::max(is_embedding ? 0 : sizes.virtual_tokens, sizes.frozen.keys_values);
  limits.rows_max = RowsOf(sizes).least;
  limits.rank_max = std::max({1, sizes.rank, sizes.frozen.rank});
  limits.chooses = sizes.chooses;
  limits.logits_rows_max = std::min<int32_t>(limits.logits_rows_max, limits.rows_max);
  return limits;
}

void AddTerms(const LearnSizes& sizes, const TrainingLimits& limits, const ServedShape& shape,
              MemorySum* sum) {
  const TrainingSizes needed =
      SizesOf(limits, shape.config, shape.types.operands, shape.device, sizes.threads);
  const std::string rows = std::to_string(limits.rows_max) + " rows" + kRowFlags;
  sum->Add("layers' inputs of " + rows, needed.layer_inputs);
  sum->Add("gradients and room for one layer of " + rows, needed.gradients);
  sum->Add("activations kept for the backward, of one layer at least (--kept-gib)",
           needed.kept_activations);
  sum->Add("transposed weights, the output head's at least (--kept-gib)", needed.kept_transposed);
  sum->Add("the transposing of a weight", needed.made_transposed);
  sum->Add("LoRA of " + rows, needed.lora);
  sum->Add("logits of " + std::to_string(limits.logits_rows_max) + " rows", needed.logits);
  sum->Add("the likeliest tokens of as many", needed.choices);
  sum->Add("attention of " + rows, needed.attention);
  sum->Add("rotary tables", needed.ropes);
  sum->Add("the threads' rows (--threads)", needed.thread_rows);
  const std::string documents = "the documents' adapters";
  sum->AddOnHost(documents, sizes.frozen.bytes);
  const std::string what = std::to_string(sizes.num_adapters) + " adapters of rank " +
                           std::to_string(sizes.rank) + " and " +
                           std::to_string(sizes.virtual_tokens) +
                           " virtual tokens in training (--together, --rank, --virtual-tokens)";
  sum->AddOnHost(what, AdapterBytes(sizes, shape) * sizes.num_adapters);
  if (shape.device.is_cpu()) return;
  const TrainedShape own = {
      .rank = sizes.rank, .virtual_tokens = sizes.virtual_tokens, .kind = sizes.kind};
  // And the numbers of its best step.
  sum->Add(what, BytesOnGpu(own, shape) * sizes.num_adapters * 5 / 4);
  for (const TrainedShape& frozen : sizes.frozen.shapes) {
    sum->Add(documents, BytesOnGpu(frozen, shape));
  }
}

// What is left for the activations of this many rows at once.
int64_t BytesToKeep(const LearnSizes& sizes, const ServedShape& shape, const MemoryBudget& budget,
                    const MemorySum& sum, const TrainingLimits& limits) {
  if (sizes.kept_gib >= 0.0) return GibToBytes(sizes.kept_gib);
  MemorySum least = sum;
  AddTerms(sizes, limits, shape, &least);
  const double share = shape.device.is_cpu() ? kKeptShareOfCpu : kKeptShareOfGpu;
  const int64_t left = std::max<int64_t>(0, budget.LeftOnDevice() - least.on_device());
  return static_cast<int64_t>(share * static_cast<double>(left));
}

}  // namespace

int64_t BytesOnHost(const TrainedShape& shape, const ModelConfig& config) {
  int64_t bytes = 0;
  if (shape.rank > 0) bytes += TrainedLora::BytesFor(config, shape.rank, DType::kF32);
  if (shape.virtual_tokens > 0) {
    bytes += TrainedPrompt::BytesFor(config, shape.kind, shape.virtual_tokens, DType::kF32);
  }
  return bytes;
}

LearnSizes SizesOfDocuments(const LearnRecipe& recipe, const Learner& learner,
                            std::span<const LearnerInput* const> inputs) {
  size_t longest = 0, start = 0;
  for (const LearnerInput* input : inputs) {
    longest = std::max(longest, input->tokens.size());
    start = std::max(start, input->start.size());
  }
  const auto window =
      static_cast<int32_t>(std::min(longest, static_cast<size_t>(recipe.method.window_tokens)));
  const TrainedShape shape = ShapeOf(recipe, learner, longest + start);
  LearnSizes sizes;
  sizes.batch = RatesOf(recipe, learner).batch;
  sizes.example_tokens_max = learner.ExampleTokensMax(window);
  sizes.rank = shape.rank;
  sizes.virtual_tokens = shape.virtual_tokens;
  sizes.kind = shape.kind;
  for (const LearnerInput* input : inputs) {
    sizes.data.bytes += learner.DataMax(*input, kTextChoicesMax).bytes;
  }
  return sizes;
}

TrainingLimits PlanTraining(const LearnSizes& sizes, const ServedShape& shape,
                            const MemoryBudget& budget, MemorySum* sum) {
  sum->AddOnHost("the documents' texts and what the base says of them (--questions, --outputs)",
                 sizes.data.bytes / kTextsSlack);
  TrainingLimits limits = LeastLimits(sizes);
  limits.logits_rows_max = std::min(LogitsRowsOf(shape), limits.rows_max);
  const auto bytes_to_keep = [&](int32_t rows) {
    TrainingLimits tried = limits;
    tried.rows_max = rows;
    return BytesToKeep(sizes, shape, budget, *sum, tried);
  };
  // The most rows of a group with all activations kept, if those of one adapter are.
  auto [least, most] = RowsOf(sizes);
  while (least < most) {
    const int32_t rows = least + (most - least + 1) / 2;
    const bool keeps_all = bytes_to_keep(rows) >= shape.config.num_layers * LayerBytes(shape, rows);
    (keeps_all ? least : most) = keeps_all ? rows : rows - 1;
  }
  limits.rows_max = least;
  SetKept(bytes_to_keep(least), shape, &limits);
  AddTerms(sizes, limits, shape, sum);
  return limits;
}

CheckMemory LearningFits(const RuntimeOptions& options, const LearnSizes& sizes, bool serves,
                         TrainingLimits* limits) {
  return [&options, sizes, serves, limits](const ServedShape& shape, const MemoryBudget& budget,
                                           MemorySum sum) {
    if (!shape.device.is_cpu()) {
      RETURN_IF_ERROR(CheckTrainableOnGpu(shape.config, shape.types.operands, shape.device));
    }
    if (serves) RETURN_IF_ERROR(ServerFits(options)(shape, budget, sum));
    *limits = PlanTraining(sizes, shape, budget, &sum);
    RETURN_IF_ERROR(sum.Check(budget));
    LOG_INFO("memory: {}; {}", sum.ToString(), budget.DeviceText());
    return OkStatus();
  };
}

Result<TrainingFit> FitTraining(const LearnSizes& sizes, const ServedShape& shape,
                                int64_t bytes_max, const MemoryBudget& budget) {
  TrainingFit fit = {LeastLimits(sizes)};
  MemorySum least(shape.device);
  AddTerms(sizes, fit.limits, shape, &least);
  const std::string by_method = "lower batch_size (" + std::to_string(sizes.batch) +
                                "), window_tokens (texts have up to " +
                                std::to_string(sizes.example_tokens_max) + " tokens) or rank (" +
                                std::to_string(sizes.rank) + ")";
  const std::string what_to_do = ": " + (sizes.what_to_do.empty() ? by_method : sizes.what_to_do);
  if (least.on_device() > bytes_max) {
    return ResourceExhaustedError("training takes " + BytesText(least.on_device()) +
                                  ", and this server has " + BytesText(bytes_max) + " for it" +
                                  what_to_do);
  }
  if (least.on_host() > budget.LeftOnHost()) {
    return UnavailableError("training takes " + BytesText(least.on_host()) +
                            " of the host's memory, and " + budget.HostText() + what_to_do);
  }
  const bool is_cpu = shape.device.is_cpu();
  const int64_t left =
      is_cpu ? bytes_max - least.on_device() : budget.LeftOnHost() - least.on_host();
  if (sizes.data.bytes / kTextsSlack > left) {
    return Status(
        is_cpu ? StatusCode::kResourceExhausted : StatusCode::kUnavailable,
        "what the base writes about the document may take " + BytesText(sizes.data.bytes) +
            ", and this server has " + BytesText(left) +
            " for it: lower questions, outputs or output_tokens, or learn the document in parts");
  }
  fit.data_bytes_max = std::min(sizes.data.bytes, left);
  SetKept(bytes_max - least.on_device() - (is_cpu ? fit.data_bytes_max : 0), shape, &fit.limits);
  return fit;
}

Status CheckExamples(const LearnerData& data, const LearnSizes& sizes) {
  for (const auto* examples : {&data.training, &data.held_out, &data.kept}) {
    for (const TrainingExample& example : *examples) {
      if (std::cmp_less_equal(example.tokens.size(), sizes.example_tokens_max)) continue;
      return InternalError("an example has " + std::to_string(example.tokens.size()) +
                           " tokens, where memory is for " +
                           std::to_string(sizes.example_tokens_max));
    }
  }
  return OkStatus();
}

}  // namespace graft
