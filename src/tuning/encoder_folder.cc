#include "tuning/encoder_folder.h"

#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "learn/learned_folder.h"
#include "tuning/recipe.h"
#include "tuning/task_set.h"

namespace graft {
namespace {

constexpr const char* kEncoder = "/encoder";
constexpr const char* kDecoder = "/decoder";

// What graft.json of an encoder says that it is.
Status CheckEmbedder(const std::string& folder, const OrderedJson& origin) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(folder + kEncoder + "/graft.json"));
  ASSIGN_OR_RETURN(const Json made, ParseJson(text));
  const auto embedder_of = [](const auto& json) {
    return json.value("learner", Json::object()).value("embedder", std::string("none"));
  };
  const std::string has = embedder_of(made);
  if (has == embedder_of(Json(origin))) return OkStatus();
  return InvalidArgumentError("the encoder in " + folder + " was learned with --embedder " + has);
}

// An encoder that was learned before, in place of a new one's numbers.
Status ReadEncoder(const std::string& folder, const ModelConfig& config, EncoderRun& run) {
  ASSIGN_OR_RETURN(const TaskSet::FrozenDocument encoder,
                   ReadFrozenDocument("encoder", folder + kEncoder, config));
  ASSIGN_OR_RETURN(const TaskSet::FrozenDocument decoder,
                   ReadFrozenDocument("decoder", folder + kDecoder, config));
  RETURN_IF_ERROR(
      ReadInto(encoder, config, run.encoder_lora(), &run.encoder_tokens()).WithContext(folder));
  return ReadInto(decoder, config, &run.decoder(), nullptr).WithContext(folder);
}

Status WriteEncoder(const EncoderOrder& order, const LoadedModel& model,
                    const OrderedJson& provenance, EncoderRun& run) {
  const DType dtype = model.weights.dtype;
  ASSIGN_OR_RETURN(const std::string encoder,
                   WriteLearnedFolder(order.folder + kEncoder, model.config,
                                      {run.encoder_lora(), &run.encoder_tokens()}, dtype,
                                      model.name, provenance));
  return WriteLearnedFolder(order.folder + kDecoder, model.config, {.lora = &run.decoder()}, dtype,
                            model.name, provenance)
      .status();
}

std::string CheckpointOf(const EncoderOrder& order) { return order.folder + ".learning"; }

// All documents with their settings, and how this machine computes.
std::string IdentityOf(const EncoderOrder& order, const LoadedModel& model) {
  OrderedJson identity = {{"has_answers", order.settings.has_answers},
                          {"window_passes", order.settings.window_passes},
                          {"window_answer_passes", order.settings.window_answer_passes}};
  for (const EncodedDocument& document : order.documents) {
    identity["documents"].push_back(document.origin);
  }
  return RunIdentity(identity, model);
}

Status Learn(const EncoderOrder& order, EncoderRun& run) {
  ASSIGN_OR_RETURN(const bool resumed, run.Resume(CheckpointOf(order)));
  if (resumed) order.on_resume(run.step(), run.num_steps());
  int64_t saved_ns = SteadyClock::Get().NowNs();
  while (run.step() < run.num_steps()) {
    run.Step();
    order.on_step(run.step(), run.num_steps(), run.last_loss());
    if (run.step() == run.num_steps()) break;
    const int64_t now_ns = SteadyClock::Get().NowNs();
    if (now_ns - saved_ns < int64_t{order.checkpoint_seconds} * 1'000'000'000) continue;
    RETURN_IF_ERROR(run.SaveCheckpoint(CheckpointOf(order)));
    saved_ns = now_ns;
  }
  // As of other learners: what comes behind is done again from there.
  const Status saved = run.SaveCheckpoint(CheckpointOf(order));
  if (!saved.ok()) LOG_WARN("no checkpoint behind the last step: {}", saved.message());
  return OkStatus();
}

OrderedJson ScoresJson(const EncoderReport& report) {
  const EncoderRun::Scores& scores = report.scores;
  return {{"reconstruction_loss", scores.reconstruction},
          {"loss_base", scores.answers_without},
          {"loss", scores.answers},
          {"held_out_loss_base", scores.held_out_without},
          {"held_out_loss", scores.held_out},
          {"steps", report.num_steps}};
}

}  // namespace

