#include "tuning/corpus_training.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "learn/trainable.h"
#include "tuning/corpus_reader.h"
#include "tuning/training_group.h"

namespace graft {
namespace {

OrderedJson BaseJson(const LoadedModel& model, const BaseIdentity& base) {
  return {{"name", model.name},
          {"text_hash", base.text_hash},
          {"weights_hash", base.weights_hash},
          {"dtype", DTypeName(model.weights.types.operands)}};
}

OrderedJson MethodJson(const CorpusSettings& s) {
  OrderedJson stages = OrderedJson::array();
  for (const EncoderStage& stage : s.stages) {
    stages.push_back(
        {{"until", stage.until}, {"tokens", stage.tokens}, {"compressions", stage.compressions}});
  }
  return {{"steps", s.steps},
          {"batch", s.rates.batch},
          {"learning_rate", s.rates.learning_rate},
          {"prompt_learning_rate", s.rates.prompt_learning_rate},
          {"rank", s.rank},
          {"decoder_rank", s.decoder_rank},
          {"stages", std::move(stages)},
          {"document_tokens", s.document_tokens},
          {"questions", s.questions},
          {"questions_together", s.questions_together},
          {"pieces", s.pieces},
          {"piece_tokens", s.piece_tokens},
          {"piece_weight", s.piece_weight},
          {"corpus_share", s.corpus_share},
          {"held_out", s.held_out},
          {"seed", s.seed}};
}

OrderedJson LookJson(const CorpusRun::Look& look) {
  return {{"compression", look.compression}, {"questions", look.num_questions},
          {"without", look.without},         {"in_context", look.in_context},
          {"memory", look.memory},           {"other", look.other},
          {"recovery", look.recovery()}};
}

// A process's part of the training.
class CorpusTraining {
 public:
  CorpusTraining(const CorpusChoices& choices, const CorpusSettings& settings,
                 const EncoderForm& form, const LoadedModel& model, const BaseIdentity& base,
                 CorpusReader& reader, CorpusRun& run, const CorpusHost& host)
      : choices_(choices),
        settings_(settings),
        form_(form),
        model_(model),
        base_(base),
        reader_(reader),
        run_(run),
        host_(host),
        saved_(choices.checkpoint_seconds),
        looked_(choices.look_seconds) {}

  Result<int32_t> Run() {
    ASSIGN_OR_RETURN(const bool resumed,
                     run_.Begin(checkpoint(), [this](int64_t n) { return reader_.Skip(n); }));
    if (!resumed) std::filesystem::remove(CurvesOf(choices_.folder), ignored_);
    host_.on_begin(resumed, run_.step());
    tokens_before_ = run_.num_tokens();
    RETURN_IF_ERROR(Look());
    while (!run_.is_done() && !IsOver()) {
      if (const Status stepped = run_.Step(); !stepped.ok()) {
        if (stepped.code() != StatusCode::kOutOfRange) return stepped;
        LOG_WARN("{}; {} steps of {} were made", stepped.message(), run_.step(), settings_.steps);
        break;
      }
      host_.on_step(run_.step(), settings_.steps, run_.answer_loss());
      if (looked_.IsDue()) RETURN_IF_ERROR(Look());
      if (saved_.IsDue()) RETURN_IF_ERROR(Save());
    }
    RETURN_IF_ERROR(Look());
    RETURN_IF_ERROR(Save());
    const OrderedJson provenance = Provenance();
    RETURN_IF_ERROR(WriteEncoder(choices_.folder, model_, form_, provenance, run_));
    const int32_t left = settings_.steps - run_.step();
    if (left == 0) std::filesystem::remove(checkpoint(), ignored_);
    return left;
  }

 private:
  std::string checkpoint() const { return choices_.folder + ".learning"; }
  double Seconds() const { return NsToSeconds(SteadyClock::Get().NowNs() - begin_ns_); }
  bool IsOver() const { return choices_.run_seconds > 0 && Seconds() >= choices_.run_seconds; }

