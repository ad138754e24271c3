#include "tuning/encoder_folder.h"

#include <filesystem>
#include <utility>

#include "adapters/prompt_config.h"
#include "base/file.h"
#include "base/json.h"
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

Status WriteEncoder(const std::string& folder, const LoadedModel& model,
                    const OrderedJson& provenance, EncoderRun& run) {
  RETURN_IF_ERROR(WriteAdapter(folder + kEncoder, {run.encoder_lora(), &run.encoder_tokens()},
                               provenance, model)
                      .status());
  return WriteAdapter(folder + kDecoder, {.lora = &run.decoder()}, provenance, model).status();
}

// Where a document's adapter comes from. Its length alone limits its virtual tokens.
OrderedJson OriginByEncoder(const EncoderChoices& choices, const LearningPlan& plan,
                            const LearningDocument& document, const LoadedModel& model,
                            const BaseIdentity& base) {
  const TrainedShape shape = ShapeOf(plan.recipe, *plan.learner, kVirtualTokensMax);
  OrderedJson origin = OriginJson(plan.recipe, *plan.learner, shape, model, base, document.document,
                                  document.input.tokens.size());
  if (choices.settings.embedder != Embedder::kTrained) {
    origin["learner"]["embedder"] = WordOf(choices.settings.embedder, kEmbedderWords);
  }
  return origin;
}

// All documents with their settings, and how this machine computes.
std::string IdentityOf(const EncoderSettings& settings, std::span<const OrderedJson> origins,
                       const LoadedModel& model) {
  OrderedJson identity = {{"has_answers", !settings.reconstruction_only},
                          {"window_passes", settings.window_passes},
                          {"window_answer_passes", settings.window_answer_passes}};
  for (const OrderedJson& origin : origins) identity["documents"].push_back(origin);
  return RunIdentity(identity, model);
}

class EncoderSteps : public TrainedSteps {
 public:
  EncoderSteps(EncoderRun& run, std::string checkpoint, TrainingHost& host, int seconds)
      : run_(run), checkpoint_(std::move(checkpoint)), host_(host), timer_(seconds) {}

  Status Run() {
    ASSIGN_OR_RETURN(const bool resumed, run_.Resume(checkpoint_));
    host_.OnBegin("the encoder", progress(), resumed);
    timer_.Reset();
    return TrainSteps(*this, host_);
  }

  bool is_done() const override { return run_.step() == run_.num_steps(); }
  TrainingProgress progress() const override {
    return {.step = run_.step(),
            .num_steps = run_.num_steps(),
            .loss = run_.last_loss(),
            .looked_at = run_.step()};
  }
  Status Step() override {
    run_.Step();
    return OkStatus();
  }
  bool is_save_due() const override { return timer_.IsDue(); }
  Status Save() override {
    const Status saved = run_.SaveCheckpoint(checkpoint_);
    timer_.Reset();
    return host_.OnCheckpoint("the encoder", progress(), saved);
  }

 private:
  EncoderRun& run_;
  const std::string checkpoint_;
  TrainingHost& host_;
  CheckpointTimer timer_;
};

// The encoder in its folder, or one that is learned now: then how many steps that took.
Result<int32_t> GetEncoder(const EncoderChoices& choices, const OrderedJson& origin,
                           const LoadedModel& model, EncoderRun& run, EncoderSteps& steps) {
  if (HasEncoder(choices.folder)) {
    RETURN_IF_ERROR(CheckEmbedder(choices.folder, origin));
    RETURN_IF_ERROR(ReadEncoder(choices.folder, model.config, run));
    return 0;
  }
  RETURN_IF_ERROR(steps.Run());
  run.RoundMap();
  return run.num_steps();
}

OrderedJson EncoderScoresJson(const EncoderReport& report) {
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

Result<EncoderSettings> EncoderSettingsOf(const EncoderChoices& choices, const LearningPlan& plan,
                                          const ModelConfig& config) {
  if (choices.settings.embedder != Embedder::kTrained && config.hidden_size >= kVirtualTokensMax) {
    return UnimplementedError("--embedder takes models of a hidden size below " +
                              std::to_string(kVirtualTokensMax));
  }
  const LearnerParts parts = PartsOf(plan.recipe, *plan.learner);
  EncoderSettings settings = choices.settings;
  settings.rates = RatesOf(plan);
  settings.rank = parts.rank;
  settings.memory_tokens = parts.virtual_tokens;
  settings.window_tokens = plan.recipe.method.window_tokens;
  if (!config.eos_token_ids.empty()) settings.end_token = config.eos_token_ids[0];
  settings.hidden_size = config.hidden_size;
  settings.seed = plan.recipe.seed;
  return settings;
}

Result<LearnSizes> SizesByEncoder(const EncoderChoices& choices, const LearningPlan& plan,
                                  const ModelConfig& config) {
  std::vector<size_t> tokens;
  for (const LearningDocument& document : plan.documents) {
    tokens.push_back(document.input.tokens.size());
  }
  ASSIGN_OR_RETURN(const EncoderSettings settings, EncoderSettingsOf(choices, plan, config));
  LearnSizes sizes = SizesOfPlan(plan);
  sizes.frozen = EncoderSizes(tokens, settings, config, DType::kF32);
  return sizes;
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

Result<EncoderReport> LearnByEncoder(const EncoderChoices& choices, LearningPlan& plan,
                                     LoadedModel& model, const BaseIdentity& base,
                                     const TrainingLimits& limits, TrainingHost& host,
                                     int checkpoint_seconds) {
  Trainer trainer(model.config, model.weights, limits, model.stream);
  ASSIGN_OR_RETURN(EncoderSettings settings, EncoderSettingsOf(choices, plan, model.config));
  std::vector<OrderedJson> origins;
  std::vector<EncoderDocument> documents;
  for (LearningDocument& document : plan.documents) {
    LearnerData data = std::move(document.data);
    origins.push_back(OriginByEncoder(choices, plan, document, model, base));
    documents.push_back({document.input.tokens, std::move(data)});
  }
  const bool is_there = HasEncoder(choices.folder);
  const std::string checkpoint = choices.folder + ".learning";
  settings.identity = IdentityOf(settings, origins, model);
  if (is_there) settings.reconstruction_only = true;
  EncoderRun run(trainer, std::move(documents), settings);
  EncoderSteps steps(run, checkpoint, host, checkpoint_seconds);
  EncoderReport report;
  ASSIGN_OR_RETURN(report.num_steps, GetEncoder(choices, origins[0], model, run, steps));
  run.EncodeAll();
  report.scores = run.Evaluate();
  if (!is_there && !settings.reconstruction_only) {
    const EncoderRun::Scores& scores = report.scores;
    RETURN_IF_ERROR(CheckLearned("the encoder",
                                 {.before = scores.answers_without, .after = scores.answers},
                                 plan.words.lower_rates));
  }
  if (!is_there) RETURN_IF_ERROR(WriteEncoder(choices.folder, model, origins[0], run));
  for (size_t i = 0; i < origins.size(); ++i) {
    OrderedJson provenance = origins[i];
    provenance["scores"] = EncoderScoresJson(report);
    ASSIGN_OR_RETURN(std::string hash,
                     WriteAdapter(plan.documents[i].folder, {&run.decoder(), &run.memory(i)},
                                  provenance, model));
    report.hashes.push_back(std::move(hash));
  }
  std::error_code ignored;
  std::filesystem::remove(checkpoint, ignored);
  return report;
}

}  // namespace graft