bool HasEncoder(const std::string& folder) {
  return FileExists(folder + kEncoder + "/graft.json") &&
         FileExists(folder + kDecoder + "/graft.json");
}

LearnSizes::Frozen EncoderSizes(std::span<const size_t> document_tokens,
                                const EncoderSettings& settings, const ModelConfig& config,
                                DType dtype) {
  LearnSizes::Frozen sizes{.rank = settings.rank,
                           .embeddings = EncoderRun::RowsBeforeMax(document_tokens, settings),
                           .sequences = EncoderRun::TextsAtOnce(document_tokens, settings)};
  sizes.shapes = EncoderRun::ShapesOf(document_tokens, settings);
  const bool is_map = settings.embedder != Embedder::kTrained;
  sizes.shapes.erase(sizes.shapes.begin() + (is_map ? 1 : 0));
  for (const TrainedShape& shape : sizes.shapes) {
    if (shape.rank > 0) sizes.bytes += TrainedLora::BytesFor(config, shape.rank, dtype);
    if (shape.virtual_tokens == 0) continue;
    sizes.bytes += TrainedPrompt::BytesFor(config, shape.kind, shape.virtual_tokens, dtype);
  }
  if (!is_map) return sizes;
  for (const TrainedShape& memory : std::span(sizes.shapes).last(document_tokens.size())) {
    sizes.bytes += int64_t{memory.virtual_tokens} * config.hidden_size * int64_t{sizeof(float)};
  }
  return sizes;
}

Result<EncoderReport> LearnByEncoder(EncoderOrder order, LoadedModel& model,
                                     const TrainingLimits& limits) {
  Trainer trainer(model.config, model.weights, limits, model.stream);
  std::vector<EncoderDocument> documents;
  for (EncodedDocument& document : order.documents) {
    documents.push_back(std::move(document.document));
  }
  const bool is_there = HasEncoder(order.folder);
  order.settings.identity = IdentityOf(order, model);
  if (is_there) order.settings.has_answers = false;
  EncoderRun run(trainer, std::move(documents), order.settings);
  EncoderReport report;
  if (is_there) {
    RETURN_IF_ERROR(CheckEmbedder(order.folder, order.documents[0].origin));
    RETURN_IF_ERROR(ReadEncoder(order.folder, model.config, run));
  } else {
    RETURN_IF_ERROR(Learn(order, run));
    run.RoundMap();
    report.num_steps = run.num_steps();
  }
  run.EncodeAll();
  report.scores = run.Evaluate();
  const bool is_better = report.scores.answers < report.scores.answers_without;
  if (!is_there && order.settings.has_answers && !is_better) {  // NaN, too
    return FailedPreconditionError("the encoder was not learned: the loss on the answers is " +
                                   std::to_string(report.scores.answers) + ", the base's is " +
                                   std::to_string(report.scores.answers_without) +
                                   "; change --learning-rate or --prompt-learning-rate");
  }
  for (size_t i = 0; i < order.documents.size(); ++i) {
    OrderedJson provenance = order.documents[i].origin;
    if (!is_there && i == 0) RETURN_IF_ERROR(WriteEncoder(order, model, provenance, run));
    provenance["scores"] = ScoresJson(report);
    ASSIGN_OR_RETURN(std::string hash,
                     WriteLearnedFolder(order.documents[i].folder, model.config,
                                        {&run.decoder(), &run.memory(i)}, model.weights.dtype,
                                        model.name, provenance));
    report.hashes.push_back(std::move(hash));
  }
  std::error_code ignored;
  std::filesystem::remove(CheckpointOf(order), ignored);
  return report;
}

}  // namespace graft