  Status Save() {
    RETURN_IF_ERROR(run_.SaveCheckpoint(checkpoint()));
    saved_.Reset();
    return OkStatus();
  }

  Status Look() {
    const double now = Seconds();
    last_ = {.step = run_.step(),
             .num_steps = settings_.steps,
             .documents = run_.num_documents(),
             .tokens = run_.num_tokens(),
             .seconds = now,
             .answer_loss = run_.answer_loss(),
             .piece_loss = run_.piece_loss()};
    const double since = now - looked_at_;
    if (since > 0.0) {
      last_.tokens_a_second = static_cast<double>(run_.num_tokens() - tokens_before_) / since;
    }
    for (const int32_t compression : form_.compressions) {
      last_.looks.push_back(run_.LookAt(compression));
    }
    std::ofstream curves(CurvesOf(choices_.folder), std::ios::app);
    curves << CurveLine(last_) << "\n";
    curves.flush();
    if (!curves) return InvalidArgumentError("cannot write " + CurvesOf(choices_.folder));
    host_.on_look(last_);
    looked_at_ = Seconds();
    tokens_before_ = run_.num_tokens();
    looked_.Reset();
    return OkStatus();
  }

  OrderedJson Provenance() const {
    OrderedJson provenance = {{"base", BaseJson(model_, base_)},
                              {"encoder", MethodJson(settings_)},
                              {"scores", OrderedJson::array()},
                              {"program", "graft " GRAFT_VERSION}};
    provenance["encoder"]["made_steps"] = last_.step;
    provenance["encoder"]["documents"] = last_.documents;
    provenance["encoder"]["tokens"] = last_.tokens;
    for (const CorpusRun::Look& look : last_.looks) provenance["scores"].push_back(LookJson(look));
    return provenance;
  }

