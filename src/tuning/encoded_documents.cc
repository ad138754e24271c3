#include "tuning/encoded_documents.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "tuning/recipe.h"

namespace graft {
namespace {

VirtualTokenKind KindOf(const MemoryForm& form) {
  return form.carrier == MemoryCarrier::kStates ? VirtualTokenKind::kEmbedding
                                                : VirtualTokenKind::kKeysValues;
}

TrainedShape MemoryShapeOf(const KnownEncoder& encoder, int32_t tokens) {
  return {.virtual_tokens = tokens, .kind = KindOf(encoder.form.memory)};
}

// What the numbers take alone, without gradients and moments.
int64_t NumbersBytes(const TrainedShape& shape, const ModelConfig& config) {
  int64_t numbers = 0;
  if (shape.rank > 0) {
    numbers += TrainedLora::SizeOf(config, shape.rank, DType::kF32).parameters;
  }
  if (shape.virtual_tokens > 0) {
    numbers +=
        TrainedPrompt::SizeOf(config, shape.kind, shape.virtual_tokens, DType::kF32, {}).parameters;
  }
  return numbers * int64_t{sizeof(float)};
}

}  // namespace

Result<EncoderRoom> RoomFor(const KnownEncoder& encoder, size_t document_tokens,
                            int32_t compression, const ModelConfig& config) {
  if (document_tokens == 0) return InvalidArgumentError("the document has no tokens to read");
  const MemoryForm& form = encoder.form.memory;
  const size_t start = encoder.start.size();
  const int32_t memory = MemoryTokensOf(start, document_tokens, form, compression);
  const int32_t longest =
      form.places == MemoryPlaces::kAsRead ? static_cast<int32_t>(start + document_tokens) : memory;
  if (longest > config.context_tokens_max || memory > kVirtualTokensMax) {
    return InvalidArgumentError(
        "the document has " + std::to_string(document_tokens) + " tokens and a memory of " +
        std::to_string(memory) + "; the model's context is " +
        std::to_string(config.context_tokens_max) + ", and a memory has at most " +
        std::to_string(kVirtualTokensMax) + ": make adapters of its parts");
  }
  const auto rows = static_cast<int32_t>(
      start + std::min(document_tokens, static_cast<size_t>(form.window_tokens)));
  return EncoderRoom{rows + (form.rows == MemoryRows::kPieces ? 0 : memory), memory};
}

Result<EncoderRoom> RoomFor(const KnownEncoder& encoder, const LearningPlan& plan,
                            int32_t compression, const ModelConfig& config) {
  EncoderRoom room;
  for (const LearningDocument& document : plan.documents) {
    Result<EncoderRoom> one = RoomFor(encoder, document.input.tokens.size(), compression, config);
    if (!one.ok()) {
      return document.name.empty() ? one : one.status().WithContext(document.document.name);
    }
    room = {std::max(room.rows, one->rows), std::max(room.memory_tokens, one->memory_tokens)};
  }
  return room;
}

LearnSizes SizesOf(const KnownEncoder& encoder, const EncoderRoom& room,
                   const ModelConfig& config) {
  const TrainedShape memory = MemoryShapeOf(encoder, room.memory_tokens);
  LearnSizes sizes{.batch = 1, .example_tokens_max = room.rows, .rank = encoder.decoder.shape.rank};
  sizes.what_to_do = "a larger compression takes less, and so does the document in parts";
  LearnSizes::Frozen& frozen = sizes.frozen;
  frozen.rank = encoder.encoder.shape.rank;
  (memory.kind == VirtualTokenKind::kEmbedding ? frozen.embeddings : frozen.keys_values) =
      room.memory_tokens;
  frozen.shapes = {encoder.encoder.shape, memory};
  // And the memory once more, as large as the document's.
  for (const TrainedShape& shape : {encoder.encoder.shape, memory, memory}) {
    frozen.bytes += BytesOnHost(shape, config);
  }
  return sizes;
}

EncoderAtWork::EncoderAtWork(const KnownEncoder& encoder, const EncoderRoom& room,
                             const LoadedModel& model, const TrainingLimits& limits, Stream& stream,
                             std::function<void()> pause, DeviceTurns* turns)
    : encoder_(encoder),
      room_(room),
      dtype_(model.weights.types.operands),
      device_(stream.device),
      trainer_(model.config, model.weights, limits, stream, std::move(pause), turns),
      reads_(trainer_.Add(encoder.encoder.shape)),
      answers_(trainer_.Add(encoder.decoder.shape)),
      memory_(trainer_.Add(MemoryShapeOf(encoder, room.memory_tokens))) {}

Result<std::unique_ptr<EncoderAtWork>> EncoderAtWork::Make(
    const KnownEncoder& encoder, const EncoderRoom& room, const LoadedModel& model,
    const TrainingLimits& limits, Stream& stream, Turns* turns, DeviceTurns* device_turns) {
  std::function<void()> pause;
  if (turns != nullptr) pause = [turns] { turns->Pause(); };
  std::unique_ptr<EncoderAtWork> made;
  {
    const Piece piece(turns);
    made.reset(
        new EncoderAtWork(encoder, room, model, limits, stream, std::move(pause), device_turns));
  }
  // The numbers are read and rounded by this thread alone, beside the steps.
  Trainer& trainer = made->trainer_;
  RETURN_IF_ERROR(ReadInto(encoder.encoder, model.config, trainer.lora(made->reads_),
                           trainer.prompt(made->reads_)));
  RETURN_IF_ERROR(ReadInto(encoder.decoder, model.config, trainer.lora(made->answers_), nullptr));
  return made;
}

Status EncoderAtWork::ReadWindow(const MemoryReading& reading, size_t window) {
  const std::vector<int32_t>& tokens = reading.windows[window];
  const std::vector<ReadText::Row>& rows = reading.rows[window];
  if (encoder_.form.memory.carrier == MemoryCarrier::kStates) {
    const EncodedText text{tokens, memory_, rows.front().token};
    trainer_.Encode(reads_, {&text, 1});
  } else {
    const ReadText text{tokens, memory_, rows, reading.is_between};
    trainer_.EncodeKeysValues(reads_, {&text, 1});
  }
  return OkStatus();
}

Result<LearnedAdapter> EncoderAtWork::Read(std::span<const int32_t> tokens, int32_t compression,
                                           const Compute& compute) {
  const MemoryForm& form = encoder_.form.memory;
  const MemoryReading reading = ReadingOf(encoder_.start, tokens, form, compression);
  CHECK_LE(reading.memory_tokens, room_.memory_tokens);
  for (size_t i = 0; i < reading.windows.size(); ++i) {
    const auto window = [&] { return ReadWindow(reading, i); };
    RETURN_IF_ERROR(compute ? compute(window) : window());
  }
  read_ = std::make_unique<TrainedPrompt>(trainer_.config(), KindOf(form), reading.memory_tokens,
                                          dtype_, device_);
  const std::span<float> numbers = read_->parameters();
  std::ranges::copy(trainer_.prompt(memory_)->parameters().first(numbers.size()), numbers.begin());
  read_->Refresh();
  return LearnedAdapter{trainer_.lora(answers_), read_.get()};
}

OrderedJson OriginOfEncoded(const KnownEncoder& encoder, int32_t compression,
                            const LearningPlan& plan, const LearningDocument& document,
                            int32_t memory_tokens, const LoadedModel& model,
                            const BaseIdentity& base) {
  OrderedJson origin =
      OriginJson(plan.recipe, *plan.learner,
                 {.rank = encoder.decoder.shape.rank, .virtual_tokens = memory_tokens}, model, base,
                 document.document, document.input.tokens.size());
  origin["learner"] = {{"name", WordOf(LearnerKind::kEncoder)},
                       {"encoder", encoder.encoder.hash},
                       {"decoder", encoder.decoder.hash},
                       {"compression", compression},
                       {"virtual_tokens", memory_tokens}};
  return origin;
}

Status BeginEncoded(const KnownEncoder& encoder, const ModelConfig& config, LearningPlan* plan) {
  const DocumentMethod& method = plan->recipe.method;
  const int32_t rank = encoder.decoder.shape.rank;
  if (method.rank > 0 && method.rank != rank) {
    return InvalidArgumentError("rank is " + std::to_string(method.rank) +
                                ", and the adapters of this encoder, with which distill begins, "
                                "have " +
                                std::to_string(rank));
  }
  if (method.alpha > 0.0) {
    return InvalidArgumentError(
        "alpha is given, and the adapters of this encoder, with which distill begins, have a scale "
        "of their own");
  }
  const int32_t compression = encoder.CompressionOr(method.compression);
  plan->begins = {.encoder = encoder.encoder.hash,
                  .decoder = encoder.decoder.hash,
                  .compression = compression,
                  .bytes = NumbersBytes(encoder.decoder.shape, config)};
  for (LearningDocument& document : plan->documents) {
    document.shape = encoder.decoder.shape;
    document.shape.is_frozen = false;
    document.shape.kind = KindOf(encoder.form.memory);
    document.shape.virtual_tokens = MemoryTokensOf(
        encoder.start.size(), document.input.tokens.size(), encoder.form.memory, compression);
    plan->begins.bytes +=
        NumbersBytes(MemoryShapeOf(encoder, document.shape.virtual_tokens), config);
  }
  return OkStatus();
}

Status ReadBeginnings(EncoderAtWork& encoder, LearningPlan* plan,
                      const EncoderAtWork::Compute& compute) {
  std::shared_ptr<const std::vector<float>> lora;
  for (LearningDocument& document : plan->documents) {
    ASSIGN_OR_RETURN(const LearnedAdapter adapter,
                     encoder.Read(document.input.tokens, plan->begins.compression, compute));
    const auto copy = [](TrainedNumbers& from) {
      return std::vector<float>(from.parameters().begin(), from.parameters().end());
    };
    if (lora == nullptr) lora = std::make_shared<const std::vector<float>>(copy(*adapter.lora));
    document.begins = {lora, copy(*adapter.prompt)};
  }
  return OkStatus();
}

}  // namespace graft
