#include "cli/learn_encoder.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/learn_answers.h"
#include "runtime/progress.h"
#include "tuning/corpus_training.h"
#include "tuning/encoded_documents.h"
#include "tuning/encoder_folder.h"
#include "tuning/teacher_prompts.h"

namespace graft {
namespace {

Result<AskedForm> TextsOf(const LearnOptions& options, TeacherPrompts prompts,
                          const Tokenizer& tokenizer) {
  std::optional<ChatTemplate> chat;
  if (prompts == TeacherPrompts::kChat) {
    ASSIGN_OR_RETURN(chat, LoadChatTemplate(options.runtime.model));
  }
  return AskedForm::Make(chat, tokenizer);
}

LearnSizes OnThisMachine(LearnSizes sizes, const LearnOptions& options) {
  sizes.kept_gib = options.kept_gib;
  sizes.threads = options.runtime.threads == 0 ? NumCpus() : options.runtime.threads;
  return sizes;
}

Status Teach(const LearnOptions& options, const ModelConfig& config, const Tokenizer& tokenizer,
             const LearningPlan& plan) {
  if (!plan.documents.empty()) {
    return InvalidArgumentError(
        "--corpus teaches an encoder; a second command makes adapters of files by it");
  }
  RETURN_IF_ERROR(CheckEncodes(config));
  const CorpusChoices& choices = options.encoder;
  if (HasEncoder(choices.folder) && !options.replace &&
      !std::filesystem::exists(choices.folder + ".learning")) {
    return AlreadyExistsError(choices.folder + " has an encoder already; --replace learns it anew");
  }
  ASSIGN_OR_RETURN(const AskedForm texts, TextsOf(options, plan.recipe.prompts, tokenizer));
  ASSIGN_OR_RETURN(const CorpusSettings settings, SettingsOf(choices, plan.recipe, texts, config));
  EncoderForm form = {settings.form, choices.compressions, plan.recipe.prompts};
  std::ranges::sort(form.compressions);
  TrainingLimits limits;
  const LearnSizes sizes = OnThisMachine(SizesOfCorpus(settings, config), options);
  ASSIGN_OR_RETURN(const auto model,
                   LoadModel(options.runtime, options.quiet,
                             LearningFits(options.runtime, sizes, /*serves=*/false, &limits)));
  ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(options.runtime.model));
  std::optional<ProgressBar> bar;
  const CorpusHost host = {.on_look =
                               [](const CorpusProgress& progress) {
                                 std::printf("%s\n", TextOf(progress).c_str());
                                 std::fflush(stdout);
                               },
                           .on_step =
                               [&](int32_t step, int32_t num_steps, double loss) {
                                 char note[32];
                                 std::snprintf(note, sizeof(note), "loss %.3f", loss);
                                 bar->Update(step, num_steps, note);
                               },
                           .on_begin =
                               [&](bool resumed, int32_t step) {
                                 if (resumed)
                                   std::fprintf(stderr, "the encoder goes on from step %d\n", step);
                                 bar.emplace("learning an encoder", options.quiet);
                               }};
  ASSIGN_OR_RETURN(const int32_t left, TeachEncoder(choices, settings, form, texts, tokenizer,
                                                    *model, base, limits, host));
  std::printf("encoder  (%s)\n", choices.folder.c_str());
  if (left > 0) std::printf("  %d steps are left: the same command goes on\n", left);
  return OkStatus();
}

Status Encode(const LearnOptions& options, const ModelConfig& config, const Tokenizer& tokenizer,
              LearningPlan& plan) {
  ASSIGN_OR_RETURN(const KnownEncoder encoder,
                   OpenEncoder(options.encoder.folder, options.runtime.model, config, tokenizer));
  const int32_t compression = encoder.CompressionOr(options.method.compression);
  ASSIGN_OR_RETURN(const EncoderRoom room, RoomFor(encoder, plan, compression, config));
  const LearnSizes sizes = OnThisMachine(SizesOf(encoder, room, config), options);
  TrainingLimits limits;
  const bool serves = !options.questions.empty();
  ASSIGN_OR_RETURN(const auto model,
                   LoadModel(options.runtime, options.quiet,
                             LearningFits(options.runtime, sizes, serves, &limits)));
  ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(options.runtime.model));
  ASSIGN_OR_RETURN(const auto reader,
                   EncoderAtWork::Make(encoder, room, *model, limits, model->stream));
  for (const LearningDocument& document : plan.documents) {
    ASSIGN_OR_RETURN(const LearnedAdapter adapter,
                     reader->Read(document.input.tokens, compression));
    const OrderedJson origin = OriginOfEncoded(encoder, compression, plan, document,
                                               adapter.prompt->num_tokens(), *model, base);
    ASSIGN_OR_RETURN(const std::string hash,
                     WriteAdapter(document.folder, adapter, origin, *model));
    std::printf("%s  (%s)\n  hash      %s\n", document.name.c_str(), document.folder.c_str(),
                hash.c_str());
  }
  return AskAll(options, tokenizer, *model, plan);
}

}  // namespace

Status RunEncoder(const LearnOptions& options, const ModelConfig& config,
                  const Tokenizer& tokenizer, LearningPlan& plan) {
  if (options.encoder.folder.empty()) {
    return InvalidArgumentError("which encoder? --encoder DIR names its folder");
  }
  if (!options.encoder.corpus.empty()) return Teach(options, config, tokenizer, plan);
  if (plan.documents.empty()) {
    return InvalidArgumentError("which documents? or --corpus, which teaches an encoder");
  }
  return Encode(options, config, tokenizer, plan);
}

Result<std::unique_ptr<Beginnings>> OpenBeginnings(const LearnOptions& options,
                                                   const ModelConfig& config,
                                                   const Tokenizer& tokenizer, LearningPlan* plan) {
  if (!plan->recipe.begins_encoded) return std::unique_ptr<Beginnings>();
  auto begins = std::make_unique<Beginnings>();
  ASSIGN_OR_RETURN(begins->encoder,
                   OpenEncoder(options.encoder.folder, options.runtime.model, config, tokenizer));
  RETURN_IF_ERROR(BeginEncoded(begins->encoder, config, plan));
  ASSIGN_OR_RETURN(begins->room, RoomFor(begins->encoder, *plan, plan->begins.compression, config));
  return begins;
}

CheckMemory BehindBeginnings(Beginnings* begins, const LearnOptions& options,
                             const ModelConfig& config, CheckMemory learning) {
  if (begins == nullptr) return learning;
  const LearnSizes sizes = OnThisMachine(SizesOf(begins->encoder, begins->room, config), options);
  return [reading = LearningFits(options.runtime, sizes, /*serves=*/false, &begins->limits),
          learning = std::move(learning)](const ServedShape& shape, const MemoryBudget& budget,
                                          MemorySum sum) {
    RETURN_IF_ERROR(reading(shape, budget, sum));
    return learning(shape, budget, std::move(sum));
  };
}

Status ReadBeginnings(const Beginnings& begins, LoadedModel& model, LearningPlan* plan) {
  ASSIGN_OR_RETURN(const auto reader, EncoderAtWork::Make(begins.encoder, begins.room, model,
                                                          begins.limits, model.stream));
  return ReadBeginnings(*reader, plan);
}

}  // namespace graft