  const CorpusChoices& choices_;
  const CorpusSettings& settings_;
  const EncoderForm& form_;
  const LoadedModel& model_;
  const BaseIdentity& base_;
  CorpusReader& reader_;
  CorpusRun& run_;
  const CorpusHost& host_;
  CheckpointTimer saved_, looked_;
  const int64_t begin_ns_ = SteadyClock::Get().NowNs();
  double looked_at_ = 0.0;
  int64_t tokens_before_ = 0;
  CorpusProgress last_;
  std::error_code ignored_;
};

}  // namespace

Result<CorpusSettings> SettingsOf(const CorpusChoices& choices, const LearnRecipe& recipe,
                                  const AskedForm& texts, const ModelConfig& config) {
  CorpusSettings settings = choices.settings;
  const DocumentMethod& method = recipe.method;
  if (method.learning_rate > 0.0) settings.rates.learning_rate = method.learning_rate;
  if (method.prompt_learning_rate > 0.0) {
    settings.rates.prompt_learning_rate = method.prompt_learning_rate;
  }
  if (method.batch > 0) settings.rates.batch = method.batch;
  if (method.steps > 0) settings.steps = method.steps;
  if (method.rank > 0) settings.rank = method.rank;
  if (settings.decoder_rank == 0) settings.decoder_rank = settings.rank;
  if (method.virtual_tokens > 0) settings.form.behind = method.virtual_tokens;
  settings.seed = recipe.seed;
  settings.start = texts.start();
  settings.prompt_start = texts.prompt_start();
  std::vector<int32_t> compressions = choices.compressions;
  std::ranges::sort(compressions);
  settings.stages = CurriculumOf(compressions);
  if (settings.form.carrier == MemoryCarrier::kStates) settings.form.rows = MemoryRows::kBehind;
  const int32_t rows = CorpusRun::RowsOfDocument(settings);
  const int32_t context = config.context_tokens_max;
  if (rows > context || CorpusRun::MemoryTokensMax(settings) + settings.question_tokens > context) {
    return InvalidArgumentError(
        "texts of up to " + std::to_string(rows) + " tokens are more than the model's context of " +
        std::to_string(context) + ": lower --document-tokens or --document-questions");
  }
  if (settings.rates.batch * CorpusRun::TextsOfDocument(settings) > kTrainingSequencesMax) {
    return InvalidArgumentError("a step has " + std::to_string(kTrainingSequencesMax) +
                                " texts at most: lower --batch or --document-questions");
  }
  return settings;
}

LearnSizes SizesOfCorpus(const CorpusSettings& settings, const ModelConfig& config) {
  LearnSizes sizes{.batch = settings.rates.batch,
                   .example_tokens_max = CorpusRun::RowsOfDocument(settings),
                   .rank = settings.decoder_rank,
                   .chooses = true};
  LearnSizes::Frozen& frozen = sizes.frozen;
  frozen.rank = settings.rank;
  if (settings.form.carrier == MemoryCarrier::kKeysValues) {
    frozen.keys_values = CorpusRun::MemoryTokensMax(settings);
  }
  frozen.sequences = settings.rates.batch * CorpusRun::TextsOfDocument(settings);
  frozen.shapes = CorpusRun::ShapesOf(settings);
  frozen.shapes.erase(frozen.shapes.begin() + 1);  // the decoder is the adapter that learns
  for (const TrainedShape& shape : frozen.shapes) frozen.bytes += BytesOnHost(shape, config);
  return sizes;
}

std::string CurveLine(const CorpusProgress& progress) {
  OrderedJson line = {{"step", progress.step},
                      {"steps", progress.num_steps},
                      {"documents", progress.documents},
                      {"tokens", progress.tokens},
                      {"seconds", progress.seconds},
                      {"tokens_a_second", progress.tokens_a_second},
                      {"answer_loss", progress.answer_loss},
                      {"piece_loss", progress.piece_loss},
                      {"looks", OrderedJson::array()}};
  for (const CorpusRun::Look& look : progress.looks) line["looks"].push_back(LookJson(look));
  return line.dump();
}

std::string TextOf(const CorpusProgress& progress) {
  std::string text = fmt::format(
      "step {} of {}, {} documents, {:.0f} k tokens/s: loss {:.3f} of answers, {:.3f} of pieces",
      progress.step, progress.num_steps, progress.documents, progress.tokens_a_second / 1e3,
      progress.answer_loss, progress.piece_loss);
  for (const CorpusRun::Look& look : progress.looks) {
    text += fmt::format(
        "\n  1/{}: right {:.1f} % of {} held out (in context {:.1f}, without {:.1f}, another's "
        "memory {:.1f}), recovery {:.2f}",
        look.compression, 100.0 * look.memory, look.num_questions, 100.0 * look.in_context,
        100.0 * look.without, 100.0 * look.other, look.recovery());
  }
  return text;
}

std::string CurvesOf(const std::string& folder) { return folder + ".curves.jsonl"; }

Result<int32_t> TeachEncoder(const CorpusChoices& choices, const CorpusSettings& settings,
                             const EncoderForm& form, const AskedForm& texts,
                             const Tokenizer& tokenizer, LoadedModel& model,
                             const BaseIdentity& base, const TrainingLimits& limits,
                             const CorpusHost& host) {
  CorpusSettings named = settings;
  const OrderedJson identity = {
      {"base", BaseJson(model, base)}, {"form", ToJson(form)}, {"method", MethodJson(settings)}};
  named.identity = RunIdentity(identity, model);
  ASSIGN_OR_RETURN(const auto reader,
                   CorpusReader::Open(choices.corpus, choices.readers, texts, tokenizer));
  Trainer trainer(model.config, model.weights, limits, model.stream);
  CorpusRun run(trainer, *reader, named);
  return CorpusTraining(choices, settings, form, model, base, *reader, run, host).Run();
}

}  // namespace graft
