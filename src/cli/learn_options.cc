#include "cli/learn_options.h"

#include <type_traits>
#include <utility>

#include "tuning/recipe.h"

namespace graft {

LearnOptions::LearnOptions() {
  runtime.log.level = "warn";
  runtime.device = {.kind = DeviceChoice::Kind::kCpu};
  runtime.limits.sequences_max = 0;  // by the device
  runtime.limits.adapters_max = 16;
  runtime.read_at_start_gib = 0.0;  // what is asked for is read when it is
  method.learner = kLearnerNames[0];
}

std::vector<Option> LearnDocumentRows(LearnOptions& o) {
  return {
      Positional({"files", Texts(o.files), "documents: text, Markdown, HTML, or PDF by pdftotext"}),
      {"name", Texts(o.names),
       "an adapter's name, by which requests ask for it; repeated for the next file",
       "the file's, without its ending"},
      {"adapters", Text(o.adapters),
       "folder that the adapters' folders are made in: what graft serve reads"},
      {"replace", Switch(o.replace), "an adapter of that name is learned anew"},
      {"texts", Text(o.texts),
       "all but next-token: folder that keeps what the base writes; whoever learns the same "
       "document again, by another learner or rank, finds it there",
       "it is not kept"},
      {"sequences-max", Number(o.runtime.limits.sequences_max, Between(0, 2048)),
       "texts that the base writes, or answers, at once; 0: 1024 on a GPU, 16 on the CPU"},
      {"ask", Texts(o.questions),
       "afterwards, print how the base and the adapters answer this, by --prompts; may be "
       "repeated"},
      {"answer-tokens", Number(o.answer_tokens, AtLeast(1)), "of such an answer, at most"}};
}

namespace {

OptionTarget TargetOf(const MethodRow& row, int32_t& value) {
  return Number(value, Between(row.min, row.max));
}
OptionTarget TargetOf(const MethodRow& row, double& value) {
  return Number(value, Between(row.min, row.max));
}
OptionTarget TargetOf(const MethodRow& row, std::string& value) {
  return ChosenWord({row.words.begin(), row.words.end()}, value,
                    [&row, &value](size_t i) { value = row.words[i]; });
}
OptionTarget TargetOf(const MethodRow&, std::vector<std::string>& value) { return Texts(value); }

// Ends a flag's help with what its default of 0 means: "; 0: the learner's own", and their numbers.
std::string OwnText(const MethodRow& row) {
  const std::string numbers = OwnOfLearners(row);
  return std::string("; 0: ") + row.own + (numbers.empty() ? "" : ": " + numbers);
}

std::vector<Option> MethodOptions(DocumentMethod& method) {
  std::vector<Option> rows;
  VisitMethod(method, [&rows](const MethodRow& row, auto& value) {
    if (*row.flag == '\0') return;
    Option option = {.name = row.flag, .target = TargetOf(row, value), .help = row.help};
    const bool is_own = *row.own != '\0';
    if constexpr (std::is_arithmetic_v<std::remove_reference_t<decltype(value)>>) {
      if (is_own) option.help += OwnText(row);
    } else if constexpr (!std::is_same_v<std::remove_reference_t<decltype(value)>, std::string>) {
      option.help += "; may be repeated";
      option.default_help = row.own;
    }
    rows.push_back(std::move(option));
  });
  rows.push_back({.name = "hidden-states",
                  .target = Removed("none", kHiddenStatesRemoved),
                  .is_removed = true});
  return rows;
}

std::vector<Option> EncoderRows(LearnOptions& o) {
  return {
      {"encoder", Text(o.encoder.folder),
       "encoder: its folder; where it has one, documents are made by that, and nothing is learned"},
      {"embedder", OneOf(o.encoder.settings.embedder, kEmbedderWords),
       "encoder: in place of LoRA and virtual tokens of its own the base's embeddings of equal "
       "pieces of each window, one a virtual token, by their last state or their mean, and a "
       "linear map that learns"},
      {"reconstruction-only", Switch(o.encoder.settings.reconstruction_only),
       "encoder: its first stage alone, to say documents from their memories"},
      {"reconstruction-passes", Number(o.encoder.settings.window_passes, Between(0, 100'000)),
       "encoder: of its first stage, over all windows; 0: as many as --passes"},
      {"window-answer-passes", Number(o.encoder.settings.window_answer_passes, Between(0, 100'000)),
       "encoder: between its stages, over the answers behind the memory of their own window "
       "alone"}};
}

// How a command learns, which is no document's business.
std::vector<Option> RunRows(LearnOptions& o) {
  return {
      {"seed", Number(o.seed), "the same seed learns the same bits"},
      {"together", Number(o.together, Between(1, 256)),
       "documents whose adapters learn in the same steps"},
      {"kept-gib", Number(o.kept_gib),
       "GiB of activations, then of transposed weights, that are kept for the backward; what "
       "is not is computed again, to the same bits; below 0: half of what is left, on a GPU 7/8"},
      {"checkpoint-seconds", Number(o.checkpoint_seconds, Between(0, 1 << 20)),
       "how often the state is written, from which a command that was killed goes on; 0: at every "
       "batch"},
      {"quiet", Switch(o.quiet), "no progress bars"},
      LogLevelOptionRow(o.runtime.log.level)};
}

}  // namespace

std::vector<Option> LearnTrainingRows(LearnOptions& o) {
  std::vector<Option> rows = MethodOptions(o.method);
  for (Option& row : EncoderRows(o)) rows.push_back(std::move(row));
  for (Option& row : RunRows(o)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace graft
